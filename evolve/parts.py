"""Builds what a configuration names: task, seeds, evaluator, executor, mutation. Everything is checked before a run begins."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from evaluator.cache import default_folder
from evaluator.request import Evaluator
from evaluator.settings import HarnessSettings, evaluation_deadline_s, full_settings, quick_settings
from evaluator.simulated import SimulatedEvaluator
from evaluator.task import Task, load_task
from evaluator.task_card import TaskCard
from evolve.budget import Budget
from evolve.config import ConfigError, RunConfig
from evolve.executors.base import Executor
from evolve.executors.inline import InlineExecutor
from evolve.goal import Goal, check_names, parse_goal
from evolve.loop import Terms
from evolve.proposal import Mutation
from evolve.state import Rules
from mutators.answerers.knobs import KnobAnswerer
from mutators.bank import BankError, Entry, load_bank
from mutators.linter import lint
from mutators.moments import MomentSettings
from population.candidate import Candidate, Language
from population.novelty import candidate_of

_LANGUAGES = {"cpu": (Language.CPP,), "cuda": (Language.CUDA,), "simulated": (Language.CPP, Language.CUDA)}


@dataclass(frozen=True, slots=True)
class EvaluatorSpec:
    """Builds an evaluator wherever it is called; pickles as a few words."""

    task: str
    scenarios: str
    backend: str
    seed: int
    settings: HarnessSettings
    threads: int

    def __call__(self) -> Evaluator:
        """A fresh evaluator. Raises ValueError where this machine lacks what it needs."""
        task = load_task(self.task)
        if self.backend == "simulated":
            return SimulatedEvaluator(task.card(self.scenarios), self.seed)
        from evaluator.cpu.backend import CpuBackend
        from evaluator.harness import Harness

        return Harness(task, self.scenarios, CpuBackend(default_folder(), self.threads), self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that a search is made of, except its store. ``seeds`` are read from their files when they are asked for."""

    config: RunConfig
    task: Task
    card: TaskCard
    spec: EvaluatorSpec
    mutation: Mutation
    terms: Terms
    rules: Rules

    def seeds(self) -> tuple[Candidate, ...]:
        """The seed kernels. Raises ConfigError naming one that can't be read."""
        return tuple(_seed(name, self.task, self.config.task.backend) for name in self.config.population.seeds)

    def executor(self) -> Executor:
        """A fresh executor; it starts processes, so close it.

        Raises ConfigError where Ray has too few CPUs, EnvironmentUnfit where it can't be started or reached.
        """
        table = self.config.executor
        if table.kind == "inline":
            return InlineExecutor(self.spec)
        from evolve.executors.ray_executor import RayExecutor

        deadline_s = evaluation_deadline_s(self.spec.settings, len(self.card.scenarios), table.workers)
        try:
            return RayExecutor(self.spec, workers=table.workers, address=table.ray_address, deadline_s=deadline_s)
        except ValueError as error:
            raise ConfigError(f"[executor] {error}") from None


def assemble(config: RunConfig) -> Parts:
    """The parts that a configuration names. Raises ConfigError, or TaskError for a task that can't be read."""
    if config.task.backend == "cuda":
        raise ConfigError(
            '[task] backend = "cuda": this version builds and gates CUDA candidates but has no launcher for them; '
            'use "cpu", or "simulated" to try settings'
        )
    if config.executor.kind == "inline" and config.executor.workers > 1:
        raise ConfigError('[executor] kind = "inline" evaluates one candidate at a time; set workers = 1, or kind = "ray"')
    task = load_task(config.task.name)
    card = task.card(config.task.scenarios)
    return Parts(
        config=config,
        task=task,
        card=card,
        spec=EvaluatorSpec(
            task=config.task.name,
            scenarios=config.task.scenarios,
            backend=config.task.backend,
            seed=config.run.seed,
            settings=_settings(config),
            threads=config.evaluation.threads or spare_cores(),
        ),
        mutation=_mutation(config, task, card),
        terms=Terms(
            seed=config.run.seed,
            lookahead=config.executor.lookahead,
            workers=config.executor.workers,
            exhausted_after=config.mutation.exhausted_after,
            budget=Budget(candidates=config.budget.candidates, hours=config.budget.hours),
            goal=_goal(config, card),
        ),
        rules=Rules(islands=config.population.islands, capacity=config.population.capacity),
    )


def spare_cores() -> int:
    """Cores that an evaluation may have: all that this process may use but one, which the search itself needs."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


def _settings(config: RunConfig) -> HarnessSettings:
    table = config.evaluation
    of_pace: Callable[..., HarnessSettings] = quick_settings if table.pace == "quick" else full_settings
    settings = of_pace() if table.looks is None else of_pace(table.looks)
    return replace(settings, least_deadline_s=table.least_deadline_s)


def bank_of(task: Task, card: TaskCard) -> tuple[Entry, ...]:
    """The shipped questions and the task's own. Raises BankError where one of the task's breaks a rule of the bank."""
    own = task.folder / "questions.toml"
    if not own.is_file():
        return load_bank()
    bank = load_bank([own])
    complaints = [complaint for complaint in lint(bank, card.symbols) if complaint.source == str(own)]
    if complaints:
        raise BankError("\n".join(map(str, complaints)))
    return bank


def _mutation(config: RunConfig, task: Task, card: TaskCard) -> Mutation:
    """The one answerer there is, asked from the shipped bank and the task's own."""
    answerers = {KnobAnswerer.name: KnobAnswerer}
    return Mutation(
        bank=bank_of(task, card),
        answerer=answerers[config.mutation.answerer](),
        moments=MomentSettings(stall_attempts=config.mutation.stall_after),
    )


def _goal(config: RunConfig, card: TaskCard) -> Goal | None:
    if config.goal.expression is None:
        return None
    goal = parse_goal(config.goal.expression)
    check_names(goal, card)
    return goal


def _seed(name: str, task: Task, backend: str) -> Candidate:
    """A seed by its name in the task's folder, or by its path."""
    languages = _LANGUAGES[backend]
    if "/" in name:
        path = Path(name)
        if path.suffix.lstrip(".") not in languages:
            raise ConfigError(
                f"[population] seeds: {name} isn't a {' or '.join(f'.{language}' for language in languages)} file, "
                f"which the {backend} backend runs"
            )
    else:
        found = {seed: path for language in reversed(languages) for seed, path in task.seeds(language).items()}
        if name not in found:
            raise ConfigError(
                f"[population] seeds: task {task.name} has no seed {name!r} for the {backend} backend; it has "
                f"{', '.join(found) or 'none'}; a file of yours is named by a path, such as ./my_kernel.cpp"
            )
        path = found[name]
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"[population] seeds: {path} can't be read ({error})") from None
    return candidate_of(text, Language(path.suffix.lstrip(".")))
