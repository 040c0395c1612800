"""Gathers what an export needs from a run: a kernel, its final, its builds, and the code that works out its plan."""

import importlib.resources
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evaluator.cache import BuildCache, default_folder
from evaluator.cpu.build import REPORTS, build_candidate, compiler, flags_of
from evaluator.cpu.device import name_and_arch
from evaluator.outcome import Device, Fault, Outcome, Verdict
from evaluator.plan.resolve import resolve
from evaluator.plan.resolved import Resolved
from evaluator.plan.text import plan_text
from evaluator.screen import Screened, screen
from evaluator.settings import HARNESS_VERSION
from evaluator.task import Task, load_task
from evaluator.task_card import Scenario, TaskCard
from evolve.api import stored_config
from evolve.builds import facts_on
from population.candidate import Candidate, Language, short_id
from results.export.spec import BuildSpec, ExportSpec, Tested
from results.export.writer import RUNTIME
from results.reader import Reader

HIDDEN = "hidden"
SAMPLES = 64
"""Hidden sizes drawn at export, to learn which symbols finals vary and which builds they lead to."""
VOCABULARY = (
    "evaluator.expression",
    "evaluator.expression_parser",
    "evaluator.outcome",
    "evaluator.task_card",
    "population.candidate",
)


class ExportRefused(Exception):  # noqa: N818  (the name says what is the matter)
    """A kernel that can't be handed over as it is; the text says why and which command repairs it."""


def gather(reader: Reader, candidate_id: str, name: str | None) -> ExportSpec:
    """The spec of one candidate. ExportRefused where its final is missing or stale, or this machine can't build it."""
    config, card = stored_config([recorded.event for recorded in reader.events()])
    task = load_task(config.task.name)
    candidate = reader.candidate(candidate_id)
    repair = f"run `askevolve final {reader.folder} {short_id(candidate.id)}` first"
    final = usable_final(reader.verifying(candidate.id), task, repair)
    if candidate.language is not Language.CPP:
        raise ExportRefused(
            f"{short_id(candidate.id)} is a CUDA kernel, and this command exports CPU kernels; choose a .cpp kernel"
        )
    facts = facts_on(final.device)
    screened = screen(candidate.source, candidate.language, card, facts, lambda scenario: task.scalars(scenario.symbols))
    if isinstance(screened, Fault):
        raise ExportRefused(f"{short_id(candidate.id)}: {screened.message}; {repair}")
    hidden = task.hidden_scenarios(np.random.default_rng(0), card, SAMPLES)
    between = any(check.scenario.startswith(HIDDEN) for check in final.checks)
    return ExportSpec(
        name=name or f"askevolve-{card.name.replace('_', '-')}",
        version=f"1.0.0+{short_id(candidate.id)}",
        license=_license(),
        candidate=candidate,
        plan_text=plan_text(candidate.source)[0],
        knobs=screened.knobs,
        card=card,
        device_facts=facts,
        builds=_builds(candidate, card, screened, hidden if between else (), facts, task),
        tested=_tested(task, card, final, screened),
        exact=exact_symbols(card),
        between=between,
        final=final,
        provenance=_provenance(reader, candidate, final),
        plan_modules=_plan_modules(),
        extra_files={"cpu_pool.so": _pool()},
    )


def usable_final(final: Outcome | None, task: Task, repair: str) -> Outcome:
    """The final, where it verified the kernel with the harness, task and device of today. ExportRefused says what differs."""
    if final is None:
        raise ExportRefused(f"no final has verified this kernel; {repair}")
    if final.verdict is not Verdict.OK or final.fitness is None:
        raise ExportRefused(
            f"the kernel's final ended as {final.verdict}: {final.message[:200]}; {repair}, or choose another kernel"
        )
    if final.task_hash != task.hash:
        raise ExportRefused(f"task {task.name} has changed since the kernel's final; start a new run with the task as it is now")
    version = final.harness.partition("-")[0]
    if version != str(HARNESS_VERSION):
        raise ExportRefused(f"the final is of harness version {version}, this is version {HARNESS_VERSION}; {repair}")
    if changed := changed_since(final.device):
        raise ExportRefused(f"the final was made on another machine or toolchain: {changed}; {repair}")
    return final


def changed_since(device: Device) -> str:
    """What of the machine differs from where a CPU final was made, in words; empty where nothing that matters does."""
    if device.kind != "cpu":
        return ""
    name, arch = name_and_arch()
    if (name, arch) != (device.name, device.arch):
        return f"{device.name} ({device.arch}) then, {name} ({arch}) now"
    return ""


