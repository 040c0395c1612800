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
    """The baselines of this backend that are available here, the primary one first, the others in the card's order.

    The primary one (``named``, or the first in the card's order) computes the whole set, the others at least one scenario of it.
    Variants of which another one here runs the fastest are left out, unless named. Raises ValueError, with what is missing, where
    there is no primary one.
    """
    refused: dict[str, str] = {}
    usable: dict[str, Baseline] = {}
    for baseline in load_baselines(task.folder):
        if baseline.backend != backend.device.kind or baseline.name not in card.baselines:
            continue
        missing = baseline.available()
        computed = 0 if missing else sum(baseline.supports(scenario.symbols) for scenario in card.scenarios)
        if computed < len(card.scenarios):
            refused[baseline.name] = missing or f"it doesn't compute every scenario of {card.scenario_set}"
        if computed:
            usable[baseline.name] = baseline
    covering = sorted(usable.keys() - refused.keys(), key=card.baselines.index)
    if not covering or (named is not None and named not in covering):
        wanted = "" if named is None else f" {named!r}"
        reasons = "".join(f" {name}: {why}." for name, why in refused.items())
        raise ValueError(
            f"no baseline{wanted} for the {backend.device.kind} backend; available: {', '.join(covering) or 'none'}.{reasons}"
        )
    primary = usable[named or covering[0]]
    contained = {part for baseline in usable.values() for part in baseline.best_of}
    others = [baseline for name, baseline in usable.items() if name not in contained | {primary.name}]
    return (primary, *sorted(others, key=lambda baseline: card.baselines.index(baseline.name)))


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
        side = start_baseline(session, session.primary, program, session.slots(program.resolved, program.scenario))
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
