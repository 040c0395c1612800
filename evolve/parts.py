"""Builds what a configuration names: task, seeds, evaluator, executor, mutation. Everything is checked before a run begins."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evaluator.cuda.device import Gpu
from evaluator.outcome import Device, Fault
from evaluator.screen import Screened, screen
from evaluator.settings import HarnessSettings, evaluation_deadline_s
from evaluator.task import Task, load_task
from evaluator.task_card import TaskCard
from evolve.budget import Budget
from evolve.builds import ahead_of, facts_on
from evolve.chat import chat_answerer
from evolve.config import ConfigError, RunConfig
from evolve.desks import Desk, MailboxDesk, OwnDesk, ThreadDesk
from evolve.errors import EnvironmentUnfit
from evolve.evaluators import ELSEWHERE, EvaluatorSpec, gpus_here, quarantine_of, settings_of, spare_cores
from evolve.executors.base import Executor
from evolve.executors.elsewhere import Elsewhere
from evolve.executors.inline import InlineExecutor
from evolve.executors.processes import ProcessExecutor
from evolve.goal import Goal, check_names, parse_goal
from evolve.loop import Terms
from evolve.machine_code import MachineCode
from evolve.posing import Mutation
from evolve.recordings import recorded_answers
from evolve.rules import Rules, rules_of
from evolve.sweep import SweepRules
from evolve.tuning import conditions_of
from mutators.answerers.base import Answerer
from mutators.answerers.budget import Caps, Ledger
from mutators.answerers.chat import ChatAnswerer
from mutators.answerers.command import CommandAnswerer
from mutators.answerers.knobs import KnobAnswerer
from mutators.arms import Arm
from mutators.bank import BankError, Entry, load_bank
from mutators.linter import lint
from mutators.moments import MomentSettings
from population.candidate import Candidate, Language
from population.novelty import candidate_of
from population.selection import POLICIES
from results.mailbox import Mailbox

_LANGUAGES = {"cpu": (Language.CPP,), "cuda": (Language.CUDA,), "simulated": (Language.CPP, Language.CUDA)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that a search is made of, except its store. ``seeds`` are read from their files when they are asked for."""

    config: RunConfig
    task: Task
    card: TaskCard
    spec: EvaluatorSpec
    mutation: Mutation
    sweep: SweepRules
    terms: Terms
    rules: Rules

    def seeds(self) -> tuple[Candidate, ...]:
        """The seed kernels. Raises ConfigError naming one that can't be read."""
        return tuple(_seed(name, self.task, self.config.task.backend) for name in self.config.population.seeds)

    def check(self) -> None:
        """Nothing, where the seeds can be read and the answerer be had. Raises ConfigError, KeyMissing."""
        self.seeds()
        self.answerer(Ledger(Caps(), time.monotonic), lambda text: None)

    def answerer(self, ledger: Ledger, note: Callable[[str], None]) -> Answerer | None:
        """A fresh answerer, None where answers come from outside. One that calls models spends by ``ledger``; ``note`` hears from
        any thread what a person should know. Raises ConfigError where it can't be had here, KeyMissing.
        """
        match self.config.mutation.answerer:
            case "knobs":
                return KnobAnswerer()
            case "recorded":
                return recorded_answers(self.config.recorded.source or "")
            case "command":
                table = self.config.command
                return CommandAnswerer(table.program, time_limit_s=table.time_limit_s, environment=_shown(table.environment))
            case "chat":
                return chat_answerer(self.config.chat, ledger, os.environ, note)
            case "mailbox":
                return None

    def desk(self, mailbox: Mailbox, ledger: Ledger, note: Callable[[str], None]) -> Desk:
        """Where the prompts of a run wait for their answers; ``mailbox`` is the run's, the rest as for ``answerer``."""
        for warning in self.config.warnings:
            note(warning)
        answerer = self.answerer(ledger, note)
        if answerer is None:
            return MailboxDesk(mailbox)
        if isinstance(answerer, CommandAnswerer):
            return ThreadDesk(answerer, mailbox, self.config.command.at_once)
        if isinstance(answerer, ChatAnswerer):
            return ThreadDesk(answerer, mailbox, self.config.chat.at_once)
        return OwnDesk(answerer, mailbox)

    def executor(self, evaluate: bool = True) -> Executor:
        """A fresh executor; it may start processes, so close it. Where it isn't to ``evaluate``, it only compiles ahead.

        Raises ConfigError where there are too few CPUs or GPUs for the workers, EnvironmentUnfit where there is no GPU at all,
        too few are free of a quarantine, or Ray can't be started or reached.
        """
        table, cuda = self.config.executor, self.spec.backend == "cuda"
        gpus, missing = gpus_here() if cuda else ((), "")
        ahead = ahead_of(self.task, self.card, gpus, max(1, spare_cores() // 2)) if cuda else None
        if not evaluate:
            return Elsewhere(ahead)
        if missing and table.ray_address is None:
            raise EnvironmentUnfit(f"the cuda backend needs a GPU, and here {missing}; {ELSEWHERE}")
        if cuda and table.ray_address is None:
            gpus = _fit(gpus, table.workers, first_only=table.kind == "inline")
        if table.kind == "inline":
            return InlineExecutor(self.spec, ahead)
        deadline_s = evaluation_deadline_s(self.spec.settings, len(self.card.scenarios), table.workers)
        if table.kind == "processes":
            environments = _environments(table.workers, gpus) if cuda else [{}] * table.workers
            return ProcessExecutor(self.spec, environments=environments, deadline_s=deadline_s, ahead=ahead)
        from evolve.executors.ray_executor import RayExecutor

        try:
            return RayExecutor(
                self.spec, workers=table.workers, address=table.ray_address, deadline_s=deadline_s, gpus=cuda, ahead=ahead
            )
        except ValueError as error:
            raise ConfigError(f"[executor] {error}") from None


def assemble(config: RunConfig) -> Parts:
    """The parts that a configuration names. Raises ConfigError, or TaskError for a task that can't be read."""
    if config.executor.kind == "inline" and config.executor.workers > 1:
        raise ConfigError(
            '[executor] kind = "inline" evaluates one candidate at a time; set workers = 1, or kind = "processes" or "ray"'
        )
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
            settings=settings_for(config),
            threads=config.evaluation.threads or spare_cores(),
        ),
        mutation=_mutation(config, task, card),
        sweep=_sweep(config, task, card),
        terms=Terms(
            seed=config.run.seed,
            lookahead=config.executor.lookahead,
            workers=config.executor.workers,
            exhausted_after=config.mutation.exhausted_after,
            budget=Budget(**config.budget.model_dump()),
            goal=_goal(config, card),
        ),
        rules=rules_of(config),
    )


