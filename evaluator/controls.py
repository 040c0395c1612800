"""The two controls of a session: the baseline against itself, and against a copy of itself that is known to be slower."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from evaluator.backend import Array, Program, Ran, Side
from evaluator.disturbance import settle
from evaluator.outcome import Fault, Timing, Verdict
from evaluator.peers import closing, start_baseline
from evaluator.session import Controls, Session
from evaluator.timing import race


class SlowedSide:
    """A side whose executions count for a fixed share longer: a difference that a session must be able to see."""

    def __init__(self, side: Side, slowed_by: float) -> None:
        self._side = side
        self._slowed_by = slowed_by
        self.slots = side.slots

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        """Fill the slot of the side."""
        self._side.fill(slot, inputs, poison)

    def run(self, slots: Sequence[int], deadline_s: float) -> Ran | Fault:
        """Run the side and lengthen its time."""
        ran = self._side.run(slots, deadline_s)
        return ran if isinstance(ran, Fault) else Ran(elapsed_us=ran.elapsed_us * (1.0 + self._slowed_by))

    def read(self, slot: int) -> Mapping[str, Array]:
        """The outputs of the side's slot."""
        return self._side.read(slot)

    def audit(self) -> Fault | None:
        """What the side's audit says."""
        return self._side.audit()

    def close(self) -> None:
        """Close the side."""
        self._side.close()


def run_controls(session: Session, program: Program, rng: np.random.Generator) -> Controls | Fault:
    """The session's noise floor from an A/A race in the program's scenario, and whether a slowed copy is told apart."""
    name, slowed_by = session.primary.name, session.settings.slowed_by
    same = race_itself(session, program, rng, 0.0)
    if isinstance(same, Fault):
        return same
    slowed = race_itself(session, program, rng, slowed_by)
    if isinstance(slowed, Fault):
        return slowed
    notes = []
    if not same.low <= 1.0 <= same.high:
        notes.append(
            f"{name} against itself gave {same.ratio:.4f} [{same.low:.4f}, {same.high:.4f}]: "
            "this session favours one side by as much"
        )
    if slowed.high >= 1.0:
        notes.append(
            f"a copy of {name} slowed by {100 * slowed_by:.3g} % was not told apart ({slowed.ratio:.4f} "
            f"[{slowed.low:.4f}, {slowed.high:.4f}]): differences that small mean nothing in this session"
        )
    races = (
        replace(same, opponent=f"a copy of {name} over {name}"),
        replace(slowed, opponent=f"a copy slowed by {100 * slowed_by:.3g} % over {name}"),
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
            raced = race(SlowedSide(copy, slowed_by), opponent, terms.between_equals())
    if isinstance(raced, Timing):
        return raced
    return replace(raced, verdict=Verdict.HARNESS_FAULT, message=f"the baseline against itself: {raced.message}")
