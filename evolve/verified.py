"""Which finals say what a run's best is: those of its own device or, where there is none, those of one other device."""

from collections.abc import Iterable, Mapping

from evaluator.outcome import Effort, Outcome, Verdict
from evolve.state import State
from results.events import OutcomeMerged


def verified_finals(state: State) -> Mapping[str, Outcome]:
    """The finals that found a candidate right, by candidate, all of one device; ``results.queries.VERIFIED`` is the same in SQL.

    Those of the run, and those made elsewhere that compare with them. Where there are none, those of the device on which a final
    that came home verified a candidate last.
    """
    merged = [event for event in state.merged if event.outcome.effort is Effort.FINAL]
    merged = [event for event in merged if event.outcome.candidate_id not in state.quarantined]
    caught = {event.outcome.candidate_id for event in state.merged if event.outcome.fault and event.outcome.fault.cheats}
    own = _right({name: final for name, final in state.finals.items() if name not in caught})
    if near := {**_right(_last(event for event in merged if event.comparable)), **own}:
        return near
    far = [event for event in merged if not event.comparable]
    places = [_place(event) for event in far if _right(_last([event]))]
    return _right(_last(event for event in far if _place(event) == places[-1])) if places else {}


def comparable_finals(state: State) -> Iterable[Outcome]:
    """Every final whose figures count as the run's own."""
    yield from state.finals.values()
    for event in state.merged:
        if event.comparable and event.outcome.effort is Effort.FINAL and event.outcome.candidate_id not in state.quarantined:
            yield event.outcome


def _last(events: Iterable[OutcomeMerged]) -> Mapping[str, Outcome]:
    return {event.outcome.candidate_id: event.outcome for event in events}


def _right(finals: Mapping[str, Outcome]) -> dict[str, Outcome]:
    return {name: final for name, final in finals.items() if final.verdict is Verdict.OK and final.fitness is not None}


def _place(event: OutcomeMerged) -> tuple[str, str]:
    return event.outcome.device.name, event.outcome.device.arch
