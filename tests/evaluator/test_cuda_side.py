"""Memory, zygote, child and side of the CUDA backend, end to end on a fake driver: real processes, no GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[2]
FAKE = Path(__file__).parent / "fake_cuda"


def play(**request: Any) -> dict[str, Any]:
    """What a scene on the fake GPU shows; no process may be left of it."""
    environment = {**os.environ, "PYTHONPATH": f"{FAKE}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, str(FAKE / "play.py"), json.dumps(request)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert not [each for each in psutil.process_iter(["cmdline"]) if str(FAKE) in " ".join(each.info["cmdline"] or ())]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_both_slots_are_computed_and_timed() -> None:
    found = play(kernels=["scale"])
    assert found["right"]
    assert found["audit"] is None
    assert found["facts"]["graph_replays"]
    assert found["ran"]["elapsed_us"] > 0
    assert found["facts"]["scale.registers"] == 32
    assert found["probes"] == 0


def test_what_cannot_be_captured_is_launched_plainly() -> None:
    found = play(kernels=["no_capture"])
    assert found["right"]
    assert not found["facts"]["graph_replays"]


@pytest.mark.parametrize(
    ("kernel", "verdict", "says"),
    [
        ("trap", "CRASH", "trap in n1000 stopped at a trap"),
        ("misaligned", "CRASH", "misaligned address"),
        ("far", "OUT_OF_BOUNDS", "far in n1000 read or wrote outside its buffers"),
        ("write_input", "INPUT_MUTATED", "write_input in n1000 wrote the input 'x'"),
        ("restore_input", "INPUT_MUTATED", "wrote an input and restored it"),
        ("die", "HARNESS_FAULT", "ended by itself (status 3)"),
    ],
)
def test_an_error_of_the_device_is_a_verdict(kernel: str, verdict: str, says: str) -> None:
    found = play(kernels=[kernel])
    assert found["ran"]["verdict"] == verdict
    assert says in found["ran"]["message"]
    assert found["audit"] == found["ran"]
    assert found["probes"] == 1


def test_of_several_kernels_the_one_that_fails_is_named() -> None:
    found = play(kernels=["scale", "trap", "nothing"])
    assert found["ran"]["message"].startswith("trap in n1000")


def test_a_hang_is_killed() -> None:
    found = play(kernels=["hang"], deadline_s=0.3)
    assert found["ran"]["verdict"] == "TIMEOUT"
    assert "0.3 s" in found["ran"]["message"]


def test_a_sick_device_is_never_the_candidates_fault() -> None:
    found = play(kernels=["trap"], sick="it doesn't answer")
    assert found["ran"]["verdict"] == "HARNESS_FAULT"
    assert "it doesn't answer" in found["ran"]["message"]
    assert found["ran"]["detail"].startswith("CRASH")


@pytest.mark.parametrize(("kernel", "shared", "says"), [("refused", 0, "more registers"), ("scale", 300_000, "300000 bytes")])
def test_a_refused_launch_is_a_launch_error(kernel: str, shared: int, says: str) -> None:
    found = play(kernels=[kernel], shared=shared)
    assert found["started"]["verdict"] == "LAUNCH_ERROR"
    assert says in found["started"]["message"]
    assert found["probes"] == 0


@pytest.mark.parametrize(
    ("kernel", "says"), [("past_end", "past the end of 'y'"), ("before_start", "bytes before the start of 'y'")]
)
def test_the_canary_beside_a_buffer_is_watched(kernel: str, says: str) -> None:
    found = play(kernels=[kernel])
    assert "elapsed_us" in found["ran"]
    assert found["audit"]["verdict"] == "OUT_OF_BOUNDS"
    assert says in found["audit"]["message"]


def test_a_candidate_keeps_its_process_and_shares_it_with_nobody() -> None:
    a, again, b, b_again, c = play(scene="reuse")["pids"]
    assert a == again
    assert b == b_again
    assert len({a, b, c}) == 3


def test_a_killed_process_and_a_killed_zygote_are_replaced() -> None:
    found = play(scene="killed")
    assert found["fault"]["verdict"] == "HARNESS_FAULT"
    assert "status -9" in found["fault"]["message"]
    assert found["after"]["right"]


def test_nothing_is_left_in_memory_that_is_handed_out_again() -> None:
    assert play(scene="leftovers")["zero"]


def test_a_self_resetting_workspace_is_zero_at_first() -> None:
    assert play(kernels=["scale"], counter=True)["audit"] is None


def test_the_zygote_loads_no_numpy_and_no_driver_library() -> None:
    code = "import sys, evaluator.cuda.zygote as z; print([m for m in ('numpy', 'cupy', 'torch', 'ctypes') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": f"{FAKE}{os.pathsep}{ROOT}"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['ctypes']"


def test_no_distance_leads_from_one_buffer_to_another() -> None:
    distances = play(scene="whereabouts")["distances"]
    assert len(set(distances)) == len(distances) == 6
    assert all(abs(granules) > 2 for granules in distances)
