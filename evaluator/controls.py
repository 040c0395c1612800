"""The two controls of a session: the baseline against itself, and against a copy of itself that is known to be slower."""

from dataclasses import replace

import numpy as np

from evaluator.backend import Program, Ran, Side
from evaluator.disturbance import settle
from evaluator.outcome import Fault, Timing, Verdict
from evaluator.peers import closing, start_baseline
from evaluator.seen_side import SeenSide
from evaluator.session import Controls, Session
from evaluator.timing import race


def slowed(side: Side, slowed_by: float) -> SeenSide:
    """The side with executions that count for a fixed share longer: a difference that a session must be able to see."""
    return SeenSide(side, lambda ran: Ran(elapsed_us=ran.elapsed_us * (1.0 + slowed_by)))


def run_controls(session: Session, program: Program, rng: np.random.Generator) -> Controls | Fault:
    """The session's noise floor from an A/A race in the program's scenario, and whether a slowed copy is told apart."""
    name, slowed_by = session.primary.name, session.settings.slowed_by
    same = race_itself(session, program, rng, 0.0)
    if isinstance(same, Fault):
        return same
    slower = race_itself(session, program, rng, slowed_by)
    if isinstance(slower, Fault):
        return slower
    notes = []
    if not same.low <= 1.0 <= same.high:
        notes.append(
            f"{name} against itself gave {same.ratio:.4f} [{same.low:.4f}, {same.high:.4f}]: "
            "this session favours one side by as much"
        )
    if slower.high >= 1.0:
        notes.append(
            f"a copy of {name} slowed by {100 * slowed_by:.3g} % was not told apart ({slower.ratio:.4f} "
            f"[{slower.low:.4f}, {slower.high:.4f}]): differences that small mean nothing in this session"
        )
    races = (
        replace(same, opponent=f"a copy of {name} over {name}"),
        replace(slower, opponent=f"a copy slowed by {100 * slowed_by:.3g} % over {name}"),
    )
    return Controls(noise_floor_pct=50.0 * (same.high - same.low), races=races, notes=tuple(notes))


def race_itself(session: Session, program: Program, rng: np.random.Generator, slowed_by: float) -> Timing | Fault:
    """The race of the primary baseline against itself in the program's scenario, one side's times lengthened by that share."""
    slots = session.slots(program.resolved, program.scenario)
    session.prepare_race(program.scenario)
    opponent = start_baseline(session, session.primary, program, slots)
    if isinstance(opponent, Fault):
        return opponent
    with closing(opponent):
        copy = start_baseline(session, session.primary, program, slots)
        if isinstance(copy, Fault):
            return copy
        with closing(copy):
            terms = session.terms(rng, program.scenario, session.primary.name, session.primary.leaves_out)
            settle()
            raced = race(slowed(copy, slowed_by), opponent, terms.between_equals())
    if isinstance(raced, Timing):
        return raced
    return replace(raced, verdict=Verdict.HARNESS_FAULT, message=f"the baseline against itself: {raced.message}")
