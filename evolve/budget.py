"""What a run may spend and has spent, counted from its events alone, so that a resumed run counts the same."""

from dataclasses import dataclass

from evolve.stopping import StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Spending so far.

    ``candidates`` counts evaluations paid for: every new candidate that was asked for, seeds included. Rejected answers and
    duplicates cost none; an evaluation that ended in a fault of the harness is given back. ``wall_s`` sums the driver's time
    over all sessions.
    """

    candidates: int = 0
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a run; ``hours`` None means no limit on time."""

    candidates: int
    hours: float | None = None

    def exceeded_by(self, spent: Spent) -> StopReason | None:
        """The limit that is reached, as the reason to stop; None while one more candidate may be asked for."""
        if spent.candidates >= self.candidates:
            return StopReason.CANDIDATES
        if self.hours is not None and spent.wall_s >= self.hours * 3600:
            return StopReason.HOURS
        return None
