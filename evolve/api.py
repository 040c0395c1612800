"""A search from Python: ``run("examples/cpu_quick.toml")`` does what ``askevolve run`` does."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from evaluator.outcome import Fitness, Outcome
from evaluator.task_card import TaskCard
from evolve.chat import charging, ledger_of
from evolve.config import ConfigError, RunConfig, load_config, overridden, resumable, validated
from evolve.executors.base import Executor
from evolve.journal import Journal
from evolve.loop import Search
from evolve.parts import Parts, assemble
from evolve.remembering import keep, noted_earlier
from evolve.state import State
from evolve.stopping import StopReason, StopRequest
from evolve.sweep import Sweeps
from evolve.verified import verified_finals
from results.events import CONFIG_FACT, Event, RunNoted, RunStarted
from results.folder import new_run_folder
from results.mailbox import Mailbox
from results.store import Store

Observer = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Versus:
    """How many times faster the best is than somebody: the geometric mean over scenarios with its interval."""

    name: str
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best candidate. ``verified``: by a final, from which the ratios then come; ``over_better_seed`` exists only then. The
    final may have been made elsewhere, on another device where the run's own verified none.

    Where the best is a seed itself, ``over_better_seed`` is 1 by definition.
    """

    id: str
    verified: bool
    over_better_seed: Versus | None
    over_baseline: Versus


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run has found so far. ``candidates`` are evaluations paid for; ``spent`` has what is spent by the keys of
    [budget]; ``best`` is None while nothing is right.
    """

    best: Best | None
    candidates: int
    questions_asked: int
    spent: Mapping[str, float]
    stopped_by: StopReason
    folder: Path
    signalled: bool = False
    """Whether ctrl-C or SIGTERM asked this driver to stop."""


def run(
    config: RunConfig | Path | str,
    overrides: Sequence[str] = (),
    *,
    root: Path = Path("runs"),
    observers: Sequence[Observer] = (),
    executor: Executor | None = None,
    evaluate: bool = True,
    until_idle: bool = False,
    remembers: bool = True,
) -> RunResult:
    """Search as a configuration says, in a new folder ``root/NAME``. ``overrides`` are texts such as ``budget.candidates=40``.

    ``observers`` see every event once it is stored. ``executor`` takes the configured one's place; it is closed at the end.
    With ``evaluate`` False nothing is evaluated here: the run asks as far as it can and leaves evaluations open for ``resume``
    on another machine. With ``until_idle`` the run stops where it could only wait for answers from outside. With ``remembers``
    False it neither begins with the records of the runs beside it nor leaves them its own.
    Raises ConfigError, GoalError, TaskError, KeyMissing and EnvironmentUnfit before anything is written, and
    ``results.errors.RunError`` about the folder.
    """
    if isinstance(config, RunConfig):
        config = validated(overridden(config.mapping(), overrides), "configuration")
    else:
        config = load_config(Path(config), overrides)
    parts = assemble(config)
    parts.check()
    started = RunStarted(
        name=config.run.name, config=config.mapping(), config_hash=config.hash, card=parts.card, version=_version()
    )
    folder = new_run_folder(config.run.name, root)
    with closing(executor or parts.executor(evaluate)) as evaluating, Store.create(folder, started) as store:
        state = State(parts.card, parts.rules)
        for note in noted_earlier(root, config) if remembers else ():
            store.append(note)
            state.apply(note)
        return _drive(store, state, parts, evaluating, observers, evaluate, until_idle, remembers)


def resume(
    folder: Path | str,
    overrides: Sequence[str] = (),
    *,
    observers: Sequence[Observer] = (),
    executor: Executor | None = None,
    evaluate: bool = True,
    until_idle: bool = False,
    remembers: bool = True,
) -> RunResult:
    """Go on with a run where its last driver stopped or was killed. ``overrides`` may change what docs/configuration.md says.

    A run that is over stays as it is. ``observers``, ``executor``, ``evaluate``, ``until_idle`` and ``remembers`` are those
    of ``run``.
    Raises ConfigError for another change or a changed task, KeyMissing, and ``results.errors.RunError`` about the folder.
    """
    with Store.open(Path(folder)) as store:
        events = [recorded.event for recorded in store.events()]
        stored, card = stored_config(events)
        config = validated(overridden(stored.mapping(), overrides), "configuration")
        changed = resumable(stored, config)
        parts = assemble(config)
        if parts.card.hash != card.hash:
            raise ConfigError(
                f"task {card.name} has changed since this run began, so its numbers can't be compared any more; "
                "start a new run, or bring the task back to what it was"
            )
        state = State(card, parts.rules)
        for event in events:
            state.apply(event)
        if changed:
            text = "; ".join(f"{key}: {old!r} -> {new!r}" for key, (old, new) in changed.items())
            store.append(RunNoted(text=f"configuration changed: {text}", facts={CONFIG_FACT: config.mapping()}))
        with closing(executor or parts.executor(evaluate)) as evaluating:
            return _drive(store, state, parts, evaluating, observers, evaluate, until_idle, remembers)


def stored_config(events: Sequence[Event]) -> tuple[RunConfig, TaskCard]:
    """The configuration that a stored run goes by, with every change since its start, and its task's card.

    A run that began before there were sweeps goes on without.
    """
    started = events[0]
    if not isinstance(started, RunStarted):
        raise TypeError("the first event of a run is its start")
    values: object = started.config
    for event in events:
        if isinstance(event, RunNoted) and CONFIG_FACT in event.facts:
            values = event.facts[CONFIG_FACT]
    if not isinstance(values, Mapping):
        raise TypeError("a stored configuration is a mapping")
    return validated({"sweep": {"evaluations": 0}, **values}, "the run's stored configuration"), started.card


def result_of(state: State, reason: StopReason, folder: Path) -> RunResult:
    """What a state amounts to."""
    spent = state.spent
    return RunResult(
        best=best_of(state),
        candidates=state.spent.candidates,
        questions_asked=sum(asked.question is not None for asked in state.asked) + len(state.open),
        spent={
            "candidates": spent.candidates,
            "hours": spent.wall_s / 3600,
            "tokens": spent.tokens,
            "usd": spent.usd,
            "gpu_hours": spent.gpu_s / 3600,
        },
        stopped_by=reason,
        folder=folder,
    )


def best_of(state: State) -> Best | None:
    """The verified candidate with the highest lower bound, else the incumbent, unverified."""
    finals = verified_finals(state)
    fits = {name: final.fitness for name, final in finals.items() if final.fitness}
    if fits:
        best_id = max(fits, key=lambda name: fits[name].low)
        return Best(
            id=best_id,
            verified=True,
            over_better_seed=_over_better_seed(state, best_id, finals[best_id]),
            over_baseline=_versus(fits[best_id], fits[best_id].opponent),
        )
    member = state.best
    fitness = state.outcomes[member.candidate_id].fitness if member else None
    if member is None or fitness is None:
        return None
    return Best(
        id=member.candidate_id,
        verified=False,
        over_better_seed=None,
        over_baseline=_versus(fitness, fitness.opponent),
    )


def _over_better_seed(state: State, best_id: str, final: Outcome) -> Versus | None:
    """The final's race against the seed that was harder to beat."""
    seeds = {seed.id for seed in state.seeds}
    if best_id in seeds:
        return Versus(name=best_id, ratio=1.0, low=1.0, high=1.0)
    races = [race for race in final.versus if race.opponent.removeprefix("candidate:") in seeds]
    if not races:
        return None
    hardest = min(races, key=lambda race: race.geomean)
    return _versus(hardest, hardest.opponent.removeprefix("candidate:"))


