"""Buffers of the CPU backend: placing, sealing, poison, damage; and where faulting addresses are looked up."""

import itertools
import mmap
import os
import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from evaluator.buffers import NUMPY_TYPES, POISONS
from evaluator.cpu.layout import GAP_BYTES, Layout, make_layout
from evaluator.cpu.memory import PAGE_BYTES, Memory
from evaluator.plan.resolved import Buffer
from tests.contracts import vector_scale

COUNTER = Buffer(name="counter", role="workspace", dtype="int32", shape=(3,), init="zero", self_resetting=True)
PLAN = vector_scale.resolved(n=1000, workspaces=(COUNTER,))


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory(PLAN, 2)
    yield memory
    memory.close()


@pytest.fixture
def layout(memory: Memory) -> Iterator[Layout]:
    layout = make_layout(PLAN, memory, 2, (0, 1), random.Random(5))
    yield layout
    os.close(layout.constants_fd)


def test_every_buffer_has_pages_of_its_own_and_ends_near_their_end(memory: Memory) -> None:
    for block in memory.blocks:
        assert block.file_offset % PAGE_BYTES == 0
        assert block.data_offset % 64 == 0
        assert 0 <= block.page_bytes - block.data_offset - block.bytes < 64
    for is_input in (True, False):
        pages = [b for b in memory.blocks if b.is_input is is_input]
        starts = sorted(b.file_offset for b in pages)
        assert len(set(starts)) == len(pages)


def test_nobody_else_can_map_the_inputs_writable(memory: Memory) -> None:
    size = os.fstat(memory.inputs_fd).st_size
    with pytest.raises(PermissionError):
        mmap.mmap(memory.inputs_fd, size)
    mmap.mmap(memory.inputs_fd, size, mmap.MAP_SHARED, mmap.PROT_READ).close()
    for descriptor in (memory.inputs_fd, memory.scratch_fd):
        with pytest.raises(OSError, match="not permitted"):
            os.truncate(descriptor, os.fstat(descriptor).st_size + PAGE_BYTES)


@pytest.mark.parametrize("name", POISONS)
def test_poisons_are_nan_large_and_ordinary(name: str) -> None:
    def value(bits: int) -> float:
        if name == "bf16":
            return float(np.array([bits << 16], np.uint32).view(np.float32)[0])
        word = np.uint16 if name == "fp16" else np.uint32
        return float(np.array([bits], word).view(NUMPY_TYPES[name])[0])

    nan, large, small = (value(bits) for bits in POISONS[name])
    assert np.isnan(nan) or name == "int32"
    assert 5e4 < large < np.inf
    assert 0 < abs(small) < 10


@pytest.mark.parametrize(("what", "place"), [("before", -1), ("after", 0)])
def test_a_change_around_a_buffer_is_found(memory: Memory, what: str, place: int) -> None:
    memory.fill(0, vector_scale.inputs(), 0)
    assert memory.damage() is None
    block = next(b for b in memory.blocks if b.buffer.name == "y")
    edge = block.span.start + place if what == "before" else block.span.stop + place
    byte = os.pread(memory.scratch_fd, 1, edge)
    os.pwrite(memory.scratch_fd, bytes([byte[0] ^ 1]), edge)
    damage = memory.damage()
    assert damage is not None
    assert (damage.what, damage.distance_bytes) == (what, 1 if what == "before" else 0)


def test_a_changed_input_is_found(memory: Memory) -> None:
    given = vector_scale.inputs()
    memory.fill(1, given, 0)
    memory._bytes[True][memory.blocks[3].span.start] ^= 1
    damage = memory.damage()
    assert damage is not None
    assert damage.what == "input"


def test_inputs_of_another_type_are_refused(memory: Memory) -> None:
    with pytest.raises(TypeError):
        memory.fill(0, {"x": np.zeros(1000)}, 0)


def test_addresses_tell_what_was_missed(layout: Layout) -> None:
    for region in layout.regions:
        inside = layout.locate(region.start)
        assert inside is not None
        assert (inside.region, inside.inside) == (region, True)
        past = layout.locate(region.start + region.bytes + 100)
        assert past is not None
        assert (past.region, past.past_bytes, past.before_bytes) == (region, 100, 0)
        before = layout.locate(region.start - 8)
        assert before is not None
        assert (before.region, before.past_bytes, before.before_bytes) == (region, 0, 8)
    assert layout.locate(0) is None


def test_regions_lie_far_apart(layout: Layout) -> None:
    ordered = sorted(layout.regions, key=lambda region: region.address)
    for one, next_one in itertools.pairwise(ordered):
        assert next_one.address - (one.address + one.page_bytes) >= GAP_BYTES


def test_no_distance_leads_from_one_buffer_to_another(memory: Memory) -> None:
    """A kernel knows its own buffers; where a sister slot's lie at some distance in one process, they don't in the next."""
    times: Counter[int] = Counter()
    for seed in range(100):
        layout = make_layout(PLAN, memory, 2, (0, 1), random.Random(seed))
        os.close(layout.constants_fd)
        times.update({(two.address - one.address) // PAGE_BYTES for one in layout.regions for two in layout.regions} - {0})
    assert max(times.values()) <= 3


def test_another_seed_puts_everything_elsewhere(memory: Memory, layout: Layout) -> None:
    other = make_layout(PLAN, memory, 2, (0, 1), random.Random(6))
    os.close(other.constants_fd)
    assert not {region.start for region in layout.regions} & {region.start for region in other.regions}
