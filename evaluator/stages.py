"""The stages that run a candidate: examine it in one scenario, race it against one opponent in one scenario."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from evaluator.backend import Program, Side
from evaluator.baseline import Baseline
from evaluator.check import check, confirmed
from evaluator.disturbance import settle
from evaluator.findings import Findings
from evaluator.outcome import Fault, Stage, Timing
from evaluator.peers import baseline_outputs, closing, start_baseline
from evaluator.preparation import Prepared
from evaluator.session import Session
from evaluator.timing import race
from population.candidate import short_id

CHECK_SLOTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Opponent:
    """Somebody to race against: a name, how to start it in a program's scenario, and the outputs that it doesn't compute."""

    name: str
    start: Callable[[Program, int], Side | Fault]
    leaves_out: tuple[str, ...] = ()


def baseline_opponent(session: Session, baseline: Baseline) -> Opponent:
    """A baseline as an opponent."""
    return Opponent(
        name=baseline.name,
        start=lambda program, slots: start_baseline(session, baseline, program, slots),
        leaves_out=baseline.leaves_out,
    )


def rival_opponent(session: Session, rival: Prepared) -> Opponent:
    """Another candidate as an opponent, named ``candidate:ID``; it must claim the scenarios that are raced."""
    by_scenario = {program.scenario.name: program for program in rival.programs}
    return Opponent(
        name=f"candidate:{rival.candidate.id}",
        start=lambda program, slots: session.backend.start(by_scenario[program.scenario.name], slots),
    )


def examine(findings: Findings, rng: np.random.Generator, program: Program, distributions: Sequence[str]) -> Fault | None:
    """Check the program under each distribution in a process of its own; the checks are kept in ``findings``.

    The baseline's outputs, which decide nothing, are asked for in a search only where they are kept with everyday inputs.
    """
    session = findings.session
    side = session.backend.start(program, CHECK_SLOTS)
    if isinstance(side, Fault):
        return replace(side, scenario=program.scenario.name)
    findings.learn(side.facts)
    with closing(side):
        for distribution in distributions:
            draw = session.draw(program.scenario, distribution, rng)
            peer = (
                baseline_outputs(session, program, draw, rng) if session.publishes or distribution == session.everyday else None
            )
            terms = session.examination(rng, program.scenario, program.resolved.nondeterministic)
            checked = check(side, draw, terms, peer)
            if checked.near_miss:
                fresh = partial(session.pool.fresh, program.scenario, distribution, rng)
                checked = confirmed(checked, side, fresh, terms)
            findings.checks.extend(checked.checks)
            if checked.fault is not None:
                return checked.fault
    return None


def race_opponent(
    findings: Findings,
    rng: np.random.Generator,
    program: Program,
    opponent: Opponent,
    *,
    looks: tuple[int, ...] | None = None,
    most_looks: int | None = None,
    stop_below: float | None = None,
) -> Timing | Fault:
    """The race of the program against one opponent, with the host to itself where the CPU is timed.

    ``looks`` are those of the session's settings or, as for a race of its own, others; after ``most_looks`` of them it ends.
    """
    session = findings.session
    slots = session.slots(program.resolved, program.scenario)
    session.prepare_race(program.scenario)
    with session.timing(f"timing {short_id(program.candidate_id)}"):
        rival = opponent.start(program, slots)
        if isinstance(rival, Fault):
            return rival
        with closing(rival):
            side = session.backend.start(program, slots)
            if isinstance(side, Fault):
                return replace(side, scenario=program.scenario.name, stage=Stage.TIME)
            with closing(side):
                terms = session.terms(rng, program.scenario, opponent.name, opponent.leaves_out, stop_below)
                terms = replace(terms, most_looks=most_looks)
                if looks is not None:
                    terms = replace(terms, settings=replace(session.settings, looks=looks))
                if session.backend.device.kind == "cpu":
                    settle()
                raced = race(side, rival, terms)
    if isinstance(raced, Fault):
        return replace(raced, scenario=program.scenario.name, stage=Stage.TIME)
    return raced


def slower_than(
    session: Session, rng: np.random.Generator, program: Program, baseline: Baseline, known_us: float
) -> float | None:
    """How many times as long as ``known_us`` an execution of the baseline takes, by the shorter of two; None where it fails."""
    side = start_baseline(session, baseline, program, session.slots(program.resolved, program.scenario))
    if isinstance(side, Fault):
        return None
    with closing(side):
        times_us = []
        for poison in range(2):
            side.fill(0, session.draw(program.scenario, session.everyday, rng).inputs, poison)
            ran = side.run([0], session.deadline_s(program.scenario))
            if isinstance(ran, Fault):
                return None
            times_us.append(ran.elapsed_us)
    return min(times_us) / known_us
