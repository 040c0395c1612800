from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.outcome import Effort, Fault, Outcome, Stage, Verdict
from evaluator.request import Request
from evaluator.simulated import SimulatedEvaluator
from evolve.api import resume, run
from evolve.config import ConfigError
from evolve.executors.base import Done
from evolve.stopping import StopReason
from population.candidate import Origin
from results.events import Event, FinalMeasured, RunNoted, RunStopped, StepAsked, StepEvaluated, StepFolded, TimeSpent
from results.folder import request_stop
from tests.evolve.simulation import SEEDS, ShuffledExecutor, card, config, essence, shuffled, stored


def asked_of(events: Sequence[Event]) -> list[StepAsked]:
    return [event for event in events if isinstance(event, StepAsked)]


def test_a_run_asks_evaluates_and_verifies(tmp_path: Path) -> None:
    result = run(config(), root=tmp_path, executor=shuffled())
    events = stored(result.folder)
    asked = asked_of(events)
    assert result.stopped_by is StopReason.CANDIDATES
    assert result.candidates == 24 == sum(event.candidate is not None for event in asked)
    assert result.questions_asked == len(asked) - len(SEEDS)
    assert result.best is not None
    assert result.best.verified
    assert result.best.over_baseline.name == "peer"
    assert result.best.over_better_seed is not None
    assert result.best.over_better_seed.low > 1.0
    for event in asked[len(SEEDS) :]:
        assert event.question is not None
        assert event.question.settle
        assert event.header is not None or event.rejected is not None


def test_steps_take_turns_on_the_islands_and_parents_live_there(tmp_path: Path) -> None:
    result = run(config(population={"islands": 3}, budget={"candidates": 32}), root=tmp_path, executor=shuffled())
    asked = asked_of(stored(result.folder))
    home: dict[str, int] = {}
    counts = [0, 0, 0]
    for event in asked:
        step = event.step
        if step.origin is Origin.SEED:
            continue
        counts[step.island] += 1
        if event.candidate:
            home[event.candidate.id] = step.island
        assert home.get(step.parent_id or "", step.island) == step.island
        assert all(home.get(seen, step.island) == step.island for seen in step.inspiration_ids)
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("lookahead", [1, 2, 5])
def test_proposal_sees_results_up_to_its_lookahead_and_no_further(tmp_path: Path, lookahead: int) -> None:
    result = run(config(executor={"lookahead": lookahead}), root=tmp_path, executor=shuffled(workers=8))
    folded = -1
    for event in stored(result.folder):
        if isinstance(event, StepFolded):
            assert event.step_number == folded + 1
            folded = event.step_number
        if isinstance(event, StepAsked) and event.step.origin is not Origin.SEED:
            assert folded == max(event.step.number - lookahead, len(SEEDS) - 1)


def test_every_outcome_is_stored_before_it_is_folded(tmp_path: Path) -> None:
    known: set[int] = set()
    for event in stored(run(config(), root=tmp_path, executor=shuffled()).folder):
        if isinstance(event, StepAsked) and event.candidate is None:
            known.add(event.step.number)
        if isinstance(event, StepEvaluated):
            known.add(event.step_number)
        if isinstance(event, StepFolded):
            assert event.step_number in known


def test_workers_and_order_of_completion_change_nothing(tmp_path: Path) -> None:
    reference = essence(stored(run(config(), root=tmp_path / "reference").folder))
    for seed, workers in enumerate((1, 2, 8, 8, 8)):
        result = run(config(), root=tmp_path / str(seed), executor=shuffled(workers, seed))
        assert essence(stored(result.folder)) == reference
    other = run(config(run={"seed": 6}), root=tmp_path / "other", executor=shuffled(run_seed=6))
    assert essence(stored(other.folder))[0][1:] != reference[0][1:]


def test_a_known_source_costs_nothing(tmp_path: Path) -> None:
    twice = config(population={"seeds": [*SEEDS, SEEDS[0]]})
    result = run(twice, root=tmp_path, executor=shuffled())
    third = asked_of(stored(result.folder))[2]
    assert third.candidate is None
    assert third.duplicate_of == asked_of(stored(result.folder))[0].step.candidate_id
    assert result.candidates == 24


def test_an_exhausted_search_stops_and_says_so(tmp_path: Path) -> None:
    result = run(config(budget={"candidates": 5000}, mutation={"exhausted_after": 8}), root=tmp_path, executor=shuffled())
    new = [event.candidate is not None for event in asked_of(stored(result.folder))]
    open_steps = config().executor.lookahead  # these were put before it was known that the eighth brought nothing
    assert result.stopped_by is StopReason.EXHAUSTED
    assert any(not any(new[-8 - late : len(new) - late]) for late in range(open_steps + 1))
    assert result.best is not None
    assert result.best.verified


