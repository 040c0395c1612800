"""Moments: each is found by its own sign, in the documented order."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from evaluator.outcome import Verdict
from mutators.attempts import attempt_of, change_of, line_changes
from mutators.moments import MomentSettings, attempts_since_improvement, notice, readded
from mutators.question import Answer, Claim, Moment, Rejected, Rejection, Usage
from population.candidate import Origin, Step
from tests.mutators.factories import SOURCE, attempt, change, header, outcome, question, wrong_outcome

SETTINGS = MomentSettings()


def test_nothing_tried_is_routine() -> None:
    assert notice([], "p", SETTINGS) is Moment.ROUTINE


def test_stall_counts_attempts_of_the_island_not_of_the_parent() -> None:
    history = [attempt(number, parent=f"q{number}") for number in range(9)]
    assert notice(history, "p", SETTINGS) is Moment.ROUTINE
    history.append(attempt(9, parent="q9"))
    assert notice(history, "p", SETTINGS) is Moment.STALL
    history.append(attempt(10, parent="q1", accepted=True, change=change(1.02)))
    assert notice(history, "p", SETTINGS) is Moment.ROUTINE


def test_seeds_and_accepted_slower_candidates_do_not_end_a_stall() -> None:
    history = [attempt(0, parent=None, accepted=True), attempt(1, accepted=True, change=change(0.9)), attempt(2)]
    assert attempts_since_improvement(history) == 2


def test_turned_knobs_are_no_attempts_and_may_gain_in_one_scenario_alone() -> None:
    turned = [attempt(number, verdict="COMPILE_ERROR", swept=True) for number in range(20)]
    assert attempts_since_improvement(turned) == 0
    assert notice(turned, "p", SETTINGS) is Moment.ROUTINE
    alone = change(1.1, best_ratio=1.2, rest_ratio=1.0, scenarios=2)
    made = attempt(20, child="c", change=alone, accepted=True)
    assert notice([made], "c", SETTINGS) is Moment.SUSPICIOUS_WIN
    assert notice([replace(made, swept=True)], "c", SETTINGS) is Moment.ROUTINE
    everywhere = replace(made, swept=True, change=change(1.6))
    assert notice([everywhere], "c", SETTINGS) is Moment.SUSPICIOUS_WIN


@pytest.mark.parametrize("verdict", [Verdict.COMPILE_ERROR, Verdict.WRONG, Verdict.TIMEOUT, Verdict.GATE_VIOLATION])
def test_failure(verdict: Verdict) -> None:
    assert notice([attempt(0, verdict=verdict.value)], "p", SETTINGS) is Moment.FAILURE


@pytest.mark.parametrize("verdict", [Verdict.HARNESS_FAULT, Verdict.CANCELLED, Verdict.DUPLICATE, Verdict.AMBIGUOUS])
def test_what_the_candidate_did_not_cause_is_no_failure(verdict: Verdict) -> None:
    assert notice([attempt(0, verdict=verdict.value)], "p", SETTINGS) is Moment.ROUTINE


def test_only_the_last_attempt_of_this_parent_counts() -> None:
    failed = attempt(0, verdict="WRONG")
    assert notice([failed, attempt(1, change=change(1.0))], "p", SETTINGS) is Moment.ROUTINE
    assert notice([failed, attempt(1, parent="other")], "p", SETTINGS) is Moment.FAILURE


def test_a_moment_about_the_last_attempt_is_not_repeated() -> None:
    again = attempt(0, verdict="WRONG", question=question(moment=Moment.FAILURE))
    assert notice([again], "p", SETTINGS) is Moment.ROUTINE
    slower = attempt(0, change=change(0.9), question=question(moment=Moment.REGRESSION))
    assert notice([slower], "p", SETTINGS) is Moment.ROUTINE


def test_regression_is_right_and_slower() -> None:
    assert notice([attempt(0, change=change(0.9))], "p", SETTINGS) is Moment.REGRESSION
    assert notice([attempt(0, verdict="SLOWER")], "p", SETTINGS) is Moment.REGRESSION
    assert notice([attempt(0, change=change(1.1))], "p", SETTINGS) is Moment.ROUTINE


def test_stall_goes_before_regression() -> None:
    history = [attempt(number, change=change(0.9)) for number in range(10)]
    assert notice(history, "p", SETTINGS) is Moment.STALL


@pytest.mark.parametrize(("claim", "moment"), [(Claim.CEILING, Moment.CEILING_CLAIM), (Claim.DONE, Moment.DONE_CLAIM)])
def test_claims(claim: Claim, moment: Moment) -> None:
    claimed = attempt(0, verdict=Rejection.CLAIM_ONLY.value, header=header(claim))
    assert notice([claimed], "p", SETTINGS) is moment


@pytest.mark.parametrize(
    ("made", "moment"),
    [
        (change(1.6), Moment.SUSPICIOUS_WIN),
        (change(1.05, best_ratio=1.2, rest_ratio=1.0), Moment.SUSPICIOUS_WIN),
        (change(1.05, best_ratio=1.1, rest_ratio=1.0), Moment.ROUTINE),
        (change(1.2, best_ratio=1.3, rest_ratio=1.15), Moment.ROUTINE),
        (change(1.2, best_ratio=1.2, rest_ratio=1.2, scenarios=1), Moment.ROUTINE),
    ],
)
def test_suspicious_win_is_asked_before_anything_is_built_on_it(made: object, moment: Moment) -> None:
    history = [attempt(0, parent="a", child="p", accepted=True, change=made)]
    assert notice(history, "p", SETTINGS) is moment
    assert notice([*history, attempt(1, change=change(1.0))], "p", SETTINGS) is Moment.ROUTINE


def test_faster_than_physics_is_suspicious() -> None:
    assert notice([attempt(0, verdict="TOO_FAST")], "p", SETTINGS) is Moment.SUSPICIOUS_WIN


def edit(number: int, before: str, after: str, parent: str, child: str) -> object:
    added, deleted = line_changes(before, after)
    return attempt(number, parent=parent, child=child, added=added, deleted=deleted, change=change(1.0))


def test_loop_is_lines_that_an_ancestor_deleted() -> None:
    lines = [f"float value{number} = {number}.0f;\n" for number in range(6)]
    with_lines, without = SOURCE + "".join(lines), SOURCE
    history = [edit(0, with_lines, without, "a", "p"), edit(1, without, with_lines + "int fresh = 1;\n", "p", "c")]
    found = readded(history[1], history)
    assert found is not None
    assert found.share == pytest.approx(6 / 7)
    assert found.earlier.number == 0
    assert notice(history, "p", SETTINGS) is Moment.LOOP
    cousin = edit(2, without, with_lines, "other", "d")
    assert readded(cousin, [*history, cousin]) is None


def test_a_knob_that_moves_back_is_no_loop() -> None:
    other = SOURCE.replace("value = 32", "value = 64")
    history = [edit(0, SOURCE, other, "a", "p"), edit(1, other, SOURCE, "p", "a2")]
    assert notice(history, "p", SETTINGS) is Moment.ROUTINE


def test_moved_and_trivial_lines_are_no_change() -> None:
    assert line_changes("int a1 = 1;\nint b2 = 2;\n}\n", "int b2 = 2;\n\nint a1 = 1;\n{\n") == ((), ())
    added, deleted = line_changes("int a1 = 1;\nint a1 = 1;\n", "int a1 = 1;\nfloat c3 = 3;\n")
    assert len(added) == len(deleted) == 1


def test_a_lineage_of_a_thousand_with_a_cycle_ends() -> None:
    history = [edit(n, f"int old{n} = {n};\n", f"int new{n} = {n};\n", f"n{n}", f"n{n + 1}") for n in range(1000)]
    history.append(edit(1000, "", "int old3 = 3;\nint old4 = 4;\nint old5 = 5;\n", "n1000", "n0"))
    found = readded(history[-1], history)
    assert found is not None
    assert found.lines == 3
    assert found.earlier.number in {3, 4, 5}


def test_change_is_over_the_scenarios_that_both_have() -> None:
    before = outcome({"d64_s128": 1.0, "d128_s128": 2.0})
    after = outcome({"d64_s128": 1.1, "d128_s128": 2.0})
    found = change_of(after, before)
    assert found is not None
    assert found.ratio == pytest.approx(1.1**0.5)
    assert (found.best_scenario, found.worst_scenario) == ("d64_s128", "d128_s128")
    assert found.rest_ratio == pytest.approx(1.0)
    assert found.low == pytest.approx(found.ratio * 0.99)
    narrower = change_of(outcome({"d64_s128": 1.1}), before)
    assert narrower is not None
    assert narrower.ratio == pytest.approx(1.1)
    assert narrower.low is None
    assert change_of(wrong_outcome(), before) is None
    assert change_of(outcome({"d64_s1024": 1.0}), before) is None


def test_attempt_of_a_wrong_child() -> None:
    step = Step(number=7, origin=Origin.QUESTION, island=2, parent_id="p", candidate_id="c")
    made = attempt_of(
        step=step,
        accepted=False,
        question=question(),
        answer=Answer(text="", answerer="x", usage=Usage(cost_usd=0.5, wall_s=3.0)),
        header=header(all=1.1),
        rejected=None,
        outcome=wrong_outcome(),
        parent_outcome=outcome(),
        source=SOURCE + "int more = 1;\n",
        parent_source=SOURCE,
    )
    assert (made.number, made.island, made.verdict, made.wall_s, made.cost_usd) == (7, 2, "WRONG", 4.0, 0.5)
    assert made.change is None
    assert made.failure is not None
    assert made.failure.scenario == "d64_s1024"
    assert len(made.added) == 1
    assert notice([made], "p", SETTINGS) is Moment.FAILURE


def test_attempt_of_a_rejected_answer_and_of_a_duplicate() -> None:
    step = Step(number=1, origin=Origin.QUESTION, island=0, parent_id="p", candidate_id=None)
    plain = {"step": step, "accepted": False, "question": question(), "answer": None, "header": None, "outcome": None}
    plain |= {"parent_outcome": None, "source": None, "parent_source": SOURCE}
    rejected = attempt_of(**plain, rejected=Rejected(reason=Rejection.NO_MATCH, message="no"))  # type: ignore[arg-type]
    assert (rejected.verdict, rejected.added) == ("no_match", ())
    assert attempt_of(**plain, rejected=None).verdict == "DUPLICATE"  # type: ignore[arg-type]


def test_a_prediction_far_above_what_came_out_is_asked_about_even_where_the_child_is_faster() -> None:
    missed = attempt(0, header=header(all=1.2), change=change(1.02))
    assert notice([missed], "p", SETTINGS) is Moment.REGRESSION
    assert notice([attempt(0, header=header(all=1.05), change=change(1.02))], "p", SETTINGS) is Moment.ROUTINE
    assert notice([attempt(0, header=header(short=1.3, long=1.1), change=change(1.02))], "p", SETTINGS) is Moment.REGRESSION
    assert notice([attempt(0, header=header(all=1.2), change=change(1.02), verdict="AMBIGUOUS")], "p", SETTINGS) is Moment.ROUTINE
    answered = attempt(0, header=header(all=1.2), change=change(1.02), question=question(moment=Moment.REGRESSION))
    assert notice([answered], "p", SETTINGS) is Moment.ROUTINE


def test_lines_count_byte_for_byte() -> None:
    indented = line_changes("int a1 = 1;\n", "  int a1 = 1;\n")
    assert len(indented[0]) == len(indented[1]) == 1
    before, after = "int gone = 1;\nint two2 = 2;\nint three = 3;\n", "int rest = 4;\n"
    history = [edit(0, before, after, "a", "p"), edit(1, after, before.replace("int", " int"), "p", "c")]
    assert readded(history[1], history) is None
    history[1] = edit(1, after, before, "p", "c")
    found = readded(history[1], history)
    assert found is not None
    assert (found.lines, found.share) == (3, 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_lines_that_come_back_agree_with_the_texts_themselves(seed: int) -> None:
    rng = random.Random(seed)
    sources = [[f"line{rng.randrange(30)} = {rng.randrange(2)};" for _ in range(12)] for _ in range(40)]
    history = [edit(n, "\n".join(a), "\n".join(b), f"s{n}", f"s{n + 1}") for n, (a, b) in enumerate(pairwise(sources))]
    deleted: set[str] = set()
    for made, (before, after) in zip(history, pairwise(sources), strict=True):
        came = list((Counter(after) - Counter(before)).elements())
        found = readded(made, history)
        assert (found.lines if found else 0) == sum(line in deleted for line in came)
        deleted |= set((Counter(before) - Counter(after)).elements())
