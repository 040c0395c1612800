import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from evaluator.outcome import Effort, Outcome, Verdict
from evaluator.request import Request
from evaluator.simulated import SimulatedEvaluator
from evaluator.task import load_task
from population.candidate import Candidate, Language, hash_text

CARD = load_task(str(Path(__file__).parent / "tiny_task")).card("five")
PLAN = """/* plan
[knobs]
BLOCK = {{ value = {block}, choices = [{choices}] }}
[[launch]]
kernel = "k"
grid = ["n", "1", "1"]
args = ["x", "y", "total", "n", "m"]
*/
{body}
"""
BLOCKS = tuple(range(1, 61))


def candidate(block: int = 8, body: str = "extern void k();") -> Candidate:
    source = PLAN.format(block=block, choices=", ".join(map(str, BLOCKS)), body=body)
    return Candidate(id=hash_text(source), normal_id=hash_text(source), language=Language.CPP, source=source)


def evaluated(block: int = 8, seed: int = 1, effort: Effort = Effort.SEARCH, rivals: Sequence[Candidate] = ()) -> Outcome:
    return SimulatedEvaluator(CARD, seed).evaluate(Request(candidate=candidate(block), effort=effort, rivals=rivals))


def test_an_outcome_is_a_function_of_seed_source_and_effort() -> None:
    assert evaluated() == evaluated()
    assert evaluated().fitness != evaluated(seed=2).fitness
    assert evaluated().fitness != evaluated(block=16).fitness
    assert evaluated().fitness != evaluated(effort=Effort.FINAL).fitness


def test_nobody_takes_it_for_a_measurement() -> None:
    outcome = evaluated()
    assert outcome.device.kind == "simulated"
    assert any("no kernel was built" in note for note in outcome.notes)


def test_about_a_tenth_of_the_settings_fails_each_with_evidence() -> None:
    outcomes = [evaluated(block, seed) for block in BLOCKS for seed in range(5)]
    failed = [outcome for outcome in outcomes if outcome.verdict is not Verdict.OK]
    assert 0.05 < len(failed) / len(outcomes) < 0.16
    assert {outcome.verdict for outcome in failed} == {Verdict.COMPILE_ERROR, Verdict.WRONG, Verdict.CRASH}
    assert all(outcome.fault is not None and outcome.fitness is None for outcome in failed)


def test_a_final_races_the_rivals_and_agrees_with_their_own_scores() -> None:
    right = [block for block in BLOCKS if evaluated(block).verdict is Verdict.OK][:2]
    rival, own = candidate(right[1]), candidate(right[0])
    outcome = evaluated(right[0], effort=Effort.FINAL, rivals=(rival, own))
    races = {race.opponent: race for race in outcome.versus}
    assert set(races) == {"other", "absent", f"candidate:{rival.id}"}
    mine, other = outcome.fitness, evaluated(right[1], effort=Effort.FINAL).fitness
    assert mine is not None
    assert other is not None
    assert math.log(races[f"candidate:{rival.id}"].geomean) == pytest.approx(math.log(mine.geomean / other.geomean), abs=0.005)


def test_plan_errors_are_real() -> None:
    broken = Candidate(id="a", normal_id="a", language=Language.CPP, source="int nothing;")
    outcome = SimulatedEvaluator(CARD, 1).evaluate(Request(candidate=broken))
    assert outcome.verdict is Verdict.PLAN_ERROR
