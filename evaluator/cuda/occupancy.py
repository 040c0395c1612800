"""How many blocks of a kernel a multiprocessor holds at once, and what stops it from holding one more.

Rules and numbers: ``cuda_occupancy.h`` of the CUDA toolkit, and the CUDA programming guide's table of compute capabilities.
Registers are given to whole warps in units of 256 and each of the four quarters of a multiprocessor has its own file;
shared memory is given in units of 128 bytes, 1 KiB more than a block asks for.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

WARP, QUARTERS = 32, 4
REGISTERS = 65536
MOST_REGISTERS_A_THREAD = 256
MOST_THREADS_A_BLOCK = 1024
REGISTER_UNIT, SHARED_UNIT_BYTES = 256, 128
RESERVED_SHARED_BYTES = 1 << 10
COUNTS_BARRIERS_FROM = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiprocessor:
    """What one multiprocessor of an architecture holds; ``barriers`` are the hardware barriers that its blocks share."""

    threads: int
    blocks: int
    shared_bytes: int
    barriers: int


MULTIPROCESSORS: Mapping[int, Multiprocessor] = {
    80: Multiprocessor(threads=2048, blocks=32, shared_bytes=164 << 10, barriers=64),
    89: Multiprocessor(threads=1536, blocks=24, shared_bytes=100 << 10, barriers=24),
    90: Multiprocessor(threads=2048, blocks=32, shared_bytes=228 << 10, barriers=64),
    100: Multiprocessor(threads=2048, blocks=32, shared_bytes=228 << 10, barriers=64),
    120: Multiprocessor(threads=1536, blocks=24, shared_bytes=100 << 10, barriers=24),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one block asks for: registers a thread, shared memory in bytes (static and dynamic), threads, named barriers."""

    registers: int
    shared_bytes: int
    threads: int
    barriers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Blocks and warps that one multiprocessor holds, of ``most_warps``; ``limit`` names what runs out first, with ties.

    No block fits where ``blocks`` is 0: the launch would be refused.
    """

    blocks: int
    warps: int
    most_warps: int
    limit: str


def occupancy(arch: str, demand: Demand) -> Occupancy | None:
    """The occupancy of a kernel on ``arch`` ("sm_90a"), with the whole carveout as shared memory; None for an unknown one."""
    number = int(re.sub(r"\D", "", arch) or 0)
    room = MULTIPROCESSORS.get(number)
    if room is None:
        return None
    warps = -(-demand.threads // WARP)
    shared_bytes = _up(demand.shared_bytes + RESERVED_SHARED_BYTES, SHARED_UNIT_BYTES)
    limits = {
        "registers": REGISTERS // QUARTERS // _of_a_warp(demand.registers) * QUARTERS // warps
        if registers_fit(demand.registers, demand.threads)
        else 0,
        "shared memory": room.shared_bytes // shared_bytes,
        "threads": 0 if demand.threads > MOST_THREADS_A_BLOCK else room.threads // WARP // warps,
        "blocks": room.blocks,
    }
    if number >= COUNTS_BARRIERS_FROM and demand.barriers:
        limits["barriers"] = room.barriers // demand.barriers
    blocks = min(limits.values())
    return Occupancy(
        blocks=blocks,
        warps=blocks * warps,
        most_warps=room.threads // WARP,
        limit=", ".join(name for name, most in limits.items() if most == blocks),
    )


def registers_fit(registers: int, threads: int) -> bool:
    """Whether a block of that many threads can be launched; the hardware counts its warps rounded up to all four quarters."""
    warps = _up(-(-threads // WARP), QUARTERS)
    return registers <= MOST_REGISTERS_A_THREAD and _of_a_warp(registers) * warps <= REGISTERS


def _of_a_warp(registers: int) -> int:
    return _up(max(registers, 1) * WARP, REGISTER_UNIT)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
