"""One ledger for tokens, money, GPU seconds and wall time: the worst case is reserved before a call, the truth settled after.

Where calls cost no more than was reserved for them, spending never passes a cap; a call that costs more than its reservation
adds its excess and no more.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum


class Resource(StrEnum):
    """What a budget limits, by the name of its field in ``Amounts`` and ``Caps``."""

    TOKENS = "tokens"
    USD = "usd"
    GPU_S = "gpu_s"
    WALL_S = "wall_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """So much of each resource."""

    tokens: int = 0
    usd: float = 0.0
    gpu_s: float = 0.0
    wall_s: float = 0.0

    def plus(self, other: "Amounts", sign: int = 1) -> "Amounts":
        """The sum, or with ``sign`` -1 the difference."""
        return Amounts(**{one.name: getattr(self, one.name) + sign * getattr(other, one.name) for one in fields(Amounts)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most that may be spent of each resource; None: no limit."""

    tokens: int | None = None
    usd: float | None = None
    gpu_s: float | None = None
    wall_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A call that may be made. It must end within ``amounts.wall_s`` seconds, and be settled."""

    amounts: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A call that may not be made: which resource binds, what the call may need of it and what is left."""

    resource: Resource
    needed: float
    left: float
    cap: float

    def __str__(self) -> str:
        return (
            f"the budget of {self.resource} is spent: {self.left:.6g} of {self.cap:.6g} left, a call may need {self.needed:.6g}"
        )


class Ledger:
    """Counts what a run spends, from any number of threads.

    Wall time isn't a sum: it is what earlier drivers took plus what ``clock`` (seconds, monotonic) has run since; a reservation's
    part of it is cut to what is left.
    """

    def __init__(self, caps: Caps, clock: Callable[[], float]) -> None:
        self._caps = caps
        self._clock = clock
        self._changed = threading.Condition()
        self._reserved = Amounts()
        self._open = 0
        self._spent = Amounts()
        self._began = clock()

    def restore(self, spent: Amounts) -> None:
        """Take in what earlier drivers of the run spent. Call it once, before the first reservation."""
        with self._changed:
            self._spent = spent
            self._began = self._clock()

    @property
    def spent(self) -> Amounts:
        """What is spent, calls under way left out."""
        with self._changed:
            return self._now()

    @property
    def time_is_up(self) -> bool:
        """Whether the wall time's cap is reached."""
        return self._caps.wall_s is not None and self.spent.wall_s >= self._caps.wall_s

    def reserve(self, worst: Amounts, *, wait: bool = True) -> Reservation | Refusal:
        """Room for a call that may cost ``worst``; where calls under way may still give back enough, ``wait`` for them."""
        with self._changed:
            while (refusal := self._refusal(worst)) is not None:
                if not wait or not self._open or refusal.resource is Resource.WALL_S:
                    return refusal
                self._changed.wait()
            spent = self._now()
            cap_s = self._caps.wall_s
            wall_s = worst.wall_s if cap_s is None else min(worst.wall_s, cap_s - spent.wall_s)
            amounts = Amounts(tokens=worst.tokens, usd=worst.usd, gpu_s=worst.gpu_s, wall_s=wall_s)
            self._reserved = self._reserved.plus(amounts)
            self._open += 1
            return Reservation(amounts=amounts)

    def settle(self, reservation: Reservation, actual: Amounts) -> None:
        """Replace a reservation by what the call really cost; its ``wall_s`` is known from the clock and ignored."""
        with self._changed:
            self._reserved = self._reserved.plus(reservation.amounts, -1)
            self._open -= 1
            if not self._open:
                self._reserved = Amounts()  # sums of floats don't cancel exactly
            self._add(actual)
            self._changed.notify_all()

    def charge(self, actual: Amounts) -> None:
        """Count a cost that nobody reserved; its ``wall_s`` is ignored."""
        with self._changed:
            self._add(actual)

    def _add(self, actual: Amounts) -> None:
        spent = self._spent
        self._spent = spent.plus(Amounts(tokens=actual.tokens, usd=actual.usd, gpu_s=actual.gpu_s))

    def _now(self) -> Amounts:
        return self._spent.plus(Amounts(wall_s=self._clock() - self._began))

    def _refusal(self, worst: Amounts) -> Refusal | None:
        """The first resource without room for one more such call."""
        spent = self._now()
        for resource in Resource:
            cap = getattr(self._caps, resource)
            if cap is None:
                continue
            left = cap - getattr(spent, resource)
            needed = getattr(worst, resource)
            if resource is Resource.WALL_S:
                refused = needed > 0 and left <= 0
            else:
                left -= getattr(self._reserved, resource)
                refused = needed > left
            if refused:
                return Refusal(resource=resource, needed=needed, left=max(0.0, left), cap=cap)
        return None
