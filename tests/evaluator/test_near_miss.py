"""Just above the allowance: chance is told from a mistake by fresh inputs, and timed executions have room."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from evaluator.check import FRESH_DRAWS, FRESH_MISSES, NEAR_SHARE, Checked, Examination, check, confirmed, judge
from evaluator.outcome import Verdict
from evaluator.pool import Draw, Pool
from tests.evaluator.fake_backend import Behaviour, FakeBackend, Outputs
from tests.evaluator.test_cascade import evaluated
from tests.evaluator.tiny_harness import QUICK, scenario, side, tiny

Spoil = Callable[[int, Outputs, Outputs], Outputs]


def drawn() -> Draw:
    return Pool(tiny(), 1 << 20, b"secret").fresh(scenario(), "normal", np.random.default_rng(1))


def off_by(share: float) -> Spoil:
    """Outputs whose first element is off by that share of its allowance."""
    draw = drawn()
    allowed = float(draw.member.tolerances["y"].row_allowed[0])

    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        right["y"][0, 0] = draw.member.expected["y"][0, 0] + share * allowed
        return right

    return spoil


@pytest.mark.parametrize(("share", "passes", "near"), [(0.9, True, False), (1.5, False, True), (3.0, False, False)])
def test_a_near_miss_is_told_from_a_gross_one(share: float, passes: bool, near: bool) -> None:
    terms = Examination(outputs=tiny().outputs, repeats=2, deadline_s=1.0, rng=np.random.default_rng(0))
    found = check(side(FakeBackend(), Behaviour(spoil=off_by(share)), 2), drawn(), terms)
    assert (found.fault is None) is passes
    assert found.near_miss is near


@pytest.mark.parametrize(("share", "passes"), [(1.5, True), (3.0, False)])
def test_timed_executions_may_miss_nearly(share: float, passes: bool) -> None:
    draw = drawn()
    right = {name: array.astype(np.float32) for name, array in draw.member.expected.items()}
    assert (judge(draw, off_by(share)(0, right, {}), tiny().outputs) is None) is passes
    assert NEAR_SHARE == 2.0


def confirmation(*shares: float) -> tuple[Checked, int]:
    """What becomes of a near miss where fresh inputs, one set after the other, are off by these shares; how many were drawn."""
    terms = Examination(outputs=tiny().outputs, repeats=2, deadline_s=1.0, rng=np.random.default_rng(0))
    every = [off_by(share) for share in (1.5, *shares)]
    tried = side(FakeBackend(), Behaviour(spoil=lambda number, right, before: every[number // 2](number, right, before)), 2)
    draws: list[Draw] = []

    def fresh() -> Draw:
        draws.append(drawn())
        return draws[-1]

    return confirmed(check(tried, drawn(), terms), tried, fresh, terms), len(draws)


@pytest.mark.parametrize(
    ("fresh", "wrong", "draws"),
    [
        ((0.5, 0.5, 0.5, 0.5), False, 4),
        ((0.5, 1.5, 0.5, 0.5), False, 4),
        ((1.5, 0.5, 0.5, 1.5), True, 4),
        ((1.5, 1.5), True, 2),
        ((3.0,), True, 1),
        ((0.5, 3.0), True, 2),
    ],
)
def test_two_near_misses_or_a_gross_one_on_fresh_inputs_confirm(fresh: tuple[float, ...], wrong: bool, draws: int) -> None:
    found, drawn_sets = confirmation(*fresh)
    assert drawn_sets == draws
    assert (found.fault is not None) is wrong
    assert (FRESH_DRAWS, FRESH_MISSES) == (4, 2)


def test_forgiven_checks_pass_and_say_so() -> None:
    found, _ = confirmation(0.5, 0.5, 1.5, 0.5)
    assert all(one.passed for one in found.checks)
    assert [one.tensor for one in found.checks if "right on 3 of 4 fresh" in one.message] == ["y"]


def once(executions: range) -> Spoil:
    """A miss just above the allowance (some units in the last place), in these executions of a process only."""

    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        if execution in executions:
            right["y"][0] = np.nextafter(np.nextafter(right["y"][0], np.float32(np.inf)), np.float32(np.inf))
        return right

    return spoil


def test_a_miss_that_fresh_inputs_do_not_show_is_forgiven(tmp_path: Path) -> None:
    found = evaluated(tmp_path, Behaviour(spoil=once(range(max(2, QUICK.repeats)))))
    assert found.verdict is Verdict.OK
    assert any("fresh sets" in check.message for check in found.checks)


def test_a_miss_that_fresh_inputs_show_again_is_wrong(tmp_path: Path) -> None:
    assert evaluated(tmp_path, Behaviour(spoil=once(range(10_000)))).verdict is Verdict.WRONG
