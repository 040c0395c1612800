"""Baselines as opponents: which there are on this backend, and what they give for the inputs of a check."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from evaluator.backend import Array, Backend, Program, Side
from evaluator.baseline import Baseline
from evaluator.check import peer_outputs
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.pool import Draw
from evaluator.session import Session
from evaluator.task import Task, load_baselines
from evaluator.task_card import TaskCard


def open_baselines(task: Task, card: TaskCard, backend: Backend, named: str | None = None) -> tuple[Baseline, ...]:
    """The baselines of this backend that are available here and compute the whole set, in the card's order; ``named`` first.

    Raises ValueError, with what is missing, where there is none or ``named`` isn't among them.
    """
    refused: dict[str, str] = {}
    usable: dict[str, Baseline] = {}
    for baseline in load_baselines(task.folder):
        if baseline.backend != backend.device.kind or baseline.name not in card.baselines:
            continue
        missing = baseline.available()
        if missing is None and not all(baseline.supports(scenario.symbols) for scenario in card.scenarios):
            missing = f"it doesn't compute every scenario of {card.scenario_set}"
        if missing is None:
            usable[baseline.name] = baseline
        else:
            refused[baseline.name] = missing
    if not usable or (named is not None and named not in usable):
        wanted = "" if named is None else f" {named!r}"
        reasons = "".join(f" {name}: {why}." for name, why in refused.items())
        raise ValueError(
            f"no baseline{wanted} for the {backend.device.kind} backend; available: {', '.join(usable) or 'none'}.{reasons}"
        )
    return tuple(sorted(usable.values(), key=lambda item: (item.name != named, card.baselines.index(item.name))))


def start_baseline(session: Session, baseline: Baseline, program: Program, slots: int) -> Side | Fault:
    """The baseline in the program's scenario; a fault is HARNESS_FAULT, since no candidate can cause it."""
    side = session.backend.start_baseline(session.task.folder, baseline.name, program.resolved, program.scenario, slots)
    if not isinstance(side, Fault):
        return side
    return Fault(
        verdict=Verdict.HARNESS_FAULT,
        stage=Stage.TIME,
        message=f"the baseline {baseline.name} did not start in {program.scenario.name}: {side.message}",
        detail=side.detail,
        scenario=program.scenario.name,
    )


def baseline_outputs(session: Session, program: Program, draw: Draw, rng: np.random.Generator) -> Mapping[str, Array] | None:
    """What the primary baseline gives on the draw's member, undone, run once per member; None where it can't."""

    def make() -> Mapping[str, Array] | None:
        if not session.primary.supports(program.scenario.symbols):
            return None
        side = start_baseline(session, session.primary, program, 1)
        if isinstance(side, Fault):
            return None
        with closing(side):
            found = peer_outputs(side, draw, session.examination(rng, program.scenario), session.primary.leaves_out)
        return None if isinstance(found, Fault) else found

    return session.pool.peer(draw.member, make)


@contextmanager
def closing(side: Side) -> Iterator[Side]:
    """Close the side whatever happens."""
    try:
        yield side
    finally:
        side.close()
