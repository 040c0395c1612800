"""The buffers of one side on the GPU, owned by this process and mapped by the process that runs.

Filling, poisoning, reading and comparing are CuPy's work on the device, on its current stream; nothing large leaves the GPU.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import cupy
import numpy as np

from evaluator.buffers import NUMPY_TYPES, POISONS, pattern_type
from evaluator.cuda.allocations import OUT_OF_MEMORY, Allocation, Pool
from evaluator.cuda.driver import CudaError
from evaluator.cuda.layout import Block, Damage, Guard, blocks
from evaluator.plan.resolved import Resolved

INPUT_SURROUND = 0xFF  # reads as NaN in every floating-point type
PARTIALS = 1 << 16
WORD_BYTES = 8

CHECKSUM = """
unsigned long long total = 0;
for (long long at = i; at < count; at += step) {
    unsigned long long word = words[at] ^ (key + at * 0x9E3779B97F4A7C15ULL);
    word = (word ^ (word >> 32)) * 0xD6E8FEB86659FD93ULL;
    word = (word ^ (word >> 32)) * 0xD6E8FEB86659FD93ULL;
    total += word ^ (word >> 32);
}
partial = total;
"""
"""Each thread mixes every ``step``-th word with a secret key and its position: who doesn't know the key can't keep the sum."""


def with_room(resolved: Resolved, slots: int, pool: Pool, make_room: Callable[[], None]) -> "DeviceMemory | CudaError":
    """The buffers of a side; where the driver has no memory left, at the second try, after ``make_room``; or what it says."""
    try:
        return DeviceMemory(resolved, slots, pool=pool)
    except CudaError as error:
        if error.code != OUT_OF_MEMORY:
            return error
    make_room()
    try:
        return DeviceMemory(resolved, slots, pool=pool)
    except CudaError as error:
        return error


class DeviceMemory:
    """``slots`` complete sets of the plan's buffers. Raises ``evaluator.cuda.driver.CudaError`` where they don't fit.

    ``pool`` keeps allocations for the next side; without one they are freed at ``close``. ``guard`` as in ``layout.Guard``, only
    without a pool. ``hash_inputs`` may be cleared where whoever runs can't write inputs.
    """

    def __init__(self, resolved: Resolved, slots: int, *, guard: Guard | None = None, pool: Pool | None = None) -> None:
        self.hash_inputs = True
        self._own_pool = pool is None
        self._pool = pool or Pool(cupy.cuda.Device().id, guard)
        self._key = np.uint64(secrets.randbits(64))
        self._sums: dict[tuple[int, str], Any] = {}
        self._poisons: dict[int, int] = {}
        self._allocations: dict[tuple[int, str], Allocation] = {}
        self._bytes: dict[tuple[int, str], Any] = {}
        self._arrays: dict[tuple[int, str], Any] = {}
        self._slots: list[list[Block]] = [[] for _ in range(slots)]
        self.blocks = tuple(blocks(resolved, slots, self._pool.guard, self._pool.granularity_bytes))
        try:
            for block in self.blocks:
                self._allocate(block)
        except BaseException:
            self.close()
            raise
        self._canary = cupy.asarray(np.frombuffer(secrets.token_bytes(self._longest_surround()), np.uint8))
        for block in self.blocks:
            self._surround(block)
        self._checksum = cupy.ElementwiseKernel(
            "raw uint64 words, int64 count, int64 step, uint64 key", "uint64 partial", CHECKSUM, "askevolve_checksum"
        )
        self._differs = cupy.ElementwiseKernel(
            "T found, T expected, int64 at", "raw uint32 flags", "if (found != expected) flags[at] = 1;", "askevolve_differs"
        )

    def fill(self, slot: int, inputs: Mapping[str, Any], poison: int) -> None:
        """Write a slot's inputs (NumPy or CuPy), poison outputs and workspaces with pattern 0, 1 or 2, zero self-resetting ones.

        Raises ValueError or TypeError if an array's shape or type isn't that of the plan.
        """
        for block in self._of(slot):
            if block.is_input:
                given = cupy.asarray(inputs[block.buffer.name])
                wanted = NUMPY_TYPES[block.buffer.dtype]
                if given.shape != block.buffer.shape:
                    raise ValueError(f"input {block.buffer.name!r} has shape {given.shape}, the plan says {block.buffer.shape}")
                if given.dtype != wanted:
                    raise TypeError(f"input {block.buffer.name!r} has type {given.dtype}, the plan says {wanted}")
                self._arrays[slot, block.buffer.name][...] = given
        if self.hash_inputs:
            self.remember_inputs(slot)
        self._poisons[slot] = poison
        self.poison(slot)

    def poison(self, slot: int) -> None:
        """Make outputs and workspaces again what the last ``fill`` made them."""
        for block in self._of(slot):
            if block.is_input:
                continue
            pattern = 0 if block.buffer.self_resetting else POISONS[block.buffer.dtype][self._poisons[slot]]
            self._arrays[slot, block.buffer.name].view(pattern_type(block.buffer)).fill(pattern)

    def remember_inputs(self, slot: int) -> None:
        """Keep checksums of a slot's inputs as they are now; ``damage`` compares with them."""
        for block in self._of(slot):
            if block.is_input:
                self._sums[slot, block.buffer.name] = self._sum(block)

    def outputs(self, slot: int) -> dict[str, Any]:
        """Copies of a slot's outputs, as CuPy arrays (bf16 as uint16)."""
        names = (block.buffer.name for block in self._of(slot) if block.buffer.role == "output")
        return {name: self._arrays[slot, name].copy() for name in names}

    def settle(self) -> None:
        """Wait until all that this process asked of the device is done."""
        cupy.cuda.runtime.deviceSynchronize()

    def damage(self) -> Damage | None:
        """The first thing that isn't as it must be after honest executions, or None."""
        found = list(self._comparisons())
        flags = cupy.zeros(len(found) + 1, np.uint32)
        for at, (_, now, expected) in enumerate(found):
            self._differs(now, expected, np.int64(at), flags)
        wrong = np.flatnonzero(cupy.asnumpy(flags))
        if not wrong.size:
            return None
        damage, now, expected = found[int(wrong[0])]
        if damage.what == "input":
            return damage
        first = int(np.flatnonzero(cupy.asnumpy(now != expected))[0])
        distance = now.size - first if damage.what == "before" else first
        return Damage(block=damage.block, what=damage.what, distance_bytes=distance)

    def shares(self) -> tuple[list[dict[str, Any]], list[int]]:
        """What ``evaluator.cuda.mapping.map_shares`` needs in another process: a description for JSON, and descriptors.

        The caller closes the descriptors once they are sent. Raises ``evaluator.cuda.driver.CudaError``.
        """
        self.settle()
        description, descriptors = [], []
        for block in self.blocks:
            allocation = self._allocations[block.slot, block.buffer.name]
            pages = allocation.handle is not None
            if pages:
                descriptors.append(self._pool.descriptor(allocation))
            description.append(
                {
                    "name": block.buffer.name,
                    "role": block.buffer.role,
                    "dtype": block.buffer.dtype,
                    "shape": list(block.buffer.shape),
                    "slot": block.slot,
                    "size_bytes": block.size_bytes,
                    "start_bytes": block.start_bytes,
                    "granularity_bytes": self._pool.granularity_bytes,
                    "handle": None if pages else self._pool.ipc_handle(allocation).hex(),
                }
            )
        return description, descriptors

    def close(self) -> None:
        """Give the memory back. Nobody else may map it any more. Safe to call twice."""
        if self._allocations:
            self.settle()
        self._arrays.clear()
        self._bytes.clear()
        self._sums.clear()
        while self._allocations:
            self._pool.give(self._allocations.popitem()[1])
        if self._own_pool:
            self._pool.close()

    def _allocate(self, block: Block) -> None:
        allocation = self._pool.take(block.size_bytes)
        self._allocations[block.slot, block.buffer.name] = allocation
        raw = cupy.cuda.UnownedMemory(allocation.pointer, allocation.size_bytes, allocation, self._pool.ordinal)
        whole = cupy.ndarray((allocation.size_bytes,), np.uint8, cupy.cuda.MemoryPointer(raw, 0))
        whole.fill(0)  # whatever another side left there
        self._bytes[block.slot, block.buffer.name] = whole
        flat = whole[block.start_bytes : block.end_bytes]
        self._arrays[block.slot, block.buffer.name] = flat.view(NUMPY_TYPES[block.buffer.dtype]).reshape(block.buffer.shape)
        self._slots[block.slot].append(block)

    def _of(self, slot: int) -> Sequence[Block]:
        return self._slots[slot]

    def _sum(self, block: Block) -> Any:
        words = self._bytes[block.slot, block.buffer.name].view(np.uint64)
        partials = cupy.empty(PARTIALS, np.uint64)
        self._checksum(words, np.int64(block.size_bytes // WORD_BYTES), np.int64(PARTIALS), self._key, partials)
        return partials.sum()

    def _longest_surround(self) -> int:
        return max(max(block.start_bytes, block.size_bytes - block.end_bytes) for block in self.blocks)

    def _surround(self, block: Block) -> None:
        for _, place in self._places(block):
            place[...] = INPUT_SURROUND if block.is_input else self._canary[: place.size]

    def _places(self, block: Block) -> Iterator[tuple[str, Any]]:
        whole = self._bytes[block.slot, block.buffer.name]
        for what, place in (("before", whole[: block.start_bytes]), ("after", whole[block.end_bytes :])):
            if place.size:
                yield what, place

    def _comparisons(self) -> Iterator[tuple[Damage, Any, Any]]:
        """What to compare with what, and the damage it would be."""
        for block in self.blocks:
            key = (block.slot, block.buffer.name)
            if block.is_input:
                if key in self._sums:
                    yield Damage(block=block, what="input"), self._sum(block), self._sums[key]
                continue
            if block.buffer.self_resetting:
                words = self._bytes[key][block.start_bytes : block.end_bytes]
                yield Damage(block=block, what="reset"), words, cupy.zeros((), np.uint8)
            for what, place in self._places(block):
                yield Damage(block=block, what=what), place, self._canary[: place.size]
