"""Where everything lies in a candidate's process: addresses chosen here, so that a faulting address tells what was missed."""

import fcntl
import os
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.cpu.memory import PAGE_BYTES, Block, Memory
from evaluator.plan.resolved import Argument, ArgumentKind, Resolved, ResolvedLaunch

GAP_BYTES = 16 << 20
SCATTER_PAGES = 1 << 22
"""Up to this many pages (16 GiB) more lie between two regions. Address space costs nothing, and a kernel that looks for another
slot's buffers from its own ones meets inaccessible memory, which ends it."""
STACK_BYTES = 1 << 20
STACK_EXTRA_BYTES = 64 << 10  # the thread's own bookkeeping above the stack that a kernel may use
LOWEST, HIGHEST = 0x1000_0000_0000, 0x4000_0000_0000
MAGIC = 0x4B514153
HEADER = struct.Struct("<6I2Q")
CORE = struct.Struct("<2QiI")
MAP = struct.Struct("<3QiI")
ZERO = struct.Struct("<2QII")
LAUNCH = struct.Struct("<256sQ")
SCALAR_BYTES = 8
AFTER_SCALAR = b"\xa5" * 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A range of readable memory with at least GAP_BYTES of inaccessible memory on both sides.

    ``kind`` is "input", "output", "workspace", "arguments", "scalars" or "stack"; ``name`` the buffer, kernel or thread.
    ``start`` and ``bytes`` are those of the elements themselves, ``address`` and ``page_bytes`` those of the pages around them.
    """

    kind: str
    name: str
    slot: int
    address: int
    page_bytes: int
    start: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A fault address seen from the nearest region: bytes before its start, past its end (0 = the first one), or inside."""

    region: Region
    before_bytes: int = 0
    past_bytes: int = 0
    inside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """All regions of one process and the configuration that tells the host to make them.

    ``constants_fd`` is a sealed file with argument arrays and scalars; the caller closes it.
    """

    regions: tuple[Region, ...]
    configuration: bytes
    constants_fd: int

    def locate(self, address: int) -> Hit | None:
        """What lies at or near an address; None if it is far from everything."""
        best: Hit | None = None
        nearest = GAP_BYTES // 2
        for region in self.regions:
            end = region.start + region.bytes
            if region.start <= address < end:
                return Hit(region=region, inside=True)
            distance = region.start - address if address < region.start else address - end
            if distance < nearest:
                nearest = distance
                before = address < region.start
                best = Hit(region=region, before_bytes=distance if before else 0, past_bytes=0 if before else distance)
        return best


class _Space:
    """Hands out page ranges in a shuffled order with wide random gaps between."""

    def __init__(self, rng: random.Random) -> None:
        self.base = rng.randrange(LOWEST, HIGHEST, 2 << 20)
        self.next = self.base + GAP_BYTES
        self.rng = rng

    def take(self, page_bytes: int) -> int:
        address = self.next + self.rng.randrange(SCATTER_PAGES) * PAGE_BYTES
        self.next = address + page_bytes + GAP_BYTES
        return address


