"""The buffers of one side: inputs and scratch in two anonymous files that parent and child share.

Each buffer has pages of its own and ends within 64 bytes of its last page, so that the child can map it between
inaccessible pages. What lies on those pages around the buffer is filled with a canary.
"""

import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluator.backend import Array
from evaluator.buffers import NUMPY_TYPES, POISONS, pattern_type, size_bytes
from evaluator.plan.resolved import Buffer, Resolved

PAGE_BYTES = mmap.PAGESIZE
LINE_BYTES = 64
CANARY_BYTES = 64
INPUT_SURROUND = 0xFF  # reads as NaN in every floating-point type


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One buffer of one slot in its file: pages from ``file_offset`` on, the elements from ``data_offset`` within them."""

    buffer: Buffer
    slot: int
    file_offset: int
    page_bytes: int
    data_offset: int
    bytes: int

    @property
    def is_input(self) -> bool:
        """True if the block lies in the file of inputs."""
        return self.buffer.role == "input"

    @property
    def span(self) -> slice:
        """Where the elements lie in the file."""
        start = self.file_offset + self.data_offset
        return slice(start, start + self.bytes)

    @property
    def surround(self) -> tuple[slice, slice]:
        """Where the bytes before and after the elements lie in the file."""
        end = self.file_offset + self.page_bytes
        return slice(self.file_offset, self.span.start), slice(self.span.stop, end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What ``Memory.damage`` found: the block, what is wrong ("input", "before", "after", "reset"), how far in bytes."""

    block: Block
    what: str
    distance_bytes: int = 0


def _blocks(resolved: Resolved, slots: int) -> Iterator[Block]:
    offsets = {True: 0, False: 0}
    for slot in range(slots):
        for buffer in (*resolved.tensors, *resolved.workspaces):
            size = size_bytes(buffer)
            pages = max(1, -(-size // PAGE_BYTES)) * PAGE_BYTES
            is_input = buffer.role == "input"
            yield Block(
                buffer=buffer,
                slot=slot,
                file_offset=offsets[is_input],
                page_bytes=pages,
                data_offset=pages - -(-size // LINE_BYTES) * LINE_BYTES,
                bytes=size,
            )
            offsets[is_input] += pages


class Memory:
    """Owns the two files and the parent's view of them. ``inputs_fd`` can't be mapped writable by anybody else."""

    def __init__(self, resolved: Resolved, slots: int) -> None:
        self.blocks = tuple(_blocks(resolved, slots))
        self._canary = np.frombuffer(os.urandom(CANARY_BYTES), np.uint8)
        self._checksums: dict[Block, int] = {}
        self._files: dict[bool, tuple[int, mmap.mmap]] = {}
        self._bytes: dict[bool, NDArray[np.uint8]] = {}
        try:
            for is_input in (True, False):
                self._open(is_input)
        except OSError:
            self.close()
            raise
        self._surround()

    @property
    def inputs_fd(self) -> int:
        """Descriptor of the inputs' file."""
        return self._files[True][0]

    @property
    def scratch_fd(self) -> int:
        """Descriptor of the file of outputs and workspaces."""
        return self._files[False][0]

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        """Write a slot's inputs; poison its outputs and workspaces with pattern 0, 1 or 2; zero self-resetting workspaces.

        Raises ValueError or TypeError if an array's shape or type isn't that of the plan.
        """
        for block in self._of(slot):
            words = self._bytes[block.is_input][block.span]
            if block.is_input:
                given = inputs[block.buffer.name]
                if given.shape != block.buffer.shape:
                    raise ValueError(f"input {block.buffer.name!r} has shape {given.shape}, the plan says {block.buffer.shape}")
                np.copyto(self._array(block), given, casting="no")
                self._checksums[block] = _checksum(words)
            elif block.buffer.self_resetting:
                words[:] = 0
            else:
                pattern = POISONS[block.buffer.dtype][poison]
                words.view(pattern_type(block.buffer))[:] = pattern

    def outputs(self, slot: int) -> dict[str, Array]:
        """Copies of a slot's outputs."""
        return {b.buffer.name: self._array(b).copy() for b in self._of(slot) if b.buffer.role == "output"}

    def damage(self) -> Damage | None:
        """The first thing that isn't as it must be after honest executions, or None."""
        for block in self.blocks:
            words = self._bytes[block.is_input][block.span]
            if block in self._checksums and _checksum(words) != self._checksums[block]:
                return Damage(block=block, what="input")
            if block.buffer.self_resetting and words.any():
                return Damage(block=block, what="reset", distance_bytes=int(np.flatnonzero(words)[0]))
            if block.is_input:
                continue
            for place, what in zip(block.surround, ("before", "after"), strict=True):
                wrong = np.flatnonzero(self._bytes[False][place] != self._pattern(place))
                if wrong.size:
                    distance = place.stop - place.start - int(wrong[0]) if what == "before" else int(wrong[0])
                    return Damage(block=block, what=what, distance_bytes=distance)
        return None

    def close(self) -> None:
        """Free the memory. Safe to call twice."""
        self._bytes.clear()
        for descriptor, view in self._files.values():
            with contextlib.suppress(BufferError):
                view.close()
            os.close(descriptor)
        self._files.clear()

    def _open(self, is_input: bool) -> None:
        total = sum(block.page_bytes for block in self.blocks if block.is_input == is_input) or PAGE_BYTES
        descriptor = os.memfd_create("inputs" if is_input else "scratch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.truncate(descriptor, total)
            view = mmap.mmap(descriptor, total)
        except OSError:
            os.close(descriptor)
            raise
        if is_input:
            forbid_new_writers(descriptor)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, F_SEAL_SIZE)
        self._files[is_input] = (descriptor, view)
        self._bytes[is_input] = np.frombuffer(view, np.uint8)

    def _of(self, slot: int) -> Iterator[Block]:
        return (block for block in self.blocks if block.slot == slot)

    def _array(self, block: Block) -> Array:
        flat = self._bytes[block.is_input][block.span]
        array: Array = flat.view(NUMPY_TYPES[block.buffer.dtype]).reshape(block.buffer.shape)
        return array

    def _pattern(self, place: slice) -> NDArray[np.uint8]:
        pattern: NDArray[np.uint8] = self._canary[np.arange(place.start, place.stop) % CANARY_BYTES]
        return pattern

    def _surround(self) -> None:
        for block in self.blocks:
            for place in block.surround:
                self._bytes[block.is_input][place] = INPUT_SURROUND if block.is_input else self._pattern(place)


F_SEAL_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
F_SEAL_FUTURE_WRITE = 0x10  # linux/fcntl.h; Python's fcntl doesn't name it


def forbid_new_writers(descriptor: int) -> bool:
    """Leave only existing mappings of a memfd writable; False where the kernel is older than 5.1."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, F_SEAL_FUTURE_WRITE)
    except OSError:
        return False
    return True


def _checksum(data: NDArray[np.uint8]) -> int:
    """A 64-bit sum of the bytes in words: the pages are sealed, so this only has to notice a fault of ours."""
    whole = data.size // 8 * 8
    return int(data[:whole].view(np.uint64).sum(dtype=np.uint64)) ^ int.from_bytes(data[whole:].tobytes(), "little")
