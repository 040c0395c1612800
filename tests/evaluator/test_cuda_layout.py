"""Where buffers lie between pages or guard bands, what fault codes mean, and messages between processes."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.backend import Build
from evaluator.cache import BuildCache
from evaluator.cuda.errors import DEVICE_ERRORS, LAUNCH_ERRORS, Failure, explain_damage, explain_failure, explain_times
from evaluator.cuda.layout import BAND_BYTES, IPC_STEP_BYTES, Damage, Guard, blocks
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.cuda.symbols import constant_names
from evaluator.cuda.toolkit import find_toolkit
from evaluator.messages import receive, send, socket_pair
from evaluator.outcome import Fault, Verdict
from evaluator.plan.resolved import Buffer
from tests.contracts import vector_scale

GRANULARITY = 2 << 20
PLAN = vector_scale.resolved()


@given(shape=st.lists(st.integers(0, 3000), min_size=0, max_size=2), dtype=st.sampled_from(["bf16", "float32", "int32"]))
@pytest.mark.parametrize("guard", ["pages", "bands"])
def test_elements_end_where_their_memory_ends(guard: Guard, shape: list[int], dtype: str) -> None:
    plan = replace(PLAN, tensors=(Buffer(name="x", role="input", dtype=dtype, shape=tuple(shape)),))
    (block,) = blocks(plan, 1, guard, GRANULARITY)
    behind = block.size_bytes - block.end_bytes
    assert block.start_bytes % 256 == 0
    if guard == "pages":
        assert block.size_bytes % GRANULARITY == 0
        assert 0 <= behind <= 256
    else:
        assert block.size_bytes % IPC_STEP_BYTES == 0
        assert 0 <= behind - BAND_BYTES <= 256
        assert block.start_bytes >= BAND_BYTES


def test_every_slot_has_every_buffer() -> None:
    workspace = Buffer(name="w", role="workspace", dtype="int32", shape=(4,))
    found = list(blocks(replace(PLAN, workspaces=(workspace,)), 3, "pages", GRANULARITY))
    assert [(block.slot, block.buffer.name) for block in found] == [(slot, name) for slot in range(3) for name in "xyw"]
    assert [block.is_input for block in found[:3]] == [True, False, False]


def failure(code: int, call: str = "cuStreamSynchronize", launch: int | None = None) -> Fault:
    return explain_failure(Failure(name="CUDA_ERROR_X", code=code, call=call, launch=launch), PLAN)


@pytest.mark.parametrize("code", DEVICE_ERRORS)
def test_errors_of_the_device_name_kernel_and_scenario(code: int) -> None:
    found = failure(code)
    assert found.verdict is not Verdict.HARNESS_FAULT
    assert found.message.startswith("scale in n1000 ")
    assert found.scenario == "n1000"
    assert str(code) in found.detail


@pytest.mark.parametrize("code", LAUNCH_ERRORS)
def test_a_refused_launch_says_what_it_asked_for(code: int) -> None:
    found = failure(code, "cuLaunchKernelEx", 0)
    assert found.verdict is Verdict.LAUNCH_ERROR
    assert "grid of (16, 1, 1)" in found.message


@pytest.mark.parametrize(
    ("code", "call"), [(2, "cuMemAlloc"), (214, "cuStreamSynchronize"), (1, "cuMemMap"), (999, "cuGraphLaunch")]
)
def test_what_no_candidate_can_cause_is_ours(code: int, call: str) -> None:
    assert failure(code, call).verdict is Verdict.HARNESS_FAULT


def test_a_refused_tensor_map_is_a_launch_error() -> None:
    assert failure(1, "cuTensorMapEncodeTiled").verdict is Verdict.LAUNCH_ERROR


@pytest.mark.parametrize(
    ("elapsed_us", "wall_us", "says"),
    [
        ([10.0], 100.0, "for 2 executions"),
        ([10.0, float("nan")], 100.0, "for 2 executions"),
        ([-1.0, 10.0], 100.0, "for 2 executions"),
        ([60.0, 60.0], 100.0, "add up to 120 us"),
        ([60.0, 60.0], 2_000_000.0, "of which their events show 120"),
    ],
)
def test_impossible_event_times(elapsed_us: list[float], wall_us: float, says: str) -> None:
    found = explain_times(elapsed_us, wall_us, 2, PLAN)
    assert found is not None
    assert says in found.message


@pytest.mark.parametrize("wall_us", [130.0, 400_000.0])
def test_event_times_of_a_busy_host_are_believed(wall_us: float) -> None:
    assert explain_times([60.0, 60.0], wall_us, 2, PLAN) is None


@pytest.mark.parametrize(
    ("what", "verdict"),
    [
        ("input", Verdict.INPUT_MUTATED),
        ("before", Verdict.OUT_OF_BOUNDS),
        ("after", Verdict.OUT_OF_BOUNDS),
        ("reset", Verdict.STALE_OUTPUT),
    ],
)
def test_damage_is_a_verdict(what: str, verdict: Verdict) -> None:
    block = next(blocks(PLAN, 1, "pages", GRANULARITY))
    found = explain_damage(Damage(block=block, what=what, distance_bytes=8), PLAN)
    assert found.verdict is verdict
    assert "'x'" in found.message


def test_a_message_carries_more_descriptors_than_the_kernel_takes_at_once() -> None:
    ours, theirs = socket_pair()
    read, write = os.pipe()
    with ours, theirs:
        send(ours, {"do": "load", "n": 1}, b"cubin", [write] * 450)
        found = receive(theirs)
    assert found is not None
    assert dict(found.fields) == {"do": "load", "n": 1}
    assert found.payload == b"cubin"
    assert len(found.descriptors) == 450
    os.write(found.descriptors[449], b"!")
    assert os.read(read, 1) == b"!"
    for descriptor in (read, write, *found.descriptors):
        os.close(descriptor)


@pytest.mark.parametrize("sent", [b"", b"\x05"])
def test_a_closed_socket_is_the_end(sent: bytes) -> None:
    ours, theirs = socket_pair()
    with theirs:
        ours.sendall(sent)
        ours.close()
        assert receive(theirs) is None


@pytest.mark.skipif(find_toolkit() is None, reason="no CUDA compiler here")
def test_constant_tables_are_found_by_name(tmp_path: Path) -> None:
    source = '__constant__ int first[2]; extern "C" __constant__ float second = 1.f;\n'
    source += 'extern "C" __global__ void scale(float* y) { y[0] = first[threadIdx.x & 1] + second; }'
    build = compile_cuda(source, PLAN, "sm_90a", BuildCache(tmp_path))
    assert isinstance(build, Build)
    assert constant_names(build.path.read_bytes()) == ("first", "second")
