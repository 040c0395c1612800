"""The harness's own kernels for arrays, run on the CPU thread by thread, against what numpy gives; and their build."""

import ctypes
import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evaluator.compare import compare, passed_at_once
from evaluator.cuda import nvrtc
from evaluator.dtypes import decode, encode
from evaluator.tolerance import derive
from evaluator.transforms import Move, moved

DATA = Path(__file__).parent / "data"
ARRAYS = Path(nvrtc.__file__).with_name("arrays.cu")
DTYPES = ("bf16", "fp16", "fp32")
HALVES = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


class Cupy(ModuleType):
    """Arrays of numpy and, for a module, the kernels as the CPU runs them."""

    float64, uint32 = np.float64, np.uint32
    empty, empty_like, asarray, asnumpy = (
        staticmethod(getattr(np, name)) for name in ("empty", "empty_like", "asarray", "asarray")
    )
    built: Any = None
    threads = 8

    class RawModule:
        def __init__(self, code: str, options: tuple[str, ...]) -> None:
            assert code == ARRAYS.read_text()

        def get_function(self, name: str) -> Any:
            function = getattr(Cupy.built, f"emulate_{name}")

            def launch(blocks: tuple[int], threads: tuple[int], arguments: tuple[Any, ...]) -> None:
                given = [
                    ctypes.c_void_p(one.ctypes.data) if isinstance(one, np.ndarray) else ctypes.c_uint32(one) for one in arguments
                ]
                grid = blocks[0] if name == "weigh" else min(blocks[0], 3)  # kernels walk over what the grid doesn't reach
                function(*given, ctypes.c_uint32(grid), ctypes.c_uint32(Cupy.threads))
                for line in (one for one in arguments[-1:] if isinstance(one, np.ndarray) and name.startswith("judge")):
                    line[grid:] = [-1, *[0] * 9]

            return launch


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if (compiler := shutil.which("g++")) is None:
        pytest.skip("no g++ here")
    built = tmp_path_factory.mktemp("arrays") / "arrays.so"
    emulator = str(DATA / "arrays_emulator.cpp")
    flags = ["-std=c++20", "-O1", "-fno-strict-aliasing", "-shared", "-fPIC", "-pthread", f'-DARRAYS="{ARRAYS}"']
    subprocess.run([compiler, *flags, emulator, "-o", str(built)], check=True)
    Cupy.built = ctypes.CDLL(str(built))
    kept = {name: sys.modules.pop(name, None) for name in ("cupy", "evaluator.cuda.kernels")}
    sys.modules["cupy"] = Cupy("cupy")
    yield importlib.import_module("evaluator.cuda.kernels")
    for name, module in kept.items():
        sys.modules.pop(name, None)
        if module is not None:
            sys.modules[name] = module


class Placed(np.ndarray):
    """An array that has its address where CuPy has it."""

    @property
    def data(self) -> Any:  # type: ignore[override]
        return SimpleNamespace(ptr=self.ctypes.data)


