"""The harness's own kernels on a real GPU give what numpy gives, and what they cost is printed."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from evaluator.arrays import module_for, to_host
from evaluator.compare import compare, passed_at_once
from evaluator.dtypes import decode, encode
from evaluator.pool import Pool
from evaluator.task import load_task
from evaluator.tolerance import Tolerance, derive
from evaluator.transforms import Move, moved
from population.candidate import Language

pytestmark = pytest.mark.gpu
TASK = load_task("attention_forward")
DTYPES = ("bf16", "fp16", "fp32")
COSTS = (("quick3", "d128_h16_1k_causal"), ("quick3", "d128_h16_4k_full"), ("hopper_182", "d128_h32g8_causal_32k"))
BASE = {"b": 3, "sq": 70, "sk": 50, "h": 8, "hkv": 2, "d": 64, "causal": 1, "window": 0, "dtype": "fp32"}


@pytest.fixture(scope="module")
def xp() -> Any:
    return module_for("cuda")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [64, 96, 7])
@pytest.mark.parametrize("exponent", [-2, 0, 2])
def test_moves(xp: Any, dtype: str, last: int, exponent: int) -> None:
    rng = np.random.default_rng(0)
    array = encode(rng.standard_normal((5, 33, 12, last)), dtype)
    order = {0: rng.permutation(5), 2: rng.permutation(12)}
    for flips in (None, rng.random((5, 1, 4, last)) < 0.5):
        move = Move(order=order, flips=flips, exponent=exponent)
        np.testing.assert_array_equal(to_host(moved(xp.asarray(array), dtype, move)), moved(array, dtype, move))


def on_device(xp: Any, tolerance: Tolerance) -> Tolerance:
    return Tolerance(
        **{name: getattr(tolerance, name) for name in tolerance.__dataclass_fields__}
        | {"row_allowed": xp.asarray(tolerance.row_allowed)}
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wide", [np.float64, np.float32])
def test_right_and_wrong_outputs_are_judged_as_on_the_host(xp: Any, dtype: str, wide: Any) -> None:
    rng = np.random.default_rng(1)
    expected = rng.standard_normal((40, 300, 96)).astype(np.float32).astype(np.float64)
    got = encode(expected + 1e-3 * rng.standard_normal(expected.shape), dtype)
    tolerance = derive(expected, [encode(expected + 2e-3 * rng.standard_normal(expected.shape), dtype)], dtype)
    for place, value in ((None, 0.0), ((0, 0, 0), 5.0), ((39, 299, 95), np.nan), ((7, 100, 13), np.inf)):
        changed = got.copy()
        if place is not None:
            changed[place] = encode(np.array([value]), dtype)[0]
        wanted = compare(expected, changed, tolerance)
        found = compare(xp.asarray(expected.astype(wide)), xp.asarray(changed), on_device(xp, tolerance))
        assert (found.passed, found.kind, found.worst_index) == (wanted.passed, wanted.kind, wanted.worst_index)
        assert found.max_error == (None if wanted.max_error is None else pytest.approx(wanted.max_error, rel=1e-12))
        assert found.rms_error == (None if wanted.rms_error is None else pytest.approx(wanted.rms_error, rel=1e-12))


def test_outputs_that_the_kernel_passes_are_passed_at_once(xp: Any) -> None:
    from evaluator.cuda.kernels import judge

    expected = np.random.default_rng(2).standard_normal((3, 5, 64))
    tolerance = derive(expected, [encode(expected, "bf16")], "bf16")
    errors = judge(xp.asarray(expected), xp.asarray(encode(expected, "bf16")), "bf16", xp.asarray(tolerance.row_allowed))
    assert errors is not None
    assert passed_at_once(errors, expected.shape, tolerance) is not None


@pytest.mark.parametrize("changes", [{}, {"causal": 0}, {"window": 9}, {"sq": 50, "sk": 70}, {"hkv": 8}, {"b": 1, "sq": 3000}])
def test_the_reference_in_few_passes(xp: Any, changes: dict[str, Any]) -> None:
    symbols = BASE | changes
    inputs = TASK.inputs(symbols, "large", np.random.default_rng(3))
    wanted = TASK.reference(symbols, inputs)
    found = TASK.reference(symbols, {name: xp.asarray(array) for name, array in inputs.items()})
    for name in ("out", "lse"):
        np.testing.assert_allclose(to_host(found[name]), wanted[name], rtol=1e-10, atol=1e-10)


def test_what_a_scenario_costs(xp: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints milliseconds of the steps of a check and a block on 16k to 32k tokens; asserts only that all is right."""
    from evaluator.cuda.memory import DeviceMemory
    from tests.gpu.cuda_session import resolved_for

    source = TASK.seeds(Language.CUDA)["portable"].read_text()
    lines = []
    rng = np.random.default_rng(0)
    for set_name, wanted in COSTS:
        scenario = next(one for one in TASK.card(set_name).scenarios if one.name == wanted)
        pool = Pool(TASK, 1 << 34, b"secret", xp)
        steps: dict[str, float] = {}

        def timed(name: str, step: Callable[[], Any], steps: dict[str, float] = steps) -> Any:
            for _ in range(2):  # the first call also compiles and allocates
                xp.cuda.Device().synchronize()
                began = time.perf_counter()
                result = step()
                xp.cuda.Device().synchronize()
                steps[name] = 1e3 * (time.perf_counter() - began)
            return result

        member = timed("inputs", lambda s=scenario: TASK.inputs(s.symbols, "blended", rng, xp))
        expected = timed("reference", lambda s=scenario, m=member: TASK.reference(s.symbols, m))
        timed("tolerances", lambda s=scenario, m=member, e=expected: TASK.tolerances(s.symbols, m, e))
        pool.member(scenario, "blended", 0)
        draw = timed("draw", lambda s=scenario, p=pool: p.draw(s, "blended", rng))
        memory = DeviceMemory(resolved_for(source, TASK, scenario, "sm_90a"), 2)
        timed("fill", lambda d=draw, m=memory: m.fill(0, d.inputs, 0))
        right = draw.member
        outputs = {name: encode(array, right.tolerances[name].dtype) for name, array in right.expected.items()}
        undone = timed("undo", lambda d=draw, o=outputs: d.undo(o))
        assert {name: array.shape for name, array in undone.items()} == {name: array.shape for name, array in outputs.items()}
        for name, array in outputs.items():
            found = timed(f"compare {name}", lambda m=right, n=name, a=array: compare(m.expected[n], a, m.tolerances[n]))
            assert found.passed, found.message
            assert float(np.abs(decode(to_host(array[:1]), right.tolerances[name].dtype)).max()) > 0
        memory.close()
        lines.append(f"{wanted}: " + ", ".join(f"{name} {took_ms:.2f}" for name, took_ms in steps.items()))
    with capsys.disabled():
        print("\nmilliseconds\n" + "\n".join(lines))