def settings_for(config: RunConfig) -> HarnessSettings:
    """The harness's settings that a configuration asks for."""
    table = config.evaluation
    return replace(settings_of(config.task.backend, table.pace, table.looks), least_deadline_s=table.least_deadline_s)


def _fit(gpus: Sequence[Gpu], workers: int, *, first_only: bool) -> tuple[Gpu, ...]:
    """The GPUs that aren't quarantined. Raises EnvironmentUnfit where quarantines leave too few for the workers."""
    reasons = {gpu.uuid: reason for gpu in (gpus[:1] if first_only else gpus) if (reason := quarantine_of(gpu)) is not None}
    fit = tuple(gpu for gpu in gpus if gpu.uuid not in reasons)
    if reasons and (first_only or len(fit) < workers):
        others = ",".join(gpu.uuid for gpu in gpus if gpu.uuid not in reasons)
        how = f". Until then CUDA_VISIBLE_DEVICES={others} shows only the others" if others else ""
        fewer = f" and [executor] workers = {len(fit)} asks for no more" if others and not first_only else ""
        raise EnvironmentUnfit("; ".join(reasons.values()) + how + fewer)
    return fit


def _environments(workers: int, gpus: Sequence[Gpu]) -> list[Mapping[str, str]]:
    """For each worker what shows it one GPU alone. Raises ConfigError where there are fewer GPUs than workers."""
    if len(gpus) < workers:
        raise ConfigError(f"[executor] workers = {workers}, but this process may use {len(gpus)} GPUs; each worker needs its own")
    return [{"CUDA_VISIBLE_DEVICES": gpu.uuid} for gpu in gpus[:workers]]


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
    """Questions from the shipped bank and the task's own, in the form of the configured arm."""
    arm = Arm(config.mutation.style)
    shows_code = arm is Arm.TOOLS and config.task.backend != "simulated"
    return Mutation(
        bank=bank_of(task, card),
        moments=MomentSettings(stall_attempts=config.mutation.stall_after),
        arm=arm,
        machine_code=MachineCode(task=task, card=card) if shows_code else None,
        policy=POLICIES[config.population.selection],
    )


def _sweep(config: RunConfig, task: Task, card: TaskCard) -> SweepRules:
    """How knobs are turned after an accepted edit."""

    def screened(candidate: Candidate, device: Device) -> Screened | Fault:
        return screen(
            candidate.source, candidate.language, card, facts_on(device), lambda scenario: task.scalars(scenario.symbols)
        )

    return SweepRules(
        evaluations=config.sweep.evaluations, conditions=conditions_of(task.definition.regions, card.symbols), screen=screened
    )


def _shown(names: Sequence[str]) -> Mapping[str, str]:
    """Those variables of this process's environment that are to be passed on."""
    return {name: os.environ[name] for name in names if name in os.environ}


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
        raise ConfigError(f"[population] seeds: {path} can't be read ({getattr(error, 'strerror', None) or error})") from None
    return candidate_of(text, Language(path.suffix.lstrip(".")))
