"""Where the buffers of a side lie in their allocations: each ends at the end of its memory, or between two guard bands."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from evaluator.buffers import size_bytes
from evaluator.plan.resolved import Buffer, Resolved

ALIGN_BYTES = 256
BAND_BYTES = 256 << 10
IPC_STEP_BYTES = 2 << 20  # whole steps, so that an allocation shared by handle never lies in one block with another

Guard = Literal["pages", "bands"]
"""How over-reach is caught: "pages": unmapped memory on both sides, a fault; "bands": a canary on both sides, seen afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One buffer of one slot: an allocation of ``size_bytes`` with ``bytes`` of elements from ``start_bytes`` on."""

    buffer: Buffer
    slot: int
    size_bytes: int
    start_bytes: int
    bytes: int

    @property
    def is_input(self) -> bool:
        """True for what the candidate may only read."""
        return self.buffer.role == "input"

    @property
    def end_bytes(self) -> int:
        """Where the elements end in the allocation."""
        return self.start_bytes + self.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What ``DeviceMemory.damage`` found: the block, what is wrong ("input", "before", "after", "reset"), how far in bytes."""

    block: Block
    what: str
    distance_bytes: int = 0


def blocks(resolved: Resolved, slots: int, guard: Guard, granularity_bytes: int) -> Iterator[Block]:
    """All blocks of a side, slot by slot. ``granularity_bytes`` is the driver's unit of mapping (only for "pages").

    Elements start at a multiple of 256 bytes, as late as possible: fewer than 256 bytes lie between their end and the end of the
    allocation, or of the band of BAND_BYTES behind them.
    """
    band = 0 if guard == "pages" else BAND_BYTES
    step = granularity_bytes if guard == "pages" else IPC_STEP_BYTES
    for slot in range(slots):
        for buffer in (*resolved.tensors, *resolved.workspaces):
            size = size_bytes(buffer)
            room = _round_up(max(size, 1), ALIGN_BYTES)
            whole = _round_up(band + room + band, step)
            yield Block(buffer=buffer, slot=slot, size_bytes=whole, start_bytes=whole - band - room, bytes=size)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
