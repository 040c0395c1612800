"""Every way of being wrong, as a verdict with the place in the message."""

from collections.abc import Mapping

import numpy as np
import pytest

from evaluator.backend import Array
from evaluator.check import Checked, Examination, check, judge
from evaluator.outcome import Stage, Verdict
from evaluator.pool import Draw, Pool
from tests.evaluator.fake_backend import Behaviour, FakeBackend, Outputs, fault
from tests.evaluator.tiny_harness import scenario, side, tiny


def draw(distribution: str = "normal") -> Draw:
    return Pool(tiny(), 1 << 20, b"secret").draw(scenario(), distribution, np.random.default_rng(1))


def examined(
    behaviour: Behaviour,
    *,
    repeats: int = 2,
    nondeterministic: bool = False,
    slots: int = 2,
    peer: Mapping[str, Array] | None = None,
    seed: int = 0,
) -> Checked:
    examination = Examination(
        outputs=tiny().outputs,
        repeats=repeats,
        deadline_s=1.0,
        rng=np.random.default_rng(seed),
        nondeterministic=nondeterministic,
    )
    return check(side(FakeBackend(), behaviour, slots), draw(), examination, peer)


def verdict(checked: Checked) -> Verdict:
    assert checked.fault is not None
    assert checked.fault.scenario == "n4"
    assert checked.fault.stage is Stage.CHECK or checked.fault.message.startswith("programmed")
    return checked.fault.verdict


def test_an_honest_side_passes_with_a_check_per_output() -> None:
    found = examined(Behaviour())
    assert found.fault is None
    assert [item.tensor for item in found.checks] == ["y", "total"]
    assert all(item.passed and item.max_error is not None and item.message == "" for item in found.checks)


@pytest.mark.parametrize("place", [(0, 0), (3, 7), (2, 5)])
def test_a_single_wrong_element_fails_and_is_named(place: tuple[int, int]) -> None:
    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        right["y"][place] += 0.25
        return right

    found = examined(Behaviour(spoil=spoil))
    assert verdict(found) is Verdict.WRONG
    row = int(np.flatnonzero(np.any(draw().undo({"y": _marked(place), "total": np.zeros(4)})["y"], axis=1))[0])
    assert f"row={row}, column={place[1]}: got" in found.fault.message
    assert "1 of 32 elements" in found.fault.message
    assert [item.passed for item in found.checks] == [False, True]
    assert found.checks[0].message == found.fault.message


def _marked(place: tuple[int, int]) -> Array:
    marked = np.zeros((4, 8), np.float32)
    marked[place] = 1.0
    return marked


def test_the_second_output_is_compared_too() -> None:
    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        right["total"] = -right["total"]
        return right

    found = examined(Behaviour(spoil=spoil))
    assert verdict(found) is Verdict.WRONG
    assert found.fault.message.startswith("total")


def test_nan_where_the_reference_is_finite() -> None:
    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        right["y"][1, 1] = np.nan
        return right

    assert verdict(examined(Behaviour(spoil=spoil))) is Verdict.NONFINITE


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("repeats", [2, 3])
def test_an_element_never_written_is_stale_under_every_pair_of_poisons(seed: int, repeats: int) -> None:
    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        right["y"][2:] = before["y"][2:]
        return right

    found = examined(Behaviour(spoil=spoil), seed=seed, repeats=repeats)
    assert verdict(found) is Verdict.STALE_OUTPUT
    assert "y differs" in found.fault.message


@pytest.mark.parametrize("seed", range(6))
def test_writing_nothing_is_stale(seed: int) -> None:
    assert verdict(examined(Behaviour(spoil=lambda e, right, before: before), seed=seed)) is Verdict.STALE_OUTPUT


def _race(execution: int, right: Outputs, before: Outputs) -> Outputs:
    right["y"][0, 0] = np.nextafter(right["y"][0, 0], np.float32(np.inf)) if execution % 3 == 1 else right["y"][0, 0]
    return right


def test_repeats_must_agree_bit_by_bit() -> None:
    found = examined(Behaviour(spoil=_race))
    assert verdict(found) is Verdict.NONDETERMINISTIC
    assert "nondeterministic = true" in found.fault.message


@pytest.mark.parametrize("odd", range(5, 11))
def test_results_that_vary_do_not_follow_the_poison_by_chance(odd: int) -> None:
    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        right["y"][0, 0] += np.float32(execution in (1, 4) or (execution == odd))  # 1 and 4: the first two over the second poison
        return right

    assert verdict(examined(Behaviour(spoil=spoil), repeats=3)) is Verdict.NONDETERMINISTIC


def test_what_varies_with_the_slot_is_not_stale() -> None:
    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        right["y"][0, 0] += np.float32(execution % 2)  # executions take the slots in turn
        return right

    assert verdict(examined(Behaviour(spoil=spoil))) is Verdict.NONDETERMINISTIC


def test_a_declared_spread_within_tolerance_passes() -> None:
    assert examined(Behaviour(spoil=_race), nondeterministic=True).fault is None


def test_a_declared_spread_beyond_tolerance_fails_in_any_repeat() -> None:
    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        right["y"][0, 0] += 1.0 if execution == 2 else 0.0
        return right

    assert verdict(examined(Behaviour(spoil=spoil), nondeterministic=True, repeats=3)) is Verdict.WRONG


@pytest.mark.parametrize("found", [Verdict.INPUT_MUTATED, Verdict.OUT_OF_BOUNDS])
def test_the_audit_decides_before_the_comparison(found: Verdict) -> None:
    spoiled = Behaviour(spoil=lambda e, right, before: {name: -array for name, array in right.items()})
    spoiled.audit_fault = fault(found)
    assert verdict(examined(spoiled)) is found


@pytest.mark.parametrize("number", [0, 1])
def test_a_fault_of_an_execution_ends_the_check(number: int) -> None:
    found = examined(Behaviour(faults={number: fault(Verdict.TIMEOUT)}))
    assert verdict(found) is Verdict.TIMEOUT
    assert found.checks == ()


def test_one_slot_is_enough() -> None:
    assert examined(Behaviour(), slots=1).fault is None
    assert verdict(examined(Behaviour(spoil=_race), slots=1)) is Verdict.NONDETERMINISTIC


def test_the_difference_to_the_baseline_is_kept_where_it_computes_the_output() -> None:
    peer = {"y": draw().member.expected["y"].astype(np.float32) + np.float32(0.5)}
    checks = examined(Behaviour(), peer=peer).checks
    assert checks[0].baseline_difference == pytest.approx(0.5, abs=1e-5)
    assert checks[1].baseline_difference is None


def test_a_timed_execution_is_judged_after_its_transform_is_undone() -> None:
    drawn = draw()
    x = drawn.inputs["x"]
    outputs = {"y": np.float32(2.0) * x, "total": x.sum(axis=1)}
    assert judge(drawn, outputs, tiny().outputs) is None
    outputs["total"] = outputs["total"][::-1].copy()
    found = judge(drawn, outputs, tiny().outputs)
    assert found is not None
    assert (found.verdict, found.stage) == (Verdict.WRONG, Stage.TIME)


def test_an_output_of_another_shape_is_wrong_and_not_an_error() -> None:
    found = judge(draw(), {"y": np.zeros((4, 7), np.float32), "total": np.zeros(4, np.float32)}, tiny().outputs)
    assert found is not None
    assert "shape" in found.message
