"""What the search says of a run to those who look at it: how far the goal is, what is spent and left, who works."""

from dataclasses import dataclass

from results.dashboard.columns import Columns
from results.reader import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition of the goal. ``value`` is the best's lower bound, None where it wasn't measured (``reason`` says why)."""

    text: str
    met: bool
    value: float | None
    threshold: float | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One limit of the run: ``spent`` and ``limit`` in ``unit``; None: no limit."""

    name: str
    spent: float
    limit: float | None
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Goal, budgets and workers of a run.

    ``goal_ratio`` is what the goal asks of the ratio that charts show. ``lease_share`` and ``busy_share`` are of the workers'
    time in which an evaluation held a GPU and in which kernels ran. None where nobody knows.
    """

    goal: str = ""
    conditions: tuple[Condition, ...] = ()
    budgets: tuple[Budget, ...] = ()
    goal_ratio: float | None = None
    workers: int | None = None
    lease_share: float | None = None
    busy_share: float | None = None


def nothing_known(reader: Reader, columns: Columns) -> Outlook:
    """An empty outlook, where nobody told more."""
    return Outlook()
