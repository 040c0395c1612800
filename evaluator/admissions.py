"""Reports of admissions in one folder, by task, scenario set, device and baselines: an evaluation asks whether its task was ever
admitted where it runs."""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from evaluator.admission import Admission, AdmissionRow
from evaluator.cache import default_folder
from evaluator.outcome import Device
from evaluator.settings import HARNESS_VERSION
from evaluator.task import BUILT_IN, Task, load_baselines


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What an admission holds for: another task hash, device or version of a baseline needs another one.

    ``baselines`` maps the name of each baseline that is available to its version.
    """

    task: str
    task_hash: str
    scenario_set: str
    kind: str
    device: str
    arch: str
    baselines: Mapping[str, str]

    @property
    def key(self) -> str:
        """The name of the report's file without its suffix."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        return f"{self.task}-{self.scenario_set}-{digest[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An admission, where it was made, when (UTC, such as ``2026-11-30 20:00``) and by which version of the harness."""

    circumstances: Circumstances
    admission: Admission
    at: str
    harness: int = HARNESS_VERSION


def default_admissions() -> Path:
    """``askevolve/admissions`` in the user's cache folder. Raises OSError for a user without a home."""
    return default_folder().with_name("admissions")


def circumstances(task: Task, set_name: str, kind: str, device: str, arch: str) -> Circumstances:
    """What an admission of the set would hold for now on a device. Raises TaskError."""
    here = [baseline for baseline in load_baselines(task.folder) if baseline.backend == kind and baseline.available() is None]
    return Circumstances(
        task=task.name,
        task_hash=task.hash,
        scenario_set=set_name,
        kind=kind,
        device=device,
        arch=arch,
        baselines={baseline.name: baseline.version() for baseline in here},
    )


def device_here(kind: str) -> tuple[str, str]:
    """Name and architecture of this process's device: the CPU, or the first GPU. Raises NoGpuError."""
    if kind == "cuda":
        from evaluator.cuda.device import find_gpu

        gpu = find_gpu(0)
        return gpu.name, gpu.arch
    from evaluator.cpu.device import name_and_arch

    return name_and_arch()


def keep(folder: Path, report: Report) -> Path:
    """Where the report now lies; one of the same circumstances is replaced. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{report.circumstances.key}.json"
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix="new-", delete=False) as file:
        json.dump(asdict(report), file, indent=1)
    os.replace(file.name, path)
    return path


def find(folder: Path, wanted: Circumstances) -> Report | None:
    """The report of these circumstances by this version of the harness; None where there is none that can be read."""
    report = _read(folder / f"{wanted.key}.json")
    return report if report is not None and report.circumstances == wanted and report.harness == HARNESS_VERSION else None


def all_of(folder: Path, task_hash: str) -> tuple[Report, ...]:
    """The reports on a task as it is, the latest first."""
    reports = [report for path in folder.glob("*.json") if (report := _read(path)) is not None]
    ours = [report for report in reports if report.circumstances.task_hash == task_hash]
    return tuple(sorted(ours, key=lambda report: report.at, reverse=True))


def remark(folder: Path, task: Task, set_name: str, device: Device) -> str | None:
    """What an outcome must say of the admission of its task on its device; None where it was admitted."""
    wanted = circumstances(task, set_name, device.kind, device.name, device.arch)
    report = find(folder, wanted)
    named = task.name if task.folder.parent == BUILT_IN else f"./{task.folder.name}"
    again = f"`askevolve task check {named} --scenarios {set_name} --backend {device.kind}`"
    if report is None:
        return f"task {task.name} was never admitted on this device with these baselines in set {set_name}: {again}"
    if not report.admission.passed:
        return (
            f"task {task.name} was refused by its admission of {report.at} UTC on this device "
            f"({len(report.admission.problems)} answers judged otherwise than they must be): {again} says which"
        )
    return None


def _read(path: Path) -> Report | None:
    try:
        content = json.loads(path.read_text())
        rows = tuple(AdmissionRow(**row) for row in content["admission"].pop("rows"))
        return Report(
            circumstances=Circumstances(**content["circumstances"]),
            admission=Admission(**content["admission"], rows=rows),
            at=content["at"],
            harness=content["harness"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