def _versus(fitness: Fitness, name: str) -> Versus:
    return Versus(name=name, ratio=fitness.geomean, low=fitness.low, high=fitness.high)


def _drive(
    store: Store,
    state: State,
    parts: Parts,
    executor: Executor,
    observers: Sequence[Observer],
    evaluates: bool,
    until_idle: bool,
    remembers: bool,
) -> RunResult:
    """Search until there is a reason to stop."""
    mailbox = Mailbox(store.folder)
    ledger = ledger_of(parts.config.budget, state, mailbox)
    journal = Journal(store, state, time.monotonic, (charging(ledger), *observers))
    with StopRequest(store.folder) as stop:
        search = Search(
            state=state,
            journal=journal,
            executor=executor,
            desk=parts.desk(mailbox, ledger, journal.note),
            mailbox=mailbox,
            mutation=parts.mutation,
            sweeps=Sweeps(state, parts.sweep),
            terms=parts.terms,
            stop=stop,
            evaluates=evaluates,
            until_idle=until_idle,
        )
        reason = search.run(parts.seeds() if state.next_number == 0 else ())
    if remembers and (problem := keep(store.folder.parent, parts.config, state)):
        store.append(RunNoted(text=problem))
    return replace(result_of(state, reason, store.folder), signalled=stop.signalled)


def _version() -> str:
    try:
        return version("askevolve")
    except PackageNotFoundError:  # run from a checkout that isn't installed
        return "0"
