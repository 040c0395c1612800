"""One harness over attention_forward for the whole pack: small scenarios, few blocks, limits that a busy machine can't reach."""

import gc
import os
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from evaluator.cpu.backend import CpuBackend
from evaluator.harness import Harness
from evaluator.outcome import Effort, Outcome, Verdict
from evaluator.request import Request
from evaluator.sandbox import Limits
from evaluator.settings import HarnessSettings
from evaluator.task import Task, load_task
from evaluator.task_card import Scenario
from population.candidate import Language
from population.novelty import candidate_of
from tests.cheats.variants import CPU, CPU_HONEST

FOLDER = Path(__file__).parent / "attention"
GOOD = FOLDER / "honest" / "one_row_a_task.cpp"
REPOSITORY = Path(__file__).parents[2]
RIGHT = {Verdict.OK, Verdict.AMBIGUOUS, Verdict.SLOWER}
"""Verdicts of right kernels; which of them it is depends on how quiet the machine is."""
ENVIRONMENT_SECRET = "hunter2-of-the-environment"
SET = "pack"
SECRET_SEED = 20260731
COMPILE_LIMITS = Limits(cpu_s=3, wall_s=60.0, memory_bytes=1 << 30, file_bytes=32 << 20)
SETTINGS = HarnessSettings(
    looks=(6,),
    narrow_half_width=100.0,
    ambiguous_half_width=100.0,
    batch_us=1500.0,
    max_slots=16,
    warm_runs=2,
    max_dropped_share=0.0,
    pool_members=1,
    search_distributions=12,
    repeats=3,
    hidden_scenarios=2,
    least_deadline_s=1.5,
)
SHAPES = {
    "grouped_causal": {"b": 2, "sq": 21, "sk": 37, "h": 4, "hkv": 2, "d": 32, "causal": 1, "window": 0},
    "full": {"b": 1, "sq": 70, "sk": 70, "h": 2, "hkv": 2, "d": 32, "causal": 0, "window": 0},
    "window": {"b": 1, "sq": 150, "sk": 130, "h": 2, "hkv": 1, "d": 32, "causal": 1, "window": 20},
}
"""Cheapest first. Every scenario has what some cheat needs: grouped heads, sq != sk, rows that see no key, a window."""


def small_task() -> Task:
    """attention_forward with the scenarios above as its only set."""
    task = load_task("attention_forward")
    scenarios = []
    for name, sizes in SHAPES.items():
        symbols: dict[str, int | str] = {**sizes, "dtype": "fp32"}
        scenarios.append(Scenario(name=name, symbols=symbols, region=task.region(symbols)))
    return replace(task, scenarios={SET: tuple(scenarios)})


def read_source(path: Path) -> str:
    """A candidate's source as the command line reads it."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def bad_source(name: str) -> str:
    """A bad candidate of attention_forward, from its file or as a variant of the right one."""
    return CPU[name].source if name in CPU else read_source(FOLDER / f"{name}.cpp")


def honest_sources() -> dict[str, str]:
    """The unusual but right candidates of attention_forward, by name."""
    files = {path.stem: read_source(path) for path in sorted((FOLDER / "honest").glob("*.cpp"))}
    return files | {name: variant.source for name, variant in CPU_HONEST.items()}


def text_of(outcome: Outcome) -> str:
    """Everything that an outcome says, as one text."""
    return repr(asdict(outcome))


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What evaluations could leave behind: processes, open files, shared memory, temporary files."""

    processes: tuple[str, ...]
    descriptors: int
    shared_mappings: int
    temporary: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A harness, the folder of its files and the empty folder for temporary ones."""

    harness: Harness
    folder: Path
    temporary: Path

    def evaluate(self, source: str, effort: Effort = Effort.SEARCH) -> Outcome:
        """The outcome of a C++ source, once nothing of the evaluation is left and nothing of this machine is told."""
        before = self.traces()
        outcome = self.harness.evaluate(Request(candidate=candidate_of(source, Language.CPP), effort=effort))
        if self.traces() != before:
            gc.collect()  # arrays over shared memory may still wait for it
            assert self.traces() == before
        told = text_of(outcome)
        for secret in (ENVIRONMENT_SECRET, str(self.folder), str(self.temporary), str(Path.home()), str(REPOSITORY), sys.prefix):
            assert secret not in told
        return outcome

    def traces(self) -> Traces:
        """What there is now, without the baseline's warm processes."""
        commands = (" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True))
        return Traces(
            processes=tuple(sorted(command for command in commands if "evaluator.cpu.baseline_child" not in command)),
            descriptors=len(os.listdir("/proc/self/fd")),
            shared_mappings=Path("/proc/self/maps").read_text().count("/memfd:"),
            temporary=tuple(sorted(path.name for path in self.temporary.iterdir())),
        )


def open_watched(folder: Path, patch: pytest.MonkeyPatch) -> Watched:
    """A harness after its first evaluation, whose inputs are the same every time; a secret stands in its environment."""
    temporary = folder / "temporary"
    temporary.mkdir()
    patch.setattr("tempfile.tempdir", str(temporary))
    patch.setenv("ASKEVOLVE_TEST_KEY", ENVIRONMENT_SECRET)
    backend = CpuBackend(folder / "cache", threads=2, compile_limits=COMPILE_LIMITS)
    entropy = np.random.default_rng(SECRET_SEED).bytes
    harness = Harness(small_task(), SET, backend, SETTINGS, entropy=entropy, lock=folder / "lock")
    harness.evaluate(Request(candidate=candidate_of(read_source(GOOD), Language.CPP)))
    return Watched(harness=harness, folder=folder, temporary=temporary)
