"""By which events a run takes in what lies elsewhere: those of the other log itself, or what becomes of each of its outcomes."""

from collections.abc import Sequence
from enum import StrEnum

from evaluator.outcome import Verdict
from evolve.merge_rules import Placing, Timed, yardstick_of
from evolve.merge_sources import Brought
from evolve.state import State
from results.events import CONFIG_FACT, FinalMeasured, OutcomeMerged, RunNoted, StepAsked, StepEvaluated, StepMerged
from results.log import Recorded
from results.merge_history import History, continuation, shared_asked, shared_decided

MERGED_FACT = "merged"
"""The fact of a RunNoted that says what came home, and from where."""


class How(StrEnum):
    """How a run took something in."""

    GOES_ON = "goes on"
    """It goes on with the other's events, as if there had been one run."""
    BESIDE = "beside"
    """What its steps waited for became theirs, all else stands beside."""
    NOTHING = "nothing"
    """It has everything already."""


def planned(home: History, found: Brought, state: State, now: float) -> tuple[How, list[Timed]]:
    """How a run takes in what was found elsewhere, and the events by which it does, in order; none where it has everything.

    ``state`` is the run's and is only read; ``now``, in seconds since 1970, is the time of what has none of its own.
    """
    placing = Placing(home, state, found.name)
    if found.folder is None:
        for _, outcome in found.outcomes:
            placing.outcome(now, found.candidates[outcome.candidate_id], outcome)
        return How.BESIDE, placing.events
    tail = continuation(home, found.history)
    if tail is not None and _of_one_device(home, tail):
        return How.GOES_ON, _going_on(home, found.history, tail, placing)
    _beside(home, found, placing)
    return How.BESIDE, placing.events


def _of_one_device(home: History, tail: Sequence[Recorded]) -> bool:
    """Whether what was measured there compares with the run's own outcomes."""
    yardstick = yardstick_of(event.outcome for event in home.outcomes.values())
    for recorded in tail:
        if not isinstance(recorded.event, StepEvaluated | FinalMeasured):
            continue
        outcome = recorded.event.outcome
        if outcome.verdict is not Verdict.HARNESS_FAULT:
            if not yardstick.admits(outcome):
                return False
            yardstick = yardstick.plus(outcome)
    return True


def _going_on(home: History, other: History, tail: Sequence[Recorded], placing: Placing) -> list[Timed]:
    """The events by which home goes on. A configuration that was changed at home meanwhile stays; what is merged already too.

    What the other noted of its own merges stays there, or two copies would hand each other their notes for ever.
    """
    changed = [recorded.event for recorded in home.others if _notes(recorded, CONFIG_FACT)]
    there = [recorded.event for recorded in other.others if _notes(recorded, CONFIG_FACT)]
    own = any(event not in there for event in changed)
    tail = [recorded for recorded in tail if not _notes(recorded, MERGED_FACT) and not (own and _notes(recorded, CONFIG_FACT))]
    left = [recorded for recorded in tail if not placing.has(recorded.event)]
    return [(recorded.at, recorded.event) for recorded in left]


def _notes(recorded: Recorded, fact: str) -> bool:
    return isinstance(recorded.event, RunNoted) and fact in recorded.event.facts


def _beside(home: History, found: Brought, placing: Placing) -> None:
    """Take in what home's steps wait for, as far as both logs tell the same; all else stands beside."""
    other = found.history
    decided, same = shared_decided(home, other), shared_asked(home, other)
    seeds = {asked.step.number for asked in other.asked[:same] if asked.step.parent_id is None}
    common = {*other.posed(decided), *(seeds if decided else ())}
    for recorded in other.events:
        at, event = recorded.at, recorded.event
        match event:
            case StepAsked(step=step):
                if step.number == same >= len(home.asked) and same in common:
                    placing.answered(at, event)
                    same += 1
                elif step.number >= same:
                    placing.step(at, event, event.candidate)
            case StepEvaluated(step_number=number, outcome=outcome):
                if not (number < same and number in common and placing.evaluated(at, number, outcome)):
                    placing.outcome(at, found.candidates[outcome.candidate_id], outcome)
            case FinalMeasured(outcome=outcome):
                placing.outcome(at, found.candidates[outcome.candidate_id], outcome)
            case StepMerged():
                placing.step(at, event.asked, event.candidate, event.came_from)
            case OutcomeMerged():
                placing.outcome(at, event.candidate, event.outcome, event.came_from)