def _pages(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES


def _buffer_region(block: Block, address: int) -> Region:
    return Region(
        kind=block.buffer.role,
        name=block.buffer.name,
        slot=block.slot,
        address=address,
        page_bytes=block.page_bytes,
        start=address + block.data_offset,
        bytes=block.bytes,
    )


def _at_end(kind: str, name: str, slot: int, size: int, space: _Space) -> Region:
    """A region that ends exactly at an inaccessible page."""
    address = space.take(_pages(size))
    start = address + _pages(size) - size
    return Region(kind=kind, name=name, slot=slot, address=address, page_bytes=_pages(size), start=start, bytes=size)


def _scalar_bytes(argument: Argument) -> bytes:
    value = argument.value
    if argument.kind is ArgumentKind.INT32:
        assert isinstance(value, int)
        return struct.pack("<i", value) + AFTER_SCALAR
    assert value is not None
    return struct.pack("<f", value) + AFTER_SCALAR


def _is_scalar(argument: Argument) -> bool:
    return argument.kind in {ArgumentKind.INT32, ArgumentKind.FLOAT32}


@dataclass(slots=True)
class _Constants:
    """Argument arrays and scalars: their regions, and the file's content in the same order."""

    regions: list[Region]
    content: bytearray
    arrays: list[int]

    def add(self, region: Region, data: bytes) -> None:
        self.regions.append(region)
        self.content += bytes(region.page_bytes - len(data)) + data

    def scalars(self, launch: ResolvedLaunch, space: _Space) -> dict[str, int]:
        """Address of each scalar of a launch."""
        wanted = [argument for argument in launch.args if _is_scalar(argument)]
        if not wanted:
            return {}
        region = _at_end("scalars", launch.kernel, 0, len(wanted) * SCALAR_BYTES, space)
        self.add(region, b"".join(_scalar_bytes(argument) for argument in wanted))
        return {argument.name: region.start + i * SCALAR_BYTES for i, argument in enumerate(wanted)}


def _constants(resolved: Resolved, slots: int, buffers: Sequence[Region], space: _Space) -> _Constants:
    made = _Constants([], bytearray(), [])
    scalars = [made.scalars(launch, space) for launch in resolved.launches]
    for slot in range(slots):
        places = {region.name: region.start for region in buffers if region.slot == slot}
        for number, launch in enumerate(resolved.launches):
            pointers = [(scalars[number] if _is_scalar(argument) else places)[argument.name] for argument in launch.args]
            region = _at_end("arguments", launch.kernel, slot, max(1, len(pointers)) * 8, space)
            made.add(region, struct.pack(f"<{len(pointers)}Q", *pointers))
            made.arrays.append(region.start)
    return made


def make_layout(resolved: Resolved, memory: Memory, slots: int, cores: Sequence[int], rng: random.Random) -> Layout:
    """Addresses for all that a candidate may touch, one worker thread per entry of ``cores``."""
    space = _Space(rng)
    blocks = rng.sample(memory.blocks, len(memory.blocks))
    buffers = [_buffer_region(block, space.take(block.page_bytes)) for block in blocks]
    constants = _constants(resolved, slots, buffers, space)
    constants_fd = _sealed_file("constants", bytes(constants.content) or bytes(PAGE_BYTES))
    stack_bytes = STACK_BYTES + STACK_EXTRA_BYTES
    stacks = [_at_end("stack", str(number), 0, stack_bytes, space) for number in range(len(cores))]
    maps = [
        MAP.pack(
            region.address,
            region.page_bytes,
            block.file_offset,
            memory.inputs_fd if block.is_input else memory.scratch_fd,
            not block.is_input,
        )
        for block, region in zip(blocks, buffers, strict=True)
    ]
    offset = 0
    for region in constants.regions:
        maps.append(MAP.pack(region.address, region.page_bytes, offset, constants_fd, 0))
        offset += region.page_bytes
    zeros = [
        ZERO.pack(region.start, region.bytes, region.slot, 0)
        for block, region in zip(blocks, buffers, strict=True)
        if block.buffer.init == "zero" and not block.buffer.self_resetting
    ]
    parts = [
        HEADER.pack(
            MAGIC, len(cores), slots, len(resolved.launches), len(maps), len(zeros), space.base, _pages(space.next - space.base)
        ),
        *(CORE.pack(stack.address, stack.page_bytes, core, 0) for stack, core in zip(stacks, cores, strict=True)),
        *maps,
        *zeros,
        *(LAUNCH.pack(launch.kernel.encode(), _tasks(launch)) for launch in resolved.launches),
        struct.pack(f"<{len(constants.arrays)}Q", *constants.arrays),
    ]
    return Layout(regions=(*buffers, *constants.regions, *stacks), configuration=b"".join(parts), constants_fd=constants_fd)


def _tasks(launch: ResolvedLaunch) -> int:
    x, y, z = launch.grid
    return x * y * z


def _sealed_file(name: str, content: bytes) -> int:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, content)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return descriptor