def special(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Stored values of every kind: any bits for 16-bit types."""
    if dtype == "fp32":
        values = rng.integers(0, 1 << 32, shape, dtype=np.uint32).view(np.float32)
        return np.where(np.isnan(values), np.float32(1.5), values)
    bits = rng.integers(0, 1 << 16, shape, dtype=np.uint16)
    numbers = np.where(np.isnan(decode(bits if dtype == "bf16" else bits.view(np.float16), dtype)), np.uint16(7), bits)
    return numbers if dtype == "bf16" else numbers.view(np.float16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [16, 5])
@pytest.mark.parametrize("exponent", [-2, 0, 2])
def test_a_move_is_that_of_numpy_bit_by_bit(kernels: Any, dtype: str, last: int, exponent: int) -> None:
    rng = np.random.default_rng(last + exponent)
    array = special(dtype, (3, 4, 6, last), rng).view(Placed)
    for order, flips in (
        ({0: rng.permutation(3), 2: rng.permutation(6)}, rng.random((3, 1, 2, last)) < 0.5),
        ({1: rng.permutation(4)}, rng.random((1, 4, 6, 1)) < 0.5),
        ({}, None),
    ):
        move = Move(order=order, flips=flips, exponent=exponent)
        with np.errstate(over="ignore"):
            wanted = moved(np.asarray(array), dtype, move)
        found = kernels.move(array, dtype, order, flips, exponent)
        unsigned = np.dtype(f"uint{8 * array.dtype.itemsize}")
        np.testing.assert_array_equal(np.asarray(found).view(unsigned), wanted.view(unsigned))


def test_fewer_axes_are_the_last_ones(kernels: Any) -> None:
    rng = np.random.default_rng(0)
    array = special("fp32", (3, 5, 7), rng).view(Placed)
    order = {0: rng.permutation(3), 1: rng.permutation(5)}
    np.testing.assert_array_equal(
        kernels.move(array, "float32", order, None, 0), moved(np.asarray(array), "float32", Move(order=order))
    )


def test_every_half_is_decoded_and_rounded_as_numpy_does(kernels: Any) -> None:
    halves = HALVES.view(np.float16)
    numbers = halves[~np.isnan(halves)].view(Placed)
    for exponent in (-3, -1, 1, 3):
        found = np.asarray(kernels.move(numbers, "fp16", {}, None, exponent))
        with np.errstate(over="ignore"):
            wanted = moved(np.asarray(numbers), "fp16", Move(order={}, exponent=exponent))
        np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))


def test_what_the_kernel_does_not_take_is_left_to_array_functions(kernels: Any) -> None:
    array = np.zeros((4, 6), np.float32).view(Placed)
    assert kernels.move(array.T, "fp32", {}, None, 0) is None
    assert kernels.move(array[:0], "fp32", {}, None, 0) is None
    assert kernels.judge(array.T, array.T, "fp32", array[0]) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wide", [np.float64, np.float32])
@pytest.mark.parametrize("threads", [1, 8])
def test_right_outputs_are_judged_as_by_numpy(kernels: Any, dtype: str, wide: Any, threads: int) -> None:
    rng = np.random.default_rng(3)
    expected = rng.standard_normal((5, 7, 33)).astype(np.float32).astype(np.float64)
    got = encode(expected + 1e-3 * rng.standard_normal(expected.shape), dtype)
    tolerance = derive(expected, [encode(expected + 2e-3 * rng.standard_normal(expected.shape), dtype)], dtype)
    Cupy.threads = threads
    errors = kernels.judge(expected.astype(wide), got, dtype, tolerance.row_allowed)
    assert (errors.over, errors.misplaced, errors.finite) == (0, 0, expected.size)
    found, wanted = passed_at_once(errors, expected.shape, tolerance), compare(expected, got, tolerance)
    assert found is not None
    assert found.rms_error == pytest.approx(wanted.rms_error, rel=1e-12)
    for name in ("max_error", "max_allowed", "worst_index", "got", "want", "kind", "passed", "message"):
        assert getattr(found, name) == getattr(wanted, name), name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", [(0, 0, 0), (4, 6, 32), (2, 3, 17)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3.0, -3.0])
def test_any_single_wrong_element_is_counted(kernels: Any, dtype: str, place: tuple[int, int, int], value: float) -> None:
    expected = np.random.default_rng(4).random((5, 7, 33))
    tolerance = derive(expected, [encode(expected, dtype)], dtype)
    got = encode(expected, dtype)
    got[place] = encode(np.array([value]), dtype)[0]
    errors = kernels.judge(expected, got, dtype, tolerance.row_allowed)
    assert (errors.over, errors.misplaced) == ((1, 0) if np.isfinite(value) else (0, 1))
    if np.isfinite(value):
        assert np.unravel_index(errors.at, expected.shape) == place
    assert passed_at_once(errors, expected.shape, tolerance) is None


def test_infinities_and_nan_must_stand_where_they_are_expected(kernels: Any) -> None:
    expected = np.random.default_rng(5).random((4, 9))
    expected[0, :3] = [np.inf, -np.inf, np.nan]
    right = expected.astype(np.float32)
    tolerance = derive(expected, [right], "fp32")
    errors = kernels.judge(expected, right, "fp32", tolerance.row_allowed)
    assert (errors.over, errors.misplaced, errors.finite) == (0, 0, 33)
    assert passed_at_once(errors, expected.shape, tolerance) is not None
    for column, wrong in ((0, -np.inf), (0, 1.0), (1, np.nan), (2, 0.0), (2, np.inf), (3, np.nan)):
        bad = right.copy()
        bad[0, column] = wrong
        assert kernels.judge(expected, bad, "fp32", tolerance.row_allowed).misplaced == 1


def test_a_root_mean_square_beyond_its_allowance_is_not_passed(kernels: Any) -> None:
    expected = np.zeros((8, 8))
    tolerance = derive(expected, [np.full((8, 8), 1e-3, np.float32)], "fp32")
    for factor in (1.4, 1.6):
        errors = kernels.judge(expected, np.full((8, 8), factor * 1e-3, np.float32), "fp32", tolerance.row_allowed)
        assert errors.over == 0
        assert (passed_at_once(errors, expected.shape, tolerance) is not None) == (factor < 1.5)


@pytest.mark.parametrize("keys", [1, 7, 70])
def test_scores_become_weights_of_what_a_row_sees(kernels: Any, keys: int) -> None:
    rng = np.random.default_rng(keys)
    rows, heads = 6, 3
    scores = 5.0 * rng.standard_normal((heads, rows, keys))
    first, last = (rng.integers(0, keys, rows).astype(np.int32) for _ in range(2))
    first[0], last[0], first[1], last[1] = 0, keys - 1, 0, -1
    seen = (np.arange(keys) >= first[:, None]) & (np.arange(keys) <= last[:, None])
    peaks = np.where(seen, scores, -np.inf).max(axis=-1)
    peaks[np.isinf(peaks)] = 0.0
    weights = np.where(seen, np.exp(scores - peaks[..., None]), 0.0)
    found_peaks, found_sums = kernels.weigh(scores, first, last)
    np.testing.assert_array_equal(found_peaks, peaks)
    np.testing.assert_allclose(scores, weights, rtol=1e-14)
    np.testing.assert_allclose(found_sums, weights.sum(axis=-1), rtol=1e-14)


def test_the_kernels_compile() -> None:
    toolkit = nvrtc.find_toolkit()
    if toolkit is None:
        pytest.skip("no CUDA compiler here")
    library = ctypes.CDLL(str(toolkit.nvrtc))
    program = ctypes.c_void_p()
    assert library.nvrtcCreateProgram(ctypes.byref(program), ARRAYS.read_bytes(), b"arrays.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 2)(b"-arch=sm_90", b"-std=c++17")
    status = library.nvrtcCompileProgram(program, 2, options)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    assert status == 0, log.value.decode()