class Stopping(ShuffledExecutor):
    """Asks the run to stop once ``after`` evaluations are done."""

    folder: Path
    after: int

    def collect(self, timeout_s: float) -> Sequence[Done]:
        done = super().collect(timeout_s)
        if len(self.evaluated) >= self.after:
            request_stop(self.folder)
        return done


@pytest.mark.parametrize("after", [1, 2, 7, 15, 23])
def test_a_stop_file_drains_and_resuming_gives_the_same_run(tmp_path: Path, after: int) -> None:
    reference = essence(stored(run(config(), root=tmp_path / "reference").folder))
    executor = Stopping(SimulatedEvaluator(card(), 5), 4, after)
    executor.folder, executor.after = tmp_path / "sim", after
    stopped = run(config(), root=tmp_path, executor=executor)
    assert stopped.stopped_by is StopReason.REQUESTED
    evaluated = sum(isinstance(event, StepEvaluated) for event in stored(stopped.folder))
    assert after <= evaluated == len(executor.evaluated)
    assert isinstance(stored(stopped.folder)[-1], RunStopped)
    again = resume(stopped.folder, executor=shuffled())
    assert again.stopped_by is StopReason.CANDIDATES
    assert essence(stored(again.folder)) == reference


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    first = run(config(), root=tmp_path, executor=shuffled())
    before = essence(stored(first.folder))
    executor = shuffled()
    again = resume(first.folder, executor=executor)
    assert again.best == first.best
    assert executor.evaluated == []
    assert essence(stored(first.folder)) == before


def test_a_larger_budget_goes_on_and_is_remembered(tmp_path: Path) -> None:
    first = run(config(), root=tmp_path, executor=shuffled())
    more = resume(first.folder, ["budget.candidates=30"], executor=shuffled())
    assert more.candidates == 30
    assert resume(first.folder, executor=shuffled()).candidates == 30
    notes = [event.text for event in stored(first.folder) if isinstance(event, RunNoted) and event.facts]
    assert notes == ["configuration changed: budget.candidates: 24 -> 30"]


def test_an_unsafe_change_is_shown_and_refused(tmp_path: Path) -> None:
    first = run(config(), root=tmp_path, executor=shuffled())
    with pytest.raises(ConfigError, match=r"run\.seed: 5 -> 6"):
        resume(first.folder, ["run.seed=6", "budget.candidates=30"], executor=shuffled())


