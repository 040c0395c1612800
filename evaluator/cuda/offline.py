"""Judges a CUDA candidate as far as a machine without a GPU can: screen, build for an architecture, gate."""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluator.backend import Build
from evaluator.cache import BuildCache
from evaluator.cuda.facts import launch_facts, lowest_occupancy
from evaluator.cuda.gate import gate_cuda
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.outcome import Fault
from evaluator.screen import screen
from evaluator.task import Task
from population.candidate import Language

DEVICE_FACTS: Mapping[str, Mapping[str, int]] = {
    "sm_80": {"sm_count": 108, "shared_limit": 166_912},
    "sm_89": {"sm_count": 142, "shared_limit": 101_376},
    "sm_90a": {"sm_count": 132, "shared_limit": 232_448},
    "sm_100a": {"sm_count": 148, "shared_limit": 232_448},
    "sm_120a": {"sm_count": 188, "shared_limit": 101_376},
}
"""Multiprocessors and shared memory a block may have (bytes) of a representative device: A100, L40S, H200, B200, RTX PRO 6000
(CUDA C++ programming guide, table of compute capabilities; vendor data sheets)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """What could be found out: the scenarios claimed, and the facts of each distinct build with its lowest occupancy."""

    arch: str
    scenarios: tuple[str, ...]
    facts: tuple[Mapping[str, int | float | str | bool], ...]


def examine(source: str, task: Task, set_name: str, arch: str, cache: BuildCache) -> Gated | Fault:
    """The screened, built and gated candidate, or the first fault. ValueError for an architecture that isn't known."""
    if arch not in DEVICE_FACTS:
        raise ValueError(f"unknown architecture {arch}; known are {', '.join(DEVICE_FACTS)}")
    card = task.card(set_name)
    screened = screen(source, Language.CUDA, card, DEVICE_FACTS[arch], lambda scenario: task.scalars(scenario.symbols))
    if isinstance(screened, Fault):
        return screened
    builds: dict[str, Build] = {}
    launches: dict[str, dict[str, Mapping[str, int | float | str | bool]]] = {}
    for resolved in screened.resolved:
        build = compile_cuda(source, resolved, arch, cache)
        if isinstance(build, Fault):
            return build
        fault = gate_cuda(build, resolved)
        if fault is not None:
            return fault
        builds[build.key] = build
        launches.setdefault(build.key, {})[resolved.scenario] = launch_facts(build.facts, resolved, arch)
    names = tuple(scenario.name for scenario in screened.scenarios)
    facts = tuple({**build.facts, **lowest_occupancy(launches[key])} for key, build in builds.items())
    return Gated(arch=arch, scenarios=names, facts=facts)
