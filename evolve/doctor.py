"""What this machine can do: one finding for each thing that a search needs, with what to do where it is missing."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from evolve.finding import Finding, State


def examine(ray_address: str | None = None) -> Iterator[Finding]:
    """Findings one after the other, cheapest first; with an address those of a Ray cluster too.

    A check that fails in an unforeseen way is a finding as well.
    """
    for check in (*CHECKS, *([partial(_cluster, ray_address)] if ray_address else ())):
        try:
            yield from check()
        except Exception as error:
            name = getattr(check, "__name__", "ray cluster").strip("_")
            yield Finding(name=name, state=State.LIMITED, detail=f"check failed: {error!r}")


def fit(findings: list[Finding]) -> bool:
    """Whether the main job can run here."""
    return all(finding.state is not State.MISSING for finding in findings)


def _version() -> Iterator[Finding]:
    try:
        found = importlib.metadata.version("askevolve")
    except importlib.metadata.PackageNotFoundError:
        found = "run from a checkout that isn't installed"
    yield Finding(name="askevolve", state=State.OK, detail=found)


def _python() -> Iterator[Finding]:
    ok = sys.version_info >= (3, 11)
    yield Finding(
        name="python",
        state=State.OK if ok else State.MISSING,
        detail=sys.version.split()[0],
        next_step="" if ok else "install Python 3.11 or newer",
    )


def _compiler() -> Iterator[Finding]:
    for name, needed, package in (("g++", True, "g++"), ("objdump", False, "binutils")):
        path = shutil.which(name)
        if path is None:
            yield Finding(
                name=name,
                state=State.MISSING if needed else State.LIMITED,
                detail="not found" + ("" if needed else "; the instruction scan of the gate is left to the run-time sandbox"),
                next_step=f"install the package {package}",
            )
        else:
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=20)
            yield Finding(name=name, state=State.OK, detail=version.stdout.splitlines()[0])


def _protections() -> Iterator[Finding]:
    from evaluator.sandbox import landlock_abi, limits_missing

    missing = limits_missing()
    advice = ["run as an ordinary user"] if any("root" in what for what in missing) else []
    advice += ["use a newer kernel, or a container that allows Landlock"] if any("Landlock" in what for what in missing) else []
    yield Finding(
        name="sandbox",
        state=State.LIMITED if missing else State.OK,
        detail="; ".join(missing) if missing else f"Landlock (version {landlock_abi()}), resource limits, empty environment",
        next_step="; ".join([*advice, "until then each result says what wasn't enforced"]) if missing else "",
    )


def _cores() -> Iterator[Finding]:
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    busy = load > 0.5 * cores
    yield Finding(
        name="cores",
        state=State.LIMITED if cores < 2 or busy else State.OK,
        detail=f"{cores} usable, load {load:.2f}",
        next_step="stop other work: timing shares these cores" if busy else "",
    )


def _packages() -> Iterator[Finding]:
    for name, needed in (("torch", True), ("ray", True), ("nvidia-cuda-nvrtc", False)):
        try:
            yield Finding(name=name, state=State.OK, detail=importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(
                name=name,
                state=State.MISSING if needed else State.LIMITED,
                detail="not installed",
                next_step=f"pip install {name}",
            )


def _nvrtc() -> Iterator[Finding]:
    from evaluator.backend import Build
    from evaluator.cache import BuildCache
    from evaluator.cuda.nvrtc import compile_cuda
    from evaluator.plan.resolved import Resolved

    nothing = Resolved(
        scenario="doctor", defines={}, knobs={}, fast_math=False, maxrregcount=None, nondeterministic=False,
        tensors=(), workspaces=(), tensor_maps=(), launches=(),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        made = compile_cuda('extern "C" __global__ void probe() {}', nothing, "sm_90a", BuildCache(Path(folder)))
    if isinstance(made, Build):
        yield Finding(name="nvrtc", state=State.OK, detail="compiles for sm_90a here, no GPU needed")
    else:
        yield Finding(name="nvrtc", state=State.LIMITED, detail=made.message, next_step="pip install nvidia-cuda-nvrtc")


def _gpu() -> Iterator[Finding]:
    from evolve.doctor_gpu import examine_gpus

    yield from examine_gpus()


def _baselines() -> Iterator[Finding]:
    from evaluator.task import load_baselines, load_task

    for baseline in load_baselines(load_task("attention_forward").folder):
        reason = baseline.available()
        yield Finding(
            name=f"baseline {baseline.name}",
            state=State.OK if reason is None else State.LIMITED,
            detail=baseline.version() if reason is None else reason,
        )


def _cluster(address: str) -> Iterator[Finding]:
    from evolve.executors.ray_cluster import survey

    yield from survey(address)


def _disk() -> Iterator[Finding]:
    here = Path.cwd()
    free_gb = shutil.disk_usage(here).free / 1e9
    writable = os.access(here, os.W_OK)
    yield Finding(
        name="folder",
        state=State.OK if writable and free_gb > 1 else State.MISSING,
        detail=f"{free_gb:.0f} GB free" + ("" if writable else ", not writable"),
        next_step="" if writable and free_gb > 1 else "change to a folder with space that you may write to",
    )


def _keys() -> Iterator[Finding]:
    present = "OPENAI_API_KEY" in os.environ
    yield Finding(
        name="model key",
        state=State.OK,
        detail="OPENAI_API_KEY is set (its value is never shown)"
        if present
        else "none set; the embedded knobs answerer needs none",
    )


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _version, _python, _compiler, _protections, _cores, _packages, _nvrtc, _gpu, _baselines, _disk, _keys,
)  # fmt: skip
