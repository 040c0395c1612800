"""Everything the harness does with array contents, once on numpy arrays and once on arrays as strict as cupy's."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evaluator.arrays import array_module, bulk_generator, floats, module_for, places, to_host
from evaluator.backend import Ran
from evaluator.check import Examination, check, judge
from evaluator.compare import Comparison, compare, largest_difference
from evaluator.dtypes import decode, element_type, encode, round_mantissa, unit_in_last_place
from evaluator.outcome import Verdict
from evaluator.pool import Draw, Member, Pool
from evaluator.task import load_task
from evaluator.task_card import Scenario
from evaluator.tolerance import Tolerance, derive
from evaluator.transforms import IDENTITY
from tests.evaluator import strict_arrays
from tests.evaluator.tiny_harness import scenario as tiny_scenario
from tests.evaluator.tiny_harness import tiny

TASK = load_task("attention_forward")
BASE = {"b": 2, "sq": 12, "sk": 9, "h": 4, "hkv": 2, "d": 16, "causal": 1, "window": 0, "dtype": "bf16"}
DTYPES = ("fp32", "fp16", "bf16")


def up(array: Any) -> Any:
    return strict_arrays.asarray(np.array(array))


def uploaded(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: up(array) for name, array in arrays.items()}


def on_device(tolerance: Tolerance) -> Tolerance:
    return replace(tolerance, row_allowed=up(tolerance.row_allowed))


def alike(first: Comparison, second: Comparison) -> None:
    """Equal but for the order in which squares were summed."""
    assert first.rms_error == (None if second.rms_error is None else pytest.approx(second.rms_error, rel=1e-12))
    assert first.share == (None if second.share is None else pytest.approx(second.share, rel=1e-12))
    assert replace(first, rms_error=None, share=None) == replace(second, rms_error=None, share=None)


def examination() -> Examination:
    return Examination(outputs=tiny().outputs, repeats=2, deadline_s=1.0, rng=np.random.default_rng(0))


def same(first: Any, second: Any) -> None:
    """Equal bit by bit, the second on the stand-in."""
    assert isinstance(second, strict_arrays.ndarray)
    np.testing.assert_array_equal(np.asarray(first), to_host(second))
    assert np.asarray(first).dtype == second.dtype


def test_modules_are_told_apart() -> None:
    assert array_module(np.zeros(2)) is np
    assert array_module(np.float32(2)) is np
    assert array_module(up([1.0])) is strict_arrays
    assert module_for("cpu") is np
    with pytest.raises(TypeError, match=r"builtins\.list"):
        array_module([1.0])


def test_the_stand_in_is_strict() -> None:
    device, host = up([1.0, 2.0]), np.array([1.0, 2.0])
    with pytest.raises(TypeError):
        device + host
    with pytest.raises(TypeError):
        host + device
    with pytest.raises(TypeError):
        device[np.array([0])]
    with pytest.raises(TypeError):
        np.abs(device)
    with pytest.raises(TypeError):
        np.concatenate([device])
    with pytest.raises(TypeError):
        np.asarray(device)


def test_several_floats_wait_once() -> None:
    before = strict_arrays.waits[0]
    assert floats(up([1.0, 2.0])[1], 3, up(np.float32(0.5)).max()) == (2.0, 3.0, 0.5)
    assert strict_arrays.waits[0] == before + 1
    assert floats(np.float32(0.5), 3) == (0.5, 3.0)


@pytest.mark.parametrize("make", [np.asarray, up], ids=["host", "device"])
def test_places(make: Any) -> None:
    mask = np.zeros((3, 4, 5), bool)
    assert places(make(mask)) is None
    mask[1, 3, 2] = mask[2, 0, 4] = True
    found = places(make(mask))
    assert found is not None
    assert (found.count, found.first, found.low, found.high) == (2, (1, 3, 2), (1, 0, 2), (2, 3, 4))
    line = places(make(np.array([False, True, True])))
    assert line is not None
    assert (line.first, line.high) == ((1,), (2,))


def test_bulk_draws_follow_more_than_32_secret_bits() -> None:
    def word(seed: int) -> int:
        return int(bulk_generator(strict_arrays, np.random.default_rng(seed)).word)

    class Bits(strict_arrays.random.Generator):
        def __init__(self, bits: Any) -> None:
            self.word = bits.word

    strict_arrays.random.Generator, kept = Bits, strict_arrays.random.Generator  # type: ignore[misc]
    try:
        words = [word(seed) for seed in range(64)]
    finally:
        strict_arrays.random.Generator = kept  # type: ignore[misc]
    assert len(set(words)) == 64
    assert any(one >= 1 << 60 for one in words)
    assert all(one < 1 << 63 for one in words)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding(dtype: str) -> None:
    values = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    values[0, :3] = [np.nan, np.inf, 0.0]
    stored = encode(values, dtype)
    same(stored, encode(up(values), dtype))
    same(decode(stored, dtype), decode(up(stored), dtype))
    finite = values[1:].astype(np.float64)
    same(unit_in_last_place(finite, dtype), unit_in_last_place(up(finite), dtype))
    same(round_mantissa(finite, 7), round_mantissa(up(finite), 7))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("distribution", TASK.distributions)
def test_attention_on_the_device(distribution: str, dtype: str) -> None:
    symbols = {**BASE, "dtype": dtype}
    rng = np.random.default_rng(3)
    drawn = TASK.inputs(symbols, distribution, rng, strict_arrays)
    host = {name: to_host(array) for name, array in drawn.items()}
    expected, there = TASK.reference(symbols, host), TASK.reference(symbols, drawn)
    tolerances, judged = TASK.tolerances(symbols, host, expected), TASK.tolerances(symbols, drawn, there)
    seed = int(rng.integers(99))
    transform, twin = (TASK.transform(symbols, np.random.default_rng(seed)) for _ in range(2))
    shown, shown_there = transform.apply(host), twin.apply(drawn)
    plain, plain_there = TASK.plain(symbols, shown), TASK.plain(symbols, shown_there)
    undone, undone_there = transform.undo(plain), twin.undo(plain_there)
    for name in "qkv":
        same(shown[name], shown_there[name])
    for name in ("out", "lse"):
        same(expected[name], there[name])
        same(tolerances[name].row_allowed, judged[name].row_allowed)
        assert replace(tolerances[name], row_allowed=None) == replace(judged[name], row_allowed=None)  # type: ignore[arg-type]
        same(undone[name], undone_there[name])
        found = compare(there[name], undone_there[name], judged[name])
        alike(found, compare(expected[name], undone[name], tolerances[name]))
        assert found.passed


@pytest.mark.parametrize("dtype", DTYPES)
def test_wrong_answers_of_attention_on_the_device(dtype: str) -> None:
    symbols = {**BASE, "dtype": dtype, "window": 3}
    drawn = TASK.inputs(symbols, "normal", np.random.default_rng(4), strict_arrays)
    host = {name: to_host(array) for name, array in drawn.items()}
    expected, there = TASK.reference(symbols, host), TASK.reference(symbols, drawn)
    wrong, wrong_there = TASK.wrong_answers(symbols, host, expected), TASK.wrong_answers(symbols, drawn, there)
    assert set(wrong) == set(wrong_there)
    for mistake, outputs in wrong.items():
        for name, output in outputs.items():
            same(output, wrong_there[mistake][name])


def spoiled(kind: str, values: np.ndarray) -> np.ndarray:
    values = values.copy()
    if kind == "one element":
        values[1, 2] += 5.0
    if kind == "all a little":
        values += np.where(np.arange(values.size).reshape(values.shape) % 2, 3e-7, -3e-7)
    if kind == "nan":
        values[2, 3] = np.nan
    if kind == "infinity moved":
        values[0, 0], values[0, 1] = 1.0, -np.inf
    return values


@pytest.mark.parametrize("finite", [True, False])
@pytest.mark.parametrize("kind", ["right", "one element", "all a little", "nan", "infinity moved", "shape", "dtype"])
def test_comparisons_say_the_same(kind: str, finite: bool) -> None:
    expected = np.random.default_rng(1).standard_normal((4, 6))
    if not finite:
        expected[0, 0] = -np.inf
    tolerance = derive(expected, [expected.astype(np.float32)], "fp32")
    assert replace(derive(up(expected), [up(expected.astype(np.float32))], "fp32"), row_allowed=None) == replace(  # type: ignore[arg-type]
        tolerance,
        row_allowed=None,  # type: ignore[arg-type]
    )
    got = spoiled(kind, expected).astype(np.float16 if kind == "dtype" else np.float32)
    got = got[:3] if kind == "shape" else got
    before = strict_arrays.waits[0]
    found: Comparison = compare(up(expected), up(got), on_device(tolerance))
    waited = strict_arrays.waits[0] - before
    alike(found, compare(expected, got, tolerance))
    assert found.passed == (kind == "right")
    assert waited <= 7
    if kind == "right" and finite:
        assert waited <= 4
    if kind == "right":
        assert largest_difference(up(got), up(got), "fp32") == largest_difference(got, got, "fp32") == 0.0


def test_no_finite_difference_is_none_on_both() -> None:
    nothing = np.full(3, np.nan, np.float32)
    assert largest_difference(nothing, nothing, "fp32") is None
    assert largest_difference(up(nothing), up(nothing), "fp32") is None


class DeviceSide:
    """A side over the stand-in that computes the tiny task, wrong in one element from execution ``wrong_from`` on.

    ``stale``: an element depends on the poison.
    """

    slots = 2

    def __init__(self, wrong_from: int = 99, stale: bool = False) -> None:
        self.inputs: dict[int, Any] = {}
        self.poisons: dict[int, int] = {}
        self.executions, self.wrong_from, self.stale = 0, wrong_from, stale

    def fill(self, slot: int, inputs: Mapping[str, Any], poison: int) -> None:
        assert all(isinstance(array, strict_arrays.ndarray) for array in inputs.values())
        self.inputs[slot], self.poisons[slot] = inputs, poison

    def run(self, slots: Any, deadline_s: float) -> Any:
        return Ran(elapsed_us=1.0)

    def read(self, slot: int) -> Mapping[str, Any]:
        x = to_host(self.inputs[slot]["x"])
        y = np.float32(2.0) * x
        y[1, 1] += 100.0 * (self.executions >= self.wrong_from) + self.stale * self.poisons[slot]
        self.executions += 1
        return uploaded({"y": y, "total": x.sum(axis=1, dtype=np.float32)})

    def audit(self) -> None:
        return None

    def close(self) -> None:
        return None


def tiny_draw(distribution: str = "normal") -> Draw:
    """A draw of a task that knows numpy only, copied to the device and back by the pool."""
    return Pool(tiny(), 1 << 20, b"secret", strict_arrays).draw(tiny_scenario(), distribution, np.random.default_rng(1))


def test_a_task_for_the_host_is_examined_on_the_device() -> None:
    draw = tiny_draw()
    peer = uploaded({"y": np.float32(2.0) * to_host(draw.member.inputs["x"])})
    found = check(DeviceSide(), draw, examination(), peer)
    assert found.fault is None
    assert found.checks[0].baseline_difference == 0.0


def test_host_and_device_pools_of_a_host_task_hold_the_same() -> None:
    host = Pool(tiny(), 1 << 20, b"secret").draw(tiny_scenario(), "normal", np.random.default_rng(1))
    device = tiny_draw()
    same(host.inputs["x"], device.inputs["x"])
    same(host.member.expected["total"], device.member.expected["total"])
    assert host.member.size_bytes == device.member.size_bytes


def test_a_wrong_element_is_named_on_the_device() -> None:
    draw = tiny_draw()
    found = check(DeviceSide(wrong_from=0), draw, examination())
    assert found.fault is not None
    assert found.fault.verdict is Verdict.WRONG
    assert "first wrong at row=1, column=1: got 1" in found.fault.message
    side = DeviceSide(wrong_from=0)
    side.fill(0, draw.inputs, 0)
    assert judge(draw, side.read(0), tiny().outputs) is not None


def test_what_follows_the_poison_is_found_on_the_device() -> None:
    found = check(DeviceSide(stale=True), tiny_draw(), examination())
    assert found.fault is not None
    assert found.fault.verdict is Verdict.STALE_OUTPUT


def test_a_member_of_attention_lives_on_the_device() -> None:
    symbols = {**BASE, "dtype": "fp16"}
    scenario = Scenario(name="small", symbols=symbols)
    pool = Pool(TASK, 1 << 20, b"secret", strict_arrays)
    member: Member = pool.fresh(scenario, "blended", np.random.default_rng(0)).member
    arrays = [*member.inputs.values(), *member.expected.values(), *(t.row_allowed for t in member.tolerances.values())]
    assert all(isinstance(array, strict_arrays.ndarray) for array in arrays)
    outputs = TASK.plain(symbols, member.inputs)
    draw = Draw(member=member, transform=IDENTITY, inputs=member.inputs)
    assert judge(draw, outputs, TASK.outputs) is None
    assert element_type("fp16").storage == outputs["out"].dtype
