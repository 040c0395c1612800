"""After a cheat: who is examined in full, who leaves the archive, who comes back; and that a replay comes to the same."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.outcome import CHEATING, Effort, Fault, Outcome, Stage, Verdict
from evaluator.request import Request
from evaluator.simulated import SimulatedEvaluator
from evolve.api import resume, run
from evolve.parts import assemble
from evolve.rules import Rules
from evolve.state import State
from evolve.stopping import StopReason
from evolve.suspicion import Suspicion
from population.candidate import Origin, Step
from results.events import Event, FinalMeasured, StepAsked, StepFolded
from tests.evolve.simulation import ShuffledExecutor, card, config, essence, stored
from tests.evolve.test_loop import Stopping


def fault_of(verdict: Verdict, reaches: str = "", stage: Stage = Stage.CHECK) -> Fault:
    return Fault(verdict=verdict, stage=stage, message="scripted", reaches=reaches)


class Catching(SimulatedEvaluator):
    """The simulated evaluator, but for the candidates whose place in the order of evaluating a test names."""

    def __init__(self, verdicts: dict[int, Fault], final: Sequence[Verdict] = ()) -> None:
        super().__init__(card(), 5)
        self.verdicts, self.final, self.requests = verdicts, list(final), list[Request]()

    def evaluate(self, request: Request) -> Outcome:
        outcome = super().evaluate(request)
        if request.effort is Effort.FINAL:
            fault = fault_of(self.final.pop(0)) if self.final else None
        else:
            fault = self.verdicts.get(len(self.requests))
            self.requests.append(request)
        if fault is None:
            return outcome
        return replace(outcome, verdict=fault.verdict, fault=fault, fitness=None, versus=(), timings=(), checks=())


def in_turn(evaluator: SimulatedEvaluator) -> ShuffledExecutor:
    return ShuffledExecutor(evaluator, 1, 0)


def asked_of(events: Sequence[Event]) -> list[StepAsked]:
    return [event for event in events if isinstance(event, StepAsked) and event.candidate is not None]


@pytest.mark.parametrize(
    ("fault", "cheats"),
    [
        (fault_of(Verdict.SANDBOX), True),
        (fault_of(Verdict.INPUT_MUTATED), True),
        (fault_of(Verdict.TOO_FAST, stage=Stage.TIME), True),
        (fault_of(Verdict.GATE_VIOLATION, "state that outlives a launch", Stage.GATE), True),
        (fault_of(Verdict.GATE_VIOLATION, stage=Stage.GATE), False),
        (fault_of(Verdict.SANDBOX, stage=Stage.BUILD), False),
        *((fault_of(verdict), False) for verdict in Verdict if verdict not in CHEATING),
    ],
)
def test_which_verdicts_tell_of_cheating(fault: Fault, cheats: bool) -> None:
    assert bool(fault.cheats) is cheats


@pytest.mark.parametrize("fault", [fault_of(Verdict.TOO_FAST), fault_of(Verdict.WRONG)])
def test_later_children_of_a_parent_whose_child_was_caught_are_examined_in_full(fault: Fault, tmp_path: Path) -> None:
    evaluator = Catching({3: fault})
    result = run(config(budget={"candidates": 40}), root=tmp_path, executor=in_turn(evaluator))
    events = stored(result.folder)
    asked = asked_of(events)
    assert [request.candidate.id for request in evaluator.requests] == [event.candidate.id for event in asked if event.candidate]
    caught = asked[3].step
    [known] = [
        place for place, event in enumerate(events) if isinstance(event, StepFolded) and event.step_number == caught.number
    ]
    later = {event.step.number for event in events[known:] if isinstance(event, StepAsked)}
    expected = [
        fault.verdict is Verdict.TOO_FAST and event.step.parent_id == caught.parent_id and event.step.number in later
        for event in asked
    ]
    assert [request.thorough for request in evaluator.requests] == expected
    assert any(expected) is (fault.verdict is Verdict.TOO_FAST)
    parents = Counter(event.step.parent_id for event in asked if event.step.number in later)
    assert parents[caught.parent_id], "the parent goes on to breed"


def test_a_resumed_run_asks_for_the_same(tmp_path: Path) -> None:
    faults = {3: fault_of(Verdict.SANDBOX), 6: fault_of(Verdict.INPUT_MUTATED)}
    whole = Catching(faults)
    reference = run(config(), root=tmp_path / "whole", executor=in_turn(whole))
    first = Catching(faults)
    executor = Stopping(first, 1, 0)
    executor.folder, executor.after = tmp_path / "sim", 12
    begun = run(config(), root=tmp_path, executor=executor)
    second = Catching({})
    ended = resume(begun.folder, executor=in_turn(second))
    assert begun.stopped_by is StopReason.REQUESTED
    assert any(request.thorough for request in second.requests)
    assert [request.thorough for request in (*first.requests, *second.requests)] == [
        request.thorough for request in whole.requests
    ]
    assert essence(stored(ended.folder)) == essence(stored(reference.folder))


def step(number: int, parent_id: str | None, candidate_id: str) -> Step:
    origin = Origin.SEED if parent_id is None else Origin.QUESTION
    return Step(number=number, origin=origin, island=0, parent_id=parent_id, candidate_id=candidate_id)


def right(candidate_id: str) -> Outcome:
    [seed, *_] = assemble(config()).seeds()
    return replace(SimulatedEvaluator(card(), 5).evaluate(Request(candidate=seed)), candidate_id=candidate_id, fault=None)


def is_suspect(suspicion: Suspicion, one: Step) -> bool:
    return bool({one.parent_id, one.candidate_id} & suspicion.suspects)


def test_what_comes_from_one_that_a_final_caught_is_out_until_it_passes_in_full() -> None:
    suspicion = Suspicion()
    steps = [step(0, None, "seed"), step(1, "seed", "cheat"), step(2, "cheat", "child"), step(3, "child", "grandchild"),
             step(4, "seed", "honest"), step(5, "cheat", "verified"), step(6, "verified", "heir")]  # fmt: skip
    for each in steps:
        assert not is_suspect(suspicion, each)
        suspicion.take_in(each, right(each.candidate_id or ""), in_full=False)
    suspicion.verified("verified")
    suspicion.caught("cheat", steps)
    assert suspicion.shut_out == {"child", "grandchild"}
    assert suspicion.watched == {"seed"}
    in_flight = step(7, "grandchild", "late")
    suspicion.take_in(in_flight, right("late"), in_full=False)
    assert suspicion.shut_out == {"child", "grandchild", "late"}
    again = step(8, "honest", "child")
    assert is_suspect(suspicion, again)
    suspicion.take_in(again, replace(right("child"), verdict=Verdict.WRONG, fault=fault_of(Verdict.WRONG)), in_full=True)
    assert "child" in suspicion.shut_out
    assert is_suspect(suspicion, step(9, "honest", "grandchild"))
    suspicion.take_in(step(9, "honest", "grandchild"), right("grandchild"), in_full=True)
    assert suspicion.shut_out == {"child", "late"}
    assert not is_suspect(suspicion, step(10, "grandchild", "clean"))
    assert is_suspect(suspicion, step(11, "seed", "watched"))


def test_a_final_that_catches_empties_the_archive_of_its_unexamined_descendants(tmp_path: Path) -> None:
    result = run(config(), root=tmp_path, executor=in_turn(Catching({}, [Verdict.INPUT_MUTATED])))
    events = stored(result.folder)
    state = State(card(), Rules(islands=2, capacity=6))
    for event in events:
        state.apply(event)
    caught = next(event.outcome.candidate_id for event in events if isinstance(event, FinalMeasured))
    assert caught in state.quarantined
    living = {member.candidate_id for member in state.ranking()}
    assert not living & (state.suspicion.shut_out | {caught})
    assert result.best is not None
    assert result.best.id in living


def test_honest_runs_are_examined_as_before(tmp_path: Path) -> None:
    evaluator = Catching(
        {place: fault_of(verdict) for place, verdict in enumerate((Verdict.WRONG, Verdict.STALE_OUTPUT, Verdict.CRASH), 4)}
    )
    run(config(), root=tmp_path, executor=in_turn(evaluator))
    assert not any(request.thorough for request in evaluator.requests)
