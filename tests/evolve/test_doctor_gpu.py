"""The doctor's findings on a GPU host, with GPUs of the test's own."""

import shutil
import subprocess
from pathlib import Path

import pytest

from evaluator.cuda.device import Gpu, NoGpuError
from evaluator.cuda.health import Health
from evaluator.cuda.lease import Quarantine, lease_path
from evolve import doctor_gpu
from evolve.doctor_gpu import _health, _profiling_is_for_admins, _run, _steady, _tool, examine_gpus
from evolve.finding import State

ABLE = dict.fromkeys(doctor_gpu.ABILITIES, True)
GPU = Gpu(
    ordinal=0,
    uuid="GPU-1",
    name="NVIDIA H200",
    capability=90,
    sm_count=132,
    shared_bytes=232_448,
    memory_bytes=140 << 30,
    clock_khz=1_980_000,
    memory_clock_khz=3_201_000,
    bus_bits=6016,
    driver_api="13.0",
)
STEADY = {"idle_mhz": 345, "load_mhz": 1980, "throttle": ["power cap"], "copy_gbs": 4300.0, "noise_pct": 0.04, "flush": 1.8}


def test_no_gpu_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[Gpu, ...]:
        raise NoGpuError("no CUDA driver answers")

    monkeypatch.setattr(doctor_gpu, "find_gpus", none)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (finding,) = examine_gpus()
    assert finding.state is State.LIMITED
    assert finding.detail in (
        "none; the cpu backend is used",
        "none that can be used (no CUDA driver answers); the cpu backend is used",
    )
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    (finding,) = examine_gpus()
    assert "no CUDA driver answers" in finding.detail


def test_a_host_with_a_sick_gpu_still_gets_all_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_gpu, "find_gpus", lambda: (GPU,))
    monkeypatch.setattr(doctor_gpu, "probe", lambda ordinal: Health(problem="a small kernel failed"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(doctor_gpu, "TOOLS", {"no-such-tool": ()})
    found = {finding.name: finding for finding in examine_gpus()}
    assert "NVIDIA H200, sm_90a, 132 SMs, 140 GiB" in found["gpu 0"].detail
    assert found["gpu 0 health"].state is State.LIMITED
    assert "reset" in found["gpu 0 health"].next_step
    assert {"cupy-cuda13x", "nvidia-ml-py", "no-such-tool"} <= set(found)
    assert "gpu 0 steadiness" not in found


@pytest.mark.parametrize("healthy", [True, False])
def test_a_quarantine_ends_only_for_a_gpu_that_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, healthy: bool) -> None:
    lock = lease_path(GPU.uuid, tmp_path)
    Quarantine(lock).set(GPU.uuid, "it hung", 0.0)
    health = Health(problem=None, abilities=ABLE) if healthy else Health(problem="still hangs")
    monkeypatch.setattr(doctor_gpu, "probe", lambda ordinal: health)
    finding = _health(GPU, lock)
    assert "it hung" in finding.detail
    assert (finding.state is State.OK) == healthy
    assert (Quarantine(lock).reason() is None) == healthy


def test_what_the_driver_cannot_do_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_gpu, "probe", lambda ordinal: Health(problem=None, abilities=ABLE | {"read_only": False}))
    assert "not here: read-only inputs" in _health(GPU, lease_path(GPU.uuid, tmp_path)).detail


def test_a_full_gpu_is_not_sent_to_be_reset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_gpu, "probe", lambda ordinal: Health(problem="CUDA_ERROR_OUT_OF_MEMORY"))
    assert _health(GPU, lease_path(GPU.uuid, tmp_path)).next_step == "stop what holds its memory"


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, State.OK),
        ({"throttle": ["hardware slowdown"]}, State.LIMITED),
        ({"noise_pct": 4.0}, State.LIMITED),
        ({"load_mhz": None}, State.OK),
        ({"flush": 1.02}, State.LIMITED),
    ],
)
def test_the_power_cap_is_no_limit_but_heat_and_noise_are(changes: dict[str, object], state: State) -> None:
    finding = _steady("steadiness", STEADY | changes)
    assert finding.state is state
    assert bool(finding.next_step) == (state is State.LIMITED)


def tool(folder: Path, script: str) -> str:
    path = folder / "tool"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_tool_is_tried_and_not_only_found(tmp_path: Path) -> None:
    assert _tool("ncu", (), lambda name: None).detail.startswith("not found")
    assert _tool("ncu", (), lambda name: tool(tmp_path, "exit 0")).state is State.OK
    refused = _tool("ncu", (), lambda name: tool(tmp_path, "echo '==ERROR== ERR_NVGPUCTRPERM'; exit 1"))
    assert refused.state is State.LIMITED
    assert "NVreg_RestrictProfilingToAdminUsers" in refused.next_step
    broken = _tool("ncu", (), lambda name: tool(tmp_path, "echo 'Error: no device' >&2; exit 3"))
    assert broken.detail == "failed on a small kernel: Error: no device"


def test_a_tool_that_hangs_is_given_up_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor_gpu, "TOOL_TIMEOUT_S", 0.2)
    found = _tool("ncu", (), lambda name: tool(tmp_path, "exec sleep 60"))
    assert found.detail == "tried on a small kernel: not done after 0.2 s"


def test_a_command_that_is_not_there_is_text() -> None:
    assert isinstance(_run(("/no/such/command",)), str)
    assert isinstance(_run(("true",)), subprocess.CompletedProcess)


def test_the_drivers_rule_about_profiling(tmp_path: Path) -> None:
    (tmp_path / "params").write_text("ModifyDeviceFiles: 1\nRmProfilingAdminOnly: 1\n")
    assert _profiling_is_for_admins(tmp_path / "params")
    (tmp_path / "params").write_text("RmProfilingAdminOnly: 0\n")
    assert not _profiling_is_for_admins(tmp_path / "params")
    assert not _profiling_is_for_admins(tmp_path / "absent")
