"""The ledger: whatever calls do and in whatever order, spending stays below its caps."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mutators.answerers.budget import Amounts, Caps, Ledger, Refusal, Reservation, Resource

SCHEDULES = 1000


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def caps(rng: random.Random) -> Caps:
    """Random caps, each of which may be absent."""
    return Caps(
        tokens=rng.choice([None, rng.randint(0, 5000)]),
        usd=rng.choice([None, rng.uniform(0, 5)]),
        gpu_s=rng.choice([None, rng.uniform(0, 500)]),
        wall_s=rng.choice([None, rng.uniform(0, 2000)]),
    )


def worst(rng: random.Random) -> Amounts:
    return Amounts(tokens=rng.randint(0, 900), usd=rng.uniform(0, 0.9), gpu_s=rng.uniform(0, 90), wall_s=rng.uniform(1, 300))


def share(amounts: Amounts, part: float) -> Amounts:
    return Amounts(tokens=int(amounts.tokens * part), usd=amounts.usd * part, gpu_s=amounts.gpu_s * part)


def play(rng: random.Random, ledger: Ledger, clock: Clock, most: float) -> tuple[int, int]:
    """A random schedule of reservations and settlements; calls cost up to ``most`` times what was reserved, and one at most
    costs more than that. How many were granted, how many refused.
    """
    under_way: list[tuple[Reservation, float]] = []
    granted = refused = 0
    excess = most > 1
    for _ in range(rng.randint(1, 60)):
        if under_way and rng.random() < 0.5:
            reservation, began = under_way.pop(rng.randrange(len(under_way)))
            clock.now_s = max(clock.now_s, began + reservation.amounts.wall_s * rng.random())
            part = most if excess else rng.random()
            excess = False
            ledger.settle(reservation, share(reservation.amounts, part))
            continue
        found = ledger.reserve(worst(rng), wait=False)
        if isinstance(found, Refusal):
            refused += 1
        else:
            granted += 1
            under_way.append((found, clock.now_s))
    for reservation, _ in under_way:
        ledger.settle(reservation, share(reservation.amounts, rng.random()))
    return granted, refused


@pytest.mark.parametrize(("most", "allowed"), [(1.0, Amounts()), (2.0, Amounts(tokens=900, usd=0.9, gpu_s=90))])
def test_a_cap_is_never_passed_by_more_than_one_reserved_call(most: float, allowed: Amounts) -> None:
    granted = refused = 0
    for seed in range(SCHEDULES):
        rng, clock = random.Random(seed), Clock()
        limits = caps(rng)
        ledger = Ledger(limits, clock)
        ledger.restore(Amounts(tokens=rng.randint(0, 300), usd=rng.uniform(0, 0.3)))
        already = ledger.spent
        counts = play(rng, ledger, clock, most)
        granted, refused = granted + counts[0], refused + counts[1]
        for resource in (Resource.TOKENS, Resource.USD, Resource.GPU_S):
            cap = getattr(limits, resource)
            if cap is not None:
                over = getattr(ledger.spent, resource) - max(cap, getattr(already, resource))
                assert over <= getattr(allowed, resource) + 1e-9, (seed, resource)
    assert granted > SCHEDULES
    assert refused > SCHEDULES


def test_a_call_gets_no_more_time_than_is_left() -> None:
    clock = Clock()
    ledger = Ledger(Caps(wall_s=100.0), clock)
    ledger.restore(Amounts(wall_s=60.0))
    clock.now_s += 10
    granted = ledger.reserve(Amounts(wall_s=80.0))
    assert isinstance(granted, Reservation)
    assert granted.amounts.wall_s == pytest.approx(30.0)
    clock.now_s += 30
    refused = ledger.reserve(Amounts(wall_s=80.0))
    assert isinstance(refused, Refusal)
    assert refused.resource is Resource.WALL_S


def test_whoever_finds_no_room_waits_for_calls_under_way() -> None:
    ledger = Ledger(Caps(tokens=100), Clock())
    first = ledger.reserve(Amounts(tokens=80))
    assert isinstance(first, Reservation)
    found: list[Reservation | Refusal] = []
    waiting = threading.Thread(target=lambda: found.append(ledger.reserve(Amounts(tokens=60))))
    waiting.start()
    waiting.join(0.1)
    assert found == []
    ledger.settle(first, Amounts(tokens=10))
    waiting.join(10)
    assert isinstance(found[0], Reservation)


def test_many_threads_spend_what_there_is_and_no_more() -> None:
    ledger = Ledger(Caps(tokens=10_000, usd=3.0), Clock())

    def work(seed: int) -> int:
        rng, done = random.Random(seed), 0
        while True:
            found = ledger.reserve(Amounts(tokens=100, usd=0.05))
            if isinstance(found, Refusal):
                return done
            done += 1
            ledger.settle(found, Amounts(tokens=rng.randint(0, 100), usd=rng.uniform(0, 0.05)))

    with ThreadPoolExecutor(8) as pool:
        done = sum(pool.map(work, range(8)))
    assert done > 60
    assert 3.0 - 0.05 < ledger.spent.usd <= 3.0
    assert ledger.spent.tokens <= 10_000


def test_a_refusal_says_what_binds() -> None:
    ledger = Ledger(Caps(usd=2.0), Clock())
    ledger.charge(Amounts(usd=1.5))
    assert str(ledger.reserve(Amounts(usd=0.75))) == "the budget of usd is spent: 0.5 of 2 left, a call may need 0.75"
