"""The comparer against wrong answers that differ in as little as possible: one element, anywhere, on both kinds of arrays."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evaluator.compare import Comparison, compare
from evaluator.dtypes import decode, encode
from evaluator.outcome import Verdict
from evaluator.tolerance import Tolerance, derive
from tests.evaluator import strict_arrays

DTYPES = ("fp32", "fp16", "bf16")
SHAPES = ((1,), (7,), (2, 1), (1, 5), (3, 4, 2), (2, 3, 1, 4))
PLAIN_ERROR = {"fp32": 1e-5, "fp16": 1e-3, "bf16": 1e-2}
NEGATIVE_ZERO = {"fp32": np.float32(-0.0), "fp16": np.float16(-0.0), "bf16": np.uint16(0x8000)}

Judge = Callable[[np.ndarray, np.ndarray, Tolerance], Comparison]


def on_host(expected: np.ndarray, got: np.ndarray, tolerance: Tolerance) -> Comparison:
    return compare(expected, got, tolerance)


def on_device(expected: np.ndarray, got: np.ndarray, tolerance: Tolerance) -> Comparison:
    up = strict_arrays.asarray
    return compare(up(expected), up(got), replace(tolerance, row_allowed=up(tolerance.row_allowed)))  # type: ignore[arg-type]


both = pytest.mark.parametrize("judged", [on_host, on_device])
every_type = pytest.mark.parametrize("dtype", DTYPES)


def case(shape: tuple[int, ...], dtype: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Tolerance]:
    """Expected values between 1 and 2 in size, of either sign, their stored form, and a tolerance."""
    rng = np.random.default_rng(seed)
    expected = rng.uniform(1.0, 2.0, shape) * rng.choice([-1.0, 1.0], shape)
    tolerance = derive(expected, [encode(expected + PLAIN_ERROR[dtype], dtype)], dtype)
    return expected, encode(expected, dtype), tolerance


def everywhere(shape: tuple[int, ...]) -> Any:
    return itertools.product(*(range(size) for size in shape))


def stored(value: float, dtype: str) -> Any:
    return encode(np.array([value]), dtype)[0]


@both
@every_type
@pytest.mark.parametrize("shape", SHAPES)
def test_every_kind_of_wrong_value_is_found_in_every_place(judged: Judge, dtype: str, shape: tuple[int, ...]) -> None:
    expected, right, tolerance = case(shape, dtype)
    assert judged(expected, right, tolerance).passed
    for index in everywhere(shape):
        true = float(expected[index])
        wrong = {
            "sign": (stored(-true, dtype), Verdict.WRONG),
            "zero": (stored(0.0, dtype), Verdict.WRONG),
            "negative zero": (NEGATIVE_ZERO[dtype], Verdict.WRONG),
            "double": (stored(2 * true, dtype), Verdict.WRONG),
            "largest": (stored(60000.0, dtype), Verdict.WRONG),
            "nan": (stored(np.nan, dtype), Verdict.NONFINITE),
            "inf": (stored(np.inf, dtype), Verdict.NONFINITE),
            "-inf": (stored(-np.inf, dtype), Verdict.NONFINITE),
        }
        for name, (value, kind) in wrong.items():
            got = right.copy()
            got[index] = value
            found = judged(expected, got, tolerance)
            assert (found.passed, found.kind, found.worst_index) == (False, kind, index), name


def neighbours(expected: float, allowed: float, dtype: str) -> tuple[Any, Any]:
    """The last stored value above ``expected`` that is off by no more than allowed, and the one after it."""
    bits = {"fp32": np.uint32, "fp16": np.uint16, "bf16": np.uint16}[dtype]
    size = stored(abs(expected) + allowed, dtype).view(bits) - bits(2)
    above = [(size + bits(step)) for step in range(5)]  # growing bit patterns are growing sizes
    values = decode(np.array(above, bits).view(np.uint16 if dtype == "bf16" else np.dtype(f"f{bits().itemsize}")), dtype)
    inside = [np.float64(value) - abs(expected) <= allowed for value in values]
    last = inside.index(False) - 1
    assert last >= 0, "the search begins inside"
    signed = np.sign(expected) * values[last : last + 2].astype(np.float64)
    return stored(float(signed[0]), dtype), stored(float(signed[1]), dtype)


@both
@every_type
def test_the_last_value_inside_passes_and_the_next_one_fails_in_every_place(judged: Judge, dtype: str) -> None:
    shape = (3, 4, 2)
    expected, right, tolerance = case(shape, dtype)
    tolerance = replace(tolerance, rms_allowed=1.0)
    for index in everywhere(shape):
        inside, outside = neighbours(float(expected[index]), float(tolerance.row_allowed[index[:-1]]), dtype)
        for value, passes in ((inside, True), (outside, False)):
            got = right.copy()
            got[index] = value
            found = judged(expected, got, tolerance)
            assert (found.passed, found.worst_index) == (passes, index)


@both
def test_each_row_is_held_to_its_own_allowance(judged: Judge) -> None:
    """An error that a row of large values may have, and has here, is found in each row of small ones."""
    expected = np.outer([1e4, 1.0, 1e-3], np.linspace(1.0, 2.0, 6))
    right = encode(expected, "fp32")
    tolerance = derive(expected, [right], "fp32")
    right[0, 5] = np.nextafter(right[0, 5], np.float32(np.inf))
    assert judged(expected, right, tolerance).passed
    for row, column in everywhere((2, 6)):
        got = right.copy()
        got[row + 1, column] += np.float32(1e-3)
        found = judged(expected, got, tolerance)
        assert (found.passed, found.worst_index) == (False, (row + 1, column))


@both
@every_type
def test_the_root_mean_square_finds_what_no_single_element_shows(judged: Judge, dtype: str) -> None:
    expected, _, tolerance = case((8, 16), dtype)
    tolerance = replace(tolerance, row_allowed=np.full(8, 1.0))
    step = 1.1 * tolerance.rms_allowed
    assert not judged(expected, encode(expected + np.sign(expected) * step, dtype), tolerance).passed
    half = expected.copy()
    half[:4] += np.sign(half[:4]) * step
    assert judged(expected, encode(half, dtype), tolerance).passed, "half of the elements stay inside on the average"


@both
@every_type
def test_any_two_places_of_different_kinds_that_change_places_are_found(judged: Judge, dtype: str) -> None:
    expected, _, _ = case((3, 4), dtype)
    special = {(0, 0): np.nan, (0, 3): np.inf, (1, 1): -np.inf, (2, 0): np.nan, (2, 3): -np.inf}
    for index, value in special.items():
        expected[index] = value
    right = encode(expected, dtype)
    tolerance = derive(expected, [right], dtype)
    assert judged(expected, right, tolerance).passed
    for one, other in itertools.combinations(everywhere(expected.shape), 2):
        values = [special.get(index, 0.0) for index in (one, other)]
        if values[0] == values[1] or all(np.isnan(values)):
            continue
        got = right.copy()
        got[one], got[other] = right[other], right[one]
        found = judged(expected, got, tolerance)
        assert (found.passed, found.kind, found.worst_index) == (False, Verdict.NONFINITE, one)


@both
def test_a_finite_element_beside_expected_infinities_is_still_compared(judged: Judge) -> None:
    expected, _, _ = case((3, 4), "fp32")
    expected[:, 0] = -np.inf
    right = encode(expected, "fp32")
    tolerance = derive(expected, [right], "fp32")
    for row, column in everywhere((3, 3)):
        got = right.copy()
        got[row, column + 1] *= np.float32(1.001)
        assert judged(expected, got, tolerance).worst_index == (row, column + 1)


@both
@every_type
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 2)])
def test_nothing_to_compare_is_never_right(judged: Judge, dtype: str, shape: tuple[int, ...]) -> None:
    expected = np.zeros(shape)
    tolerance = Tolerance(
        dtype=dtype, row_allowed=np.ones(shape[:-1]), rms_allowed=1.0, plain_max=0.0, plain_rms=0.0, finite=True
    )
    found = judged(expected, encode(expected, dtype), tolerance)
    assert not found.passed
    assert "nothing was shown" in found.message


@both
def test_a_missing_or_an_additional_element_is_wrong(judged: Judge) -> None:
    expected, right, tolerance = case((3, 4), "fp32")
    for got in (right[:, :3], right[:2], right.reshape(4, 3), right.reshape(12), np.append(right, right[:1], axis=0)):
        assert not judged(expected, got, tolerance).passed