def exact_symbols(card: TaskCard) -> tuple[str, ...]:
    """The symbols of which only tested combinations are in the domain: ``dtype``, those no shape holds, the innermost extents.

    An innermost extent such as a head dimension decides tiles and alignment, so a kernel for 64 says nothing about 72.
    """
    shapes = [tensor.shape for tensor in card.tensors if tensor.role == "input"]
    axes = {extent for shape in shapes for extent in shape[:-1]}
    return tuple(name for name in card.symbols if name not in axes)


def _tested(task: Task, card: TaskCard, final: Outcome, screened: Screened) -> tuple[Tested, ...]:
    checked = {check.scenario for check in final.checks if check.passed}
    return tuple(
        Tested(name=scenario.name, symbols=scenario.symbols, scalars=task.scalars(scenario.symbols))
        for scenario in screened.scenarios
        if scenario.name in checked
    )


def _builds(
    candidate: Candidate, card: TaskCard, screened: Screened, hidden: tuple[Scenario, ...], facts: Mapping[str, int], task: Task
) -> tuple[BuildSpec, ...]:
    """One build for each set of macros that the tested scenarios, and sizes like the hidden ones, lead to."""
    distinct = {tuple(sorted(resolved.defines.items())): resolved for resolved in screened.resolved}
    for scenario in hidden:
        if screened.plan.domain.at(scenario.symbols, scenario.name):
            resolved = resolve(screened.plan, card, scenario, facts, task.scalars(scenario.symbols))
            if not isinstance(resolved, Fault):
                distinct.setdefault(tuple(sorted(resolved.defines.items())), resolved)
    return tuple(_build(candidate, resolved) for resolved in distinct.values())


def _build(candidate: Candidate, resolved: Resolved) -> BuildSpec:
    built = build_candidate(candidate.source, resolved, BuildCache(default_folder()))
    if isinstance(built, Fault):
        raise ExportRefused(f"{short_id(candidate.id)} can't be built here: {built.message}; `askevolve doctor` may say why")
    return BuildSpec(
        defines=resolved.defines,
        artefact=built.path.read_bytes(),
        suffix="so",
        arch="x86_64",
        cpu_flags=_cpu_flags(),
        compile=[flag for flag in flags_of(resolved) if flag not in REPORTS],
    )


def _cpu_flags() -> list[str]:
    line = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    return sorted(line.partition(":")[2].split())


def _pool() -> bytes:
    """The package's thread pool, for any x86-64."""
    with tempfile.TemporaryDirectory(prefix="askevolve-") as folder:
        target = Path(folder) / "pool.so"
        argv = [
            str(compiler()),
            "-std=c++17",
            "-O2",
            "-fPIC",
            "-shared",
            "-pthread",
            str(RUNTIME / "cpu_pool.cpp"),
            "-o",
            str(target),
        ]
        subprocess.run(argv, check=True, capture_output=True)
        return target.read_bytes()


def _plan_modules() -> dict[str, str]:
    plan = importlib.resources.files("evaluator.plan")
    found = {path.name.removesuffix(".py"): path.read_text("utf-8") for path in plan.iterdir() if path.name.endswith(".py")}
    found.pop("__init__")
    for module in VOCABULARY:
        package, _, name = module.rpartition(".")
        found[name] = (importlib.resources.files(package) / f"{name}.py").read_text("utf-8")
    return found


def _license() -> str:
    from importlib.metadata import PackageNotFoundError, files

    beside = Path(__file__).parent.parent / "LICENSE"
    if beside.is_file():
        return beside.read_text(encoding="utf-8")
    try:
        found = next(path for path in files("askevolve") or () if path.name == "LICENSE")
    except (PackageNotFoundError, StopIteration):
        raise ExportRefused("the licence text of askevolve isn't here; install askevolve from its wheel") from None
    return found.read_text(encoding="utf-8")


def _provenance(reader: Reader, candidate: Candidate, final: Outcome) -> dict[str, Any]:
    """Where the kernel comes from: lineage with the questions, the final, the run."""
    info = reader.info()
    line = [reader.row(candidate.id), *reader.ancestors(candidate.id)]
    lineage = []
    for row in line:
        asked = reader.made_by(row.id)
        question = asked.question if asked is not None else None
        lineage.append(
            {"id": row.id, "origin": row.origin, "step": row.step_number, "question": question.text if question else None}
        )
    fitness = final.fitness
    return {
        "candidate": candidate.id,
        "run": info.name,
        "config_hash": info.config_hash,
        "askevolve": info.version,
        "task": info.card.name,
        "task_hash": final.task_hash,
        "scenario_set": info.card.scenario_set,
        "harness": final.harness,
        "device": {"name": final.device.name, "arch": final.device.arch, "versions": dict(final.device.versions)},
        "score": None
        if fitness is None
        else {"opponent": fitness.opponent, "geomean": fitness.geomean, "low": fitness.low, "high": fitness.high},
        "lineage": lineage,
    }
