"""From a source to programs that may run: screened, built once per distinct set of defines, and past the artefact gate."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from evaluator.backend import Backend, Build, Program
from evaluator.cuda.facts import launch_facts, lowest_occupancy
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.plan.resolved import Resolved
from evaluator.screen import screen
from evaluator.session import Session
from evaluator.task_card import TaskCard
from population.candidate import Candidate, Language, short_id

SERIALIZED = "wgmma_serialized"

Defines = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A candidate's programs, one per scenario that it claims, and its compiler facts (the largest over its builds)."""

    candidate: Candidate
    programs: tuple[Program, ...]
    facts: Mapping[str, int | float | str | bool]


def prepare(session: Session, candidate: Candidate, card: TaskCard) -> Prepared | Fault:
    """The programs for the scenarios of ``card`` that the candidate claims, or the first refusal."""
    backend = session.backend
    if candidate.language != backend.language:
        message = f"the {backend.device.kind} backend takes .{backend.language} files, this candidate is a .{candidate.language}"
        return Fault(verdict=Verdict.UNSUPPORTED, stage=Stage.SCREEN, message=message)
    screened = screen(
        candidate.source, candidate.language, card, backend.facts(), lambda scenario: session.task.scalars(scenario.symbols)
    )
    if isinstance(screened, Fault):
        return screened
    with session.compiling(f"compiling {short_id(candidate.id)}"):
        builds = _builds(backend, candidate.source, screened.resolved)
    if isinstance(builds, Fault):
        return builds
    programs = tuple(
        Program(candidate_id=candidate.id, scenario=scenario, build=builds[_defines(resolved)], resolved=resolved)
        for scenario, resolved in zip(screened.scenarios, screened.resolved, strict=True)
    )
    fault = _gate(backend, programs)
    if fault is not None:
        return fault
    facts = _facts(list(builds.values()), programs)
    if candidate.language is Language.CUDA:
        facts |= lowest_occupancy(
            {item.scenario.name: launch_facts(item.build.facts, item.resolved, backend.device.arch) for item in programs}
        )
    return Prepared(candidate=candidate, programs=programs, facts=facts)


def _defines(resolved: Resolved) -> Defines:
    return tuple(sorted(resolved.defines.items()))


def _builds(backend: Backend, source: str, every: Sequence[Resolved]) -> dict[Defines, Build] | Fault:
    """One build per distinct set of defines, in parallel up to this host's cores; the first fault in plan order."""
    distinct = {_defines(resolved): resolved for resolved in reversed(every)}
    with ThreadPoolExecutor(max_workers=max(1, min(len(distinct), len(os.sched_getaffinity(0))))) as workers:
        futures: dict[Defines, Future[Build | Fault]] = {
            key: workers.submit(backend.build, source, resolved) for key, resolved in reversed(distinct.items())
        }
        wait(futures.values(), return_when=FIRST_EXCEPTION)
    built = {key: future.result() for key, future in futures.items()}
    fault = next((found for found in built.values() if isinstance(found, Fault)), None)
    return fault if fault is not None else {key: found for key, found in built.items() if isinstance(found, Build)}


def _gate(backend: Backend, programs: Sequence[Program]) -> Fault | None:
    """The first violation; programs that share a build and launch the same kernels with the same arguments share a verdict."""
    passed = set()
    for program in programs:
        launches = tuple((item.kernel, tuple((a.name, a.kind) for a in item.args)) for item in program.resolved.launches)
        key = (program.build.key, launches)
        if key in passed:
            continue
        fault = backend.gate(program.build, program.resolved)
        if fault is not None:
            return fault
        passed.add(key)
    return None


def _facts(builds: Sequence[Build], programs: Sequence[Program]) -> dict[str, int | float | str | bool]:
    """Compiler facts, serialised wgmma first: numbers as the largest over the builds, other values as the first build has."""
    facts: dict[str, int | float | str | bool] = {}
    if remark := next((build.facts[SERIALIZED] for build in builds if SERIALIZED in build.facts), None):
        facts[SERIALIZED] = remark
    facts["builds"] = len(builds)
    for build in builds:
        for name, value in build.facts.items():
            known = facts.get(name)
            if known is None:
                facts[name] = value
            elif isinstance(value, int | float) and isinstance(known, int | float):
                facts[name] = max(known, value)
    facts["launches"] = max(len(program.resolved.launches) for program in programs)
    return facts