class Clock:
    """Each look at it takes a minute."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 60.0
        return self.now_s


def test_hours_are_summed_over_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evolve.api.time.monotonic", Clock())
    result = run(config(budget={"hours": 0.5, "candidates": 1000}), root=tmp_path, executor=shuffled())
    events = stored(result.folder)
    assert result.stopped_by is StopReason.HOURS
    spent_s = sum(event.wall_s for event in events if isinstance(event, TimeSpent))
    assert result.spent["hours"] == pytest.approx(spent_s / 3600)
    assert spent_s >= 1800
    again = resume(result.folder, executor=shuffled())
    assert again.stopped_by is StopReason.HOURS
    assert len(asked_of(stored(result.folder))) == len(asked_of(events))


class Scripted(SimulatedEvaluator):
    """The simulated evaluator, but for verdicts that a test sets by effort or by how many came before."""

    def __init__(self, *, final: Sequence[Verdict] = (), faults: range = range(0)) -> None:
        super().__init__(card(), 5)
        self.final = list(final)
        self.faults = faults
        self.count = 0

    def evaluate(self, request: Request) -> Outcome:
        outcome = super().evaluate(request)
        verdict = None
        if request.effort is Effort.FINAL:
            verdict = self.final.pop(0) if self.final else None
        else:
            verdict = Verdict.HARNESS_FAULT if self.count in self.faults else None
            self.count += 1
        if verdict in (None, Verdict.OK):
            return outcome
        fault = Fault(verdict=verdict, stage=Stage.CHECK, message="scripted")
        return replace(outcome, verdict=verdict, fault=fault, fitness=None, versus=(), timings=(), checks=())


def test_a_refuted_best_is_set_aside_and_the_next_is_tried(tmp_path: Path) -> None:
    executor = ShuffledExecutor(Scripted(final=[Verdict.WRONG, Verdict.WRONG]), 4, 0)
    result = run(config(), root=tmp_path, executor=executor)
    finals = [event.outcome for event in stored(result.folder) if isinstance(event, FinalMeasured)]
    assert [final.verdict for final in finals] == [Verdict.WRONG, Verdict.WRONG, Verdict.OK]
    assert len({final.candidate_id for final in finals}) == 3
    assert result.best is not None
    assert (result.best.id, result.best.verified) == (finals[2].candidate_id, True)


def test_an_ambiguous_final_is_repeated_and_blames_nobody(tmp_path: Path) -> None:
    executor = ShuffledExecutor(Scripted(final=[Verdict.AMBIGUOUS, Verdict.OK]), 4, 0)
    result = run(config(), root=tmp_path, executor=executor)
    finals = [event.outcome for event in stored(result.folder) if isinstance(event, FinalMeasured)]
    assert [final.verdict for final in finals] == [Verdict.AMBIGUOUS, Verdict.OK]
    assert finals[0].candidate_id == finals[1].candidate_id
    assert result.best is not None
    assert result.best.verified


def test_finals_at_the_end_are_bounded(tmp_path: Path) -> None:
    executor = ShuffledExecutor(Scripted(final=[Verdict.WRONG] * 50), 4, 0)
    result = run(config(), root=tmp_path, executor=executor)
    refuted = [event.outcome.candidate_id for event in stored(result.folder) if isinstance(event, FinalMeasured)]
    assert len(refuted) == 3
    assert result.best is not None
    assert not result.best.verified
    assert result.best.id not in refuted


def test_a_goal_that_a_final_meets_ends_the_run(tmp_path: Path) -> None:
    whole = run(config(), root=tmp_path / "whole", executor=shuffled())
    assert whole.best is not None
    reached = whole.best.over_baseline.low * 0.98
    goal = f"geomean(peer) >= {reached:.4f} and correct == all"
    result = run(config(goal={"expression": goal}), root=tmp_path, executor=shuffled())
    assert result.stopped_by is StopReason.GOAL
    assert result.best is not None
    assert result.best.over_baseline.low >= reached
    assert result.candidates <= whole.candidates
    assert resume(result.folder, executor=shuffled()).stopped_by is StopReason.GOAL


def test_a_refuted_final_does_not_end_the_run_and_is_not_bred_from(tmp_path: Path) -> None:
    easy = config(goal={"expression": "geomean(peer) > 0.001"})
    executor = ShuffledExecutor(Scripted(final=[Verdict.WRONG, Verdict.OK]), 4, 0)
    result = run(easy, root=tmp_path, executor=executor)
    events = stored(result.folder)
    finals = [event.outcome for event in events if isinstance(event, FinalMeasured)]
    assert [final.verdict for final in finals[:2]] == [Verdict.WRONG, Verdict.OK]
    assert all(final.verdict is Verdict.OK for final in finals[2:]), "what was under way and came out better is verified as well"
    assert result.stopped_by is StopReason.GOAL
    after = asked_of(events[events.index(FinalMeasured(outcome=finals[0])) :])
    assert all(event.step.parent_id != finals[0].candidate_id for event in after)


def test_faults_of_the_harness_cost_nothing_and_stop_the_run_when_they_go_on(tmp_path: Path) -> None:
    some = run(config(), root=tmp_path / "some", executor=ShuffledExecutor(Scripted(faults=range(5, 7)), 1, 0))
    events = stored(some.folder)
    outcomes = [event.outcome for event in events if isinstance(event, StepEvaluated)]
    assert sum(outcome.verdict is Verdict.HARNESS_FAULT for outcome in outcomes) == 2
    assert some.candidates == 24 == len(outcomes) - 2
    many = run(config(), root=tmp_path / "many", executor=ShuffledExecutor(Scripted(faults=range(5, 10)), 1, 0))
    assert many.stopped_by is StopReason.FAULTS
    assert resume(many.folder, executor=shuffled()).stopped_by is StopReason.CANDIDATES


def test_no_right_seed_ends_the_run_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "bad.cpp").write_text("int nothing;\n")
    result = run(config(population={"seeds": [str(tmp_path / "bad.cpp")]}), root=tmp_path, executor=shuffled())
    assert result.best is None
    assert result.stopped_by is StopReason.EXHAUSTED
    [note] = [event.text for event in stored(result.folder) if isinstance(event, RunNoted)]
    assert "no seed is right" in note
    assert "PLAN_ERROR" in note


def test_seeds_that_only_the_harness_failed_are_planted_again(tmp_path: Path) -> None:
    """A host without a compiler or a baseline must not end a run for good."""
    first = run(config(), root=tmp_path, executor=ShuffledExecutor(Scripted(faults=range(2)), 1, 0))
    assert (first.stopped_by, first.best, first.candidates) == (StopReason.FAULTS, None, 0)
    again = resume(first.folder, executor=shuffled())
    assert again.stopped_by is StopReason.CANDIDATES
    assert again.candidates == 24
    assert again.best is not None
    seeds = [event.step for event in asked_of(stored(first.folder)) if event.step.origin is Origin.SEED]
    assert [step.number for step in seeds] == [0, 1, 2, 3]
    assert seeds[0].candidate_id == seeds[2].candidate_id
