"""Harnesses on the GPU for the packs: small scenarios, few blocks, short deadlines."""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from evaluator.backend import Array, Build, Program
from evaluator.cuda.offline import DEVICE_FACTS
from evaluator.harness import Harness
from evaluator.outcome import Effort, Fault, Outcome
from evaluator.plan.resolved import Resolved
from evaluator.request import Request
from evaluator.screen import screen
from evaluator.settings import HarnessSettings
from evaluator.task import Task
from evaluator.task_card import Scenario
from population.candidate import Language
from population.novelty import candidate_of

SECRET_SEED = 20261130
MOST_CHARACTERS = 600
SETTINGS = HarnessSettings(
    looks=(6,),
    restarts=1,
    narrow_half_width=100.0,
    ambiguous_half_width=100.0,
    batch_us=200.0,
    max_slots=4,
    warm_runs=2,
    max_dropped_share=0.0,
    pool_members=1,
    search_distributions=3,
    repeats=3,
    hidden_scenarios=2,
    least_deadline_s=1.5,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A harness on the GPU and its architecture."""

    harness: Harness
    arch: str
    folder: Path

    def evaluate(self, source: str, effort: Effort = Effort.SEARCH) -> Outcome:
        """The outcome of a source, once it is sure that it tells nothing of this machine."""
        outcome = self.harness.evaluate(Request(candidate=candidate_of(source, Language.CUDA), effort=effort))
        assert str(self.folder) not in repr(asdict(outcome)), outcome
        return outcome


def open_bench(
    folder: Path, task: Task, set_name: str, settings: HarnessSettings = SETTINGS, baseline: str | None = None
) -> Bench:
    """A harness with a cache and a lock of its own, whose inputs are the same every time."""
    from evaluator.cuda.backend import CudaBackend

    backend = CudaBackend(folder / "cache")
    entropy = np.random.default_rng(SECRET_SEED).bytes
    harness = Harness(task, set_name, backend, settings, entropy=entropy, baseline=baseline, lock=folder / "lock")
    return Bench(harness=harness, arch=backend.device.arch, folder=folder)


def check_refusal(outcome: Outcome) -> None:
    """One helpful message and no score."""
    assert outcome.fitness is None
    assert outcome.fault is not None
    assert 20 < len(outcome.message) <= MOST_CHARACTERS
    assert outcome.message.isprintable()
    assert "Traceback" not in outcome.fault.detail


def resolved_for(source: str, task: Task, scenario: Scenario, arch: str) -> Resolved:
    """The plan of a source in one scenario, which must be in its domain."""
    one = Task(**{name: getattr(task, name) for name in task.__dataclass_fields__} | {"scenarios": {"one": (scenario,)}})
    screened = screen(source, Language.CUDA, one.card("one"), DEVICE_FACTS[arch], lambda found: task.scalars(found.symbols))
    assert not isinstance(screened, Fault), screened
    return screened.resolved[0]


def program_for(source: str, resolved: Resolved, scenario: Scenario, build: Build | Fault) -> Program:
    """What a sanitizer runs."""
    assert isinstance(build, Build), build
    return Program(candidate_id=candidate_of(source, Language.CUDA).id, scenario=scenario, build=build, resolved=resolved)


def inputs_for(task: Task, scenario: Scenario) -> dict[str, Array]:
    """Ordinary inputs as host arrays."""
    return task.inputs(scenario.symbols, task.distributions[0], np.random.default_rng(SECRET_SEED))
