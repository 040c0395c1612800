"""What a run may spend and has spent, counted from its events alone, so that a resumed run counts the same."""

from dataclasses import dataclass

from evaluator.outcome import LEASE, Outcome
from evolve.stopping import StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Spending so far.

    ``candidates`` counts evaluations paid for: every new candidate that was asked for, seeds included. Rejected answers and
    duplicates cost none; an evaluation that ended in a fault of the harness is given back. ``wall_s`` sums the drivers'
    time over all sessions in which work was in hand, without that in which one could only wait for answers from outside.
    ``tokens`` and ``usd`` are what answers cost, calls that gave none included; ``gpu_s`` is the time for which evaluations and
    finals held a GPU.
    """

    candidates: int = 0
    wall_s: float = 0.0
    tokens: int = 0
    usd: float = 0.0
    gpu_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a run; None means no limit."""

    candidates: int
    hours: float | None = None
    tokens: int | None = None
    usd: float | None = None
    gpu_hours: float | None = None

    def exceeded_by(self, spent: Spent) -> StopReason | None:
        """The limit that is reached, as the reason to stop; None while one more candidate may be asked for."""
        if spent.candidates >= self.candidates:
            return StopReason.CANDIDATES
        if self.hours is not None and spent.wall_s >= self.hours * 3600:
            return StopReason.HOURS
        if self.tokens is not None and spent.tokens >= self.tokens:
            return StopReason.TOKENS
        if self.usd is not None and spent.usd >= self.usd:
            return StopReason.USD
        if self.gpu_hours is not None and spent.gpu_s >= self.gpu_hours * 3600:
            return StopReason.GPU_HOURS
        return None


def gpu_s_of(outcome: Outcome) -> float:
    """Seconds for which an evaluation held a GPU, 0 where it needed none."""
    held_s = outcome.facts.get(LEASE, 0.0)
    return float(held_s) if isinstance(held_s, int | float) else 0.0
