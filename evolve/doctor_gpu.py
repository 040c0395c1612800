"""What the doctor looks at on a host with a GPU. It reads and tries; it changes no setting of a GPU."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluator.cuda.device import Gpu, NoGpuError, driver_version, find_gpus
from evaluator.cuda.health import probe
from evaluator.cuda.lease import Quarantine, lease_path
from evaluator.cuda.monitor import SLOWDOWNS, open_reader
from evaluator.warm import python_environment
from evolve.finding import Finding, State

TOOL_TIMEOUT_S = 90.0
NOISE_PCT = 1.0
FLUSH_SHOWS = 1.1
PACKAGES = ("cupy-cuda13x", "cuda-bindings", "nvidia-ml-py", "nvidia-cudnn-cu13")
ABILITIES = {
    "virtual_memory": "unmapped pages around buffers",
    "read_only": "read-only inputs",
    "shared_files": "sharing mapped memory between processes",
    "ipc": "sharing plain memory between processes",
}
TOOLS: Mapping[str, tuple[str, ...]] = {
    "ncu": ("--target-processes", "all", "--metrics", "sm__cycles_elapsed.max"),
    "compute-sanitizer": ("--error-exitcode", "9", "--report-api-errors", "no"),
}
"""Tools with the options of a tiny trial."""


def examine_gpus() -> Iterator[Finding]:
    """Findings about every GPU that this process may use, or one line that there is none."""
    try:
        gpus = find_gpus()
    except NoGpuError as error:
        gpus, reason = (), str(error)
    else:
        reason = "CUDA_VISIBLE_DEVICES hides all of them"
    if not gpus:
        present = shutil.which("nvidia-smi") is not None or Path("/dev/nvidiactl").exists()
        detail = f"none that can be used ({reason})" if present else "none"
        yield Finding(name="gpu", state=State.LIMITED, detail=f"{detail}; the cpu backend is used")
        return
    for gpu in gpus:
        yield _device(gpu)
        health = _health(gpu)
        yield health
        if health.state is State.OK:
            yield _others(gpu)
            yield _steadiness(gpu)
    yield from _packages()
    for tool, options in TOOLS.items():
        yield _tool(tool, options)


def _device(gpu: Gpu) -> Finding:
    detail = (
        f"{gpu.name}, {gpu.arch}, {gpu.sm_count} SMs, {gpu.memory_bytes / 2**30:.0f} GiB, driver {driver_version()} "
        f"(CUDA {gpu.driver_api}), at most {gpu.peak_tflops:.0f} TFLOP/s and {gpu.peak_gbs:.0f} GB/s{_modes(gpu)}"
    )
    return Finding(name=f"gpu {gpu.ordinal}", state=State.OK, detail=detail)


def _modes(gpu: Gpu) -> str:
    """MIG and persistence, as they are; empty where NVML doesn't tell."""
    try:
        import pynvml
    except ImportError:
        return ""
    found = ""
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
        found += f", persistence {'on' if pynvml.nvmlDeviceGetPersistenceMode(handle) else 'off'}"
        found += f", MIG {'on' if pynvml.nvmlDeviceGetMigMode(handle)[0] else 'off'}"
    except pynvml.NVMLError:  # a GPU without MIG, or one that NVML may not look at
        pass
    return found


def _health(gpu: Gpu, lock: Path | None = None) -> Finding:
    """The probe's word; a quarantine ends here for a GPU that passes."""
    mark = Quarantine(lock or lease_path(gpu.uuid))
    quarantined, health = mark.reason(), probe(gpu.ordinal)
    name = f"gpu {gpu.ordinal} health"
    if health.problem is not None:
        step = "stop what holds its memory" if health.full else "look at it with nvidia-smi and dmesg; reset it or reboot"
        told = f"; quarantined: {quarantined}" if quarantined else ""
        return Finding(name=name, state=State.LIMITED, detail=health.problem + told, next_step=step)
    if quarantined is not None:
        mark.lift()
    lifted = f"; quarantine lifted ({quarantined})" if quarantined else ""
    missing = [text for ability, text in ABILITIES.items() if not health.abilities[ability]]
    able = ", ".join(text for ability, text in ABILITIES.items() if health.abilities[ability])
    lacks = f"; not here: {', '.join(missing)}" if missing else ""
    return Finding(name=name, state=State.OK, detail=f"copies and computes right; {able or 'nothing more'}{lacks}{lifted}")


