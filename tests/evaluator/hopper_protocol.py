"""The protocol of seeds/hopper.cu between its loading and its computing warpgroups, as generators that a random scheduler runs.

A generator yields a condition that it waits for. Barriers flip their phase when all arrivals came, as mbarriers do.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

Wait = Callable[[], bool]
ARRIVALS = 4
"""Warps of a computing warpgroup, each of which arrives on its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A problem and a variant: sizes in rows and keys, ``grid`` blocks, ``section`` heads."""

    rows: int
    keys: int
    heads: int
    block_m: int
    block_n: int
    warpgroups: int
    stages: int
    q_stages: int
    causal: bool
    window: int
    upwards: bool
    grid: int
    section: int

    @property
    def query_blocks(self) -> int:
        """Query blocks of one head."""
        return -(-self.rows // self.block_m)

    @property
    def tiles(self) -> int:
        """Query blocks of all heads."""
        return self.query_blocks * self.heads


def tile_at(shape: Shape, number: int) -> tuple[int, int]:
    """Head and query block of a tile number, as tile_at() in the source."""
    if not shape.causal:
        return divmod(number, shape.query_blocks)
    part, rest = divmod(number, shape.section * shape.query_blocks)
    turn, head = divmod(rest, max(1, min(shape.section, shape.heads - part * shape.section)))
    return part * shape.section + head, shape.query_blocks - 1 - turn


def blocks_of(shape: Shape, block: int) -> tuple[int, int]:
    """First and last key block of a query block, as blocks_of() in the source."""
    offset = shape.keys - shape.rows
    end = min(shape.rows, (block + 1) * shape.block_m) + offset if shape.causal else shape.keys
    first = max(block * shape.block_m + offset - shape.window, 0) // shape.block_n if shape.window else 0
    return first, max(-(-end // shape.block_n) - 1, 0)


def order_of(shape: Shape, block: int) -> list[int]:
    """The key blocks of a query block in the order in which they are visited."""
    first, last = blocks_of(shape, block)
    order = list(range(last, first - 1, -1))
    return order[::-1] if shape.upwards else order


class Barrier:
    """An mbarrier: ``phase`` flips when ``count`` arrivals have come."""

    def __init__(self, count: int) -> None:
        self.count = self.pending = count
        self.phase = 0

    def arrive(self, times: int = 1) -> None:
        self.pending -= times
        assert self.pending >= 0, "more arrivals than the barrier waits for"
        if self.pending == 0:
            self.pending, self.phase = self.count, self.phase ^ 1

    def done(self, parity: int) -> Wait:
        return lambda: self.phase != parity


@dataclass(slots=True)
class Ring:
    """Buffers with their barriers and what lies in them."""

    full: list[Barrier]
    empty: list[Barrier]
    holds: list[object]


def ring(stages: int, warpgroups: int) -> Ring:
    """An empty ring."""
    full, empty = [Barrier(1) for _ in range(stages)], [Barrier(ARRIVALS * warpgroups) for _ in range(stages)]
    return Ring(full, empty, [None] * stages)


@dataclass(slots=True)
class Cursor:
    """A place in a ring, and the phase that belongs to it."""

    ring: Ring
    place: int = 0
    phase: int = 0

    def step(self) -> None:
        self.place += 1
        if self.place == len(self.ring.full):
            self.place, self.phase = 0, self.phase ^ 1


@dataclass(slots=True)
class Machine:
    """One block: its rings, the loads under way, and what each computing warpgroup visited."""

    shape: Shape
    counter: list[int]
    index: int
    q: Ring
    k: Ring
    v: Ring
    loads: list[tuple[Ring, int, object]] = field(default_factory=list)
    visits: dict[tuple[int, int, int], list[int]] = field(default_factory=dict)


def machine(shape: Shape, counter: list[int], index: int) -> Machine:
    """Block number ``index`` of the grid before it starts."""
    q, k, v = (ring(stages, shape.warpgroups) for stages in (shape.q_stages, shape.stages, shape.stages))
    return Machine(shape, counter, index, q, k, v)


def _put(at: Machine, cursor: Cursor, what: object) -> Iterator[Wait]:
    yield cursor.ring.empty[cursor.place].done(cursor.phase ^ 1)
    at.loads.append((cursor.ring, cursor.place, what))
    cursor.step()


def load(at: Machine, dynamic: bool) -> Iterator[Wait]:
    """The loading thread."""
    shape = at.shape
    q, k, v = Cursor(at.q), Cursor(at.k), Cursor(at.v)
    number = at.index
    head, block = tile_at(shape, number)
    yield from _put(at, q, (head, block))
    yield from _put(at, k, (head, order_of(shape, block)[0]))
    while number < shape.tiles:
        order = order_of(shape, block)
        following = number + shape.grid
        if dynamic:
            following = shape.grid + at.counter[0]
            at.counter[0] += 1
        next_head, next_block = tile_at(shape, following)
        inside = following < shape.tiles
        next_q = (next_head, next_block) if inside else None
        for place, (this, then) in enumerate(pairwise(order)):
            yield from _put(at, k, (head, then))
            yield from _put(at, v, (head, this))
            if place == 0 and shape.q_stages > 1:
                yield from _put(at, q, next_q)
        if shape.q_stages > 1:
            if len(order) == 1:
                yield from _put(at, q, next_q)
            if inside:
                yield from _put(at, k, (next_head, order_of(shape, next_block)[0]))
            yield from _put(at, v, (head, order[-1]))
        else:
            yield from _put(at, v, (head, order[-1]))
            yield from _put(at, q, next_q)
            if inside:
                yield from _put(at, k, (next_head, order_of(shape, next_block)[0]))
        number, head, block = following, next_head, next_block


def _see(cursor: Cursor, what: object) -> Iterator[Wait]:
    """Waits for a buffer and holds what is in it against what should be."""
    yield cursor.ring.full[cursor.place].done(cursor.phase)
    assert cursor.ring.holds[cursor.place] == what, f"{cursor.ring.holds[cursor.place]} where {what} belongs"


def _free(cursor: Cursor, what: object) -> None:
    assert cursor.ring.holds[cursor.place] == what, f"{what} was overwritten while it was in use"
    cursor.ring.empty[cursor.place].arrive(ARRIVALS)
    cursor.step()


def compute(at: Machine, warpgroup: int) -> Iterator[Wait]:
    """A computing warpgroup: Q K^T of a block, then P V of the block before, also across tiles."""
    q, k, v = Cursor(at.q), Cursor(at.k), Cursor(at.v)
    waiting: tuple[int, int] | None = None  # the block whose P V is still to be done
    while True:
        yield q.ring.full[q.place].done(q.phase)
        tile = q.ring.holds[q.place]
        if tile is None:
            break
        assert isinstance(tile, tuple)
        head, block = tile
        for number in order_of(at.shape, block):
            yield from _see(k, (head, number))
            if waiting is not None:
                yield from _see(v, waiting)
            _free(k, (head, number))
            if waiting is not None:
                _free(v, waiting)
            waiting = (head, number)
            at.visits.setdefault((warpgroup, head, block), []).append(number)
        _free(q, tile)
    assert waiting is not None
    yield from _see(v, waiting)


def run(shape: Shape, dynamic: bool, seed: int) -> list[Machine]:
    """All blocks after they ended, in a random order of steps and of arriving loads. AssertionError for a deadlock."""
    chance, counter = random.Random(seed), [0]
    machines = [machine(shape, counter, index) for index in range(shape.grid)]
    threads: list[tuple[Iterator[Wait], Wait]] = []
    for at in machines:
        threads += [(load(at, dynamic), lambda: True)]
        threads += [(compute(at, number), lambda: True) for number in range(shape.warpgroups)]
    while threads:
        ready = [index for index, (_, wait) in enumerate(threads) if wait()]
        arriving = [at for at in machines if at.loads]
        assert ready or arriving, f"deadlock: {len(threads)} threads wait"
        if arriving and (not ready or chance.random() < 0.3):
            at = chance.choice(arriving)
            into, place, what = at.loads.pop(chance.randrange(len(at.loads)))
            into.holds[place] = what
            into.full[place].arrive()
            continue
        index = chance.choice(ready)
        thread = threads[index][0]
        wait = next(thread, None)
        threads[index : index + 1] = [] if wait is None else [(thread, wait)]
    return machines
