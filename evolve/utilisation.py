"""How busy a run kept its GPUs, from its events alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.outcome import Outcome
from evolve.api import stored_config
from evolve.budget import gpu_s_of
from results.events import Event, FinalMeasured, StepEvaluated, TimeSpent

BUSY = "gpu_busy_s"
"""Fact of an outcome: seconds in which kernels of either side ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """``wall_s`` is the drivers' time from the beginning of the first evaluation to the end of the last. The shares are of
    that time and of all GPUs: ``lease_share`` in which an evaluation had one to itself, ``busy_share`` in which kernels ran
    (None where it isn't known).
    """

    wall_s: float
    lease_share: float
    busy_share: float | None


def utilisation(events: Sequence[Event]) -> Utilisation | None:
    """The utilisation of a run with these events, None where no evaluation held a GPU.

    Time is what drivers stored as spent, so neither the time between two drivers counts nor what a killed one lost. Several
    workers have a GPU each, as many as the configuration has now.
    """
    places = [place for place, event in enumerate(events) if isinstance(event, StepEvaluated | FinalMeasured)]
    outcomes = [_outcome(events[place]) for place in places]
    lease_s = sum(map(gpu_s_of, outcomes))
    if not lease_s:
        return None
    wall_s = outcomes[0].wall_s + _spent_s(events, places[0], places[-1])
    available_s = wall_s * stored_config(events)[0].executor.workers
    busy_s = sum(map(_busy_s, outcomes))
    return Utilisation(wall_s=wall_s, lease_share=lease_s / available_s, busy_share=busy_s / available_s if busy_s else None)


def _spent_s(events: Sequence[Event], first: int, last: int) -> float:
    """Time stored between two evaluations; each may be stored together with the time that led to it, which follows it."""
    spent = [(place, event.wall_s) for place, event in enumerate(events) if isinstance(event, TimeSpent) and place > first]
    until = next((place for place, _ in spent if place > last), last)
    own = spent[:1] if spent and spent[0][0] == first + 1 else []
    return sum(wall_s for place, wall_s in spent if place <= until) - sum(wall_s for _, wall_s in own)


def _outcome(event: Event) -> Outcome:
    if not isinstance(event, StepEvaluated | FinalMeasured):
        raise TypeError("only evaluations have an outcome")
    return event.outcome


def _busy_s(outcome: Outcome) -> float:
    value = outcome.facts.get(BUSY, 0.0)
    return float(value) if isinstance(value, int | float) else 0.0