def _others(gpu: Gpu) -> Finding:
    """Who else uses the GPU. This process has no context of its own, so whoever is there is somebody else."""
    name = f"gpu {gpu.ordinal} neighbours"
    if open_reader(gpu.uuid) is None:
        detail = "NVML can't be read, so clocks and other processes aren't watched"
        return Finding(name=name, state=State.LIMITED, detail=detail, next_step="pip install nvidia-ml-py")
    import pynvml

    try:
        pids = [one.pid for one in pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid))]
    except pynvml.NVMLError as error:
        return Finding(name=name, state=State.LIMITED, detail=f"the driver doesn't tell who uses it: {error}")
    return Finding(
        name=name,
        state=State.LIMITED if pids else State.OK,
        detail=f"in use by process {', '.join(map(str, pids))}" if pids else "nobody else uses it",
        next_step="stop them while kernels are timed" if pids else "",
    )


def _steadiness(gpu: Gpu) -> Finding:
    """Clocks and noise floor, measured in a process of its own."""
    name = f"gpu {gpu.ordinal} steadiness"
    done = _run((sys.executable, "-m", "evaluator.cuda.steadiness", str(gpu.ordinal), gpu.uuid))
    if isinstance(done, str) or done.returncode != 0:
        reason = done if isinstance(done, str) else (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Finding(name=name, state=State.LIMITED, detail=f"not measured: {reason}")
    return _steady(name, json.loads(done.stdout))


def _steady(name: str, found: Mapping[str, Any]) -> Finding:
    throttle = found["throttle"]
    slowed = bool(set(throttle) & set(SLOWDOWNS.values()))
    noisy = found["noise_pct"] > NOISE_PCT
    warm = found["flush"] < FLUSH_SHOWS
    clocks = "clock not readable" if found["load_mhz"] is None else f"SM clock {found['idle_mhz']} -> {found['load_mhz']} MHz"
    step = "wait until it has cooled, or stop what else it does" if slowed or noisy else ""
    if warm:
        step = "flushing its L2 cache shows no effect: times of short kernels may be those of a warm cache; report the GPU's name"
    return Finding(
        name=name,
        state=State.LIMITED if slowed or noisy or warm else State.OK,
        detail=(
            f"{clocks} under a short load, {', '.join(throttle) or 'not held down'}; a copy of {found['copy_gbs']:.0f} GB/s "
            f"against itself: {found['noise_pct']:.2f} % apart; a copy within the L2 cache takes {found['flush']:.2f} times as "
            "long after a flush"
        ),
        next_step=step,
    )


def _packages() -> Iterator[Finding]:
    for name in PACKAGES:
        try:
            yield Finding(name=name, state=State.OK, detail=importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name=name, state=State.LIMITED, detail="not installed", next_step=f"pip install {name}")


def _tool(name: str, options: Sequence[str], which: Callable[[str], str | None] = shutil.which) -> Finding:
    """Whether a tool is there and may look at a kernel, found out with the health probe's."""
    path = which(name)
    if path is None:
        return Finding(name=name, state=State.LIMITED, detail="not found; it comes with the CUDA toolkit")
    done = _run((path, *options, sys.executable, "-m", "evaluator.cuda.health", "0"))
    if isinstance(done, str):
        return Finding(name=name, state=State.LIMITED, detail=f"tried on a small kernel: {done}")
    said = done.stdout + done.stderr
    if done.returncode == 0 and "ERR_NVGPUCTRPERM" not in said:
        return Finding(name=name, state=State.OK, detail="works on a small kernel")
    forbidden = "ERR_NVGPUCTRPERM" in said or (_profiling_is_for_admins() and os.geteuid() != 0)
    line = next((line.strip() for line in said.splitlines() if "rror" in line), f"exit status {done.returncode}")
    return Finding(
        name=name,
        state=State.LIMITED,
        detail="counters are for administrators here" if forbidden else f"failed on a small kernel: {line[:200]}",
        next_step="ask for NVreg_RestrictProfilingToAdminUsers=0" if forbidden else "",
    )


def _profiling_is_for_admins(path: Path = Path("/proc/driver/nvidia/params")) -> bool:
    try:
        return "RmProfilingAdminOnly: 1" in path.read_text()
    except OSError:
        return False


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str] | str":
    """The finished command, or why it didn't finish."""
    try:
        return subprocess.run(
            command, env=python_environment(), capture_output=True, text=True, check=False, timeout=TOOL_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return f"not done after {TOOL_TIMEOUT_S:g} s"
    except OSError as error:
        return str(error)
