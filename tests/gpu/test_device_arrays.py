"""What the harness does with array contents gives on cupy arrays what it gives on numpy arrays."""

import time
from typing import Any

import numpy as np
import pytest

from evaluator.arrays import module_for, places, to_host
from evaluator.compare import compare
from evaluator.dtypes import decode, encode, round_mantissa, unit_in_last_place
from evaluator.pool import Draw, Pool
from evaluator.task import load_task

pytestmark = pytest.mark.gpu
TASK = load_task("attention_forward")
BASE = {"b": 2, "sq": 70, "sk": 50, "h": 4, "hkv": 2, "d": 64, "causal": 1, "window": 0, "dtype": "bf16"}
DTYPES = ("fp32", "fp16", "bf16")


@pytest.fixture(scope="module")
def xp() -> Any:
    return module_for("cuda")


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_is_the_same_bit_by_bit(xp: Any, dtype: str) -> None:
    values = np.random.default_rng(0).standard_normal((100, 1000)).astype(np.float32)
    values[0, :4] = [np.nan, np.inf, 0.0, 1e-42]
    stored = encode(values, dtype)
    np.testing.assert_array_equal(stored, to_host(encode(xp.asarray(values), dtype)))
    np.testing.assert_array_equal(decode(stored, dtype), to_host(decode(xp.asarray(stored), dtype)))
    finite = values[1:].astype(np.float64)
    np.testing.assert_array_equal(unit_in_last_place(finite, dtype), to_host(unit_in_last_place(xp.asarray(finite), dtype)))
    np.testing.assert_array_equal(round_mantissa(finite, 7), to_host(round_mantissa(xp.asarray(finite), 7)))


def test_places_are_the_same(xp: Any) -> None:
    mask = np.random.default_rng(0).random((3, 40, 50)) < 0.001
    assert places(xp.asarray(mask)) == places(mask)
    assert places(xp.zeros((3, 4), bool)) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("distribution", TASK.distributions)
def test_attention_agrees_with_the_host(xp: Any, distribution: str, dtype: str) -> None:
    symbols = {**BASE, "dtype": dtype}
    rng = np.random.default_rng(3)
    drawn = TASK.inputs(symbols, distribution, rng, xp)
    host = {name: to_host(array) for name, array in drawn.items()}
    expected, there = TASK.reference(symbols, host), TASK.reference(symbols, drawn)
    tolerances = TASK.tolerances(symbols, drawn, there)
    transform = TASK.transform(symbols, rng)
    shown, shown_there = transform.apply(host), transform.apply(drawn)
    undone = transform.undo(TASK.plain(symbols, shown_there))
    size = float(np.abs(decode(host["v"], dtype)).max())
    for name in "qkv":
        np.testing.assert_array_equal(shown[name], to_host(shown_there[name]))
    for name in ("out", "lse"):
        np.testing.assert_allclose(to_host(there[name]), expected[name], rtol=1e-9, atol=1e-9 * size)
        assert compare(there[name], undone[name], tolerances[name]).passed
    for outputs in TASK.wrong_answers(symbols, drawn, there).values():
        assert all(isinstance(array, xp.ndarray) for array in outputs.values())


def test_float32_products_are_not_rounded_to_tf32(xp: Any) -> None:
    symbols = {**BASE, "dtype": "fp32", "sq": 256, "sk": 256}
    inputs = TASK.inputs(symbols, "normal", np.random.default_rng(1), xp)
    tolerance = TASK.tolerances(symbols, inputs, TASK.reference(symbols, inputs))["out"]
    assert tolerance.plain_max < 1e-5


def test_a_large_draw_is_judged_in_milliseconds(xp: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints what one member, one fill and one comparison of a 16k-token scenario take; asserts only that they are right."""
    scenario = next(one for one in TASK.card("quick3").scenarios if one.symbols["sq"] == 4096)
    pool = Pool(TASK, 1 << 34, b"secret", xp)
    steps = {}

    def timed(name: str, step: Any) -> Any:
        began = time.perf_counter()
        result = step()
        xp.cuda.Device().synchronize()
        steps[name] = 1e3 * (time.perf_counter() - began)
        return result

    rng = np.random.default_rng(0)
    for turn in ("first", "again"):
        draw: Draw = timed(f"{turn}: member", lambda: pool.fresh(scenario, "blended", rng))
        transform = TASK.transform(scenario.symbols, rng)
        shown = timed(f"{turn}: transform", lambda t=transform, d=draw: t.apply(d.member.inputs))
        outputs = transform.undo(TASK.plain(scenario.symbols, shown))
        member = draw.member
        found = timed(f"{turn}: compare", lambda m=member, o=outputs: compare(m.expected["out"], o["out"], m.tolerances["out"]))
        assert found.passed, found.message
    with capsys.disabled():
        print("\n" + "\n".join(f"{name}: {ms:.1f} ms" for name, ms in steps.items()))


def test_the_fastest_variant_is_measured_by_graphs(xp: Any) -> None:
    torch = pytest.importorskip("torch")
    from evaluator.baseline import Bound
    from evaluator.tasks.attention_forward.fa3 import fastest

    small, large = (torch.randn(n, n, device="cuda") for n in (256, 4096))
    bound = {
        name: Bound(call=lambda t=tensor: t @ t, store=lambda: None) for name, tensor in (("large", large), ("small", small))
    }
    assert fastest(bound) == "small"
