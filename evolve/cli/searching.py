"""Commands that search: run, resume, stop."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from evolve.cli.inspecting import Json, Run, opened, plain
from evolve.cli.output import CommandError, Exit, print_json, say, write

Set = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="TABLE.KEY=VALUE",
        help="Override a key, such as budget.candidates=40; may be repeated. Precedence: defaults < file < --set.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress lines on stderr.")]
RayAddress = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="A Ray cluster's address, or 'auto': executor.ray_address.", show_default=False),
]
NoEvaluate = Annotated[
    bool,
    typer.Option(
        "--no-evaluate", help="Ask, compile ahead, and leave evaluations open for another machine, which goes on by resume."
    ),
]
UntilIdle = Annotated[
    bool,
    typer.Option("--until-idle", help="Where all is evaluated and only answers are awaited, stop with code 8 and don't wait."),
]
NO_OVERRIDES: list[str] = []
COST = {
    "knobs": "none, the knobs answerer calls no model",
    "mailbox": "whatever those spend who answer",
    "command": "whatever the program spends",
    "recorded": "none, the answers were given before",
    "chat": "each answer by its tokens, until [budget] tokens or usd binds (docs/models.md)",
}
TYPICAL = {
    "quick": "5 to 15 s for a few scenarios of about a millisecond on two cores, its final about 40 s (docs/measurements.md)",
    "full": "10 to 60 s for a few scenarios of about a millisecond on two cores, its final a minute or more",
}
""" What people ask before they start; measured once, so a hint and no promise."""


def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A run's TOML file.", show_default=False)],
    overrides: Set = NO_OVERRIDES,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The run's name; an error where it is taken.", show_default=False)
    ] = None,
    until_idle: UntilIdle = False,
    ray_address: RayAddress = None,
    no_evaluate: NoEvaluate = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen and what it would cost.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Search as a configuration says, in runs/NAME.

    The first ctrl-C (or SIGTERM) lets evaluations under way finish, saves, and prints the command that goes on; a second one
    quits at once, and nothing stored is lost either way.
    """
    from evolve.config import load_config

    overrides = [*overrides, *_on_ray(ray_address), *([f"run.name={name}"] if name is not None else [])]
    chosen = load_config(config, overrides)
    if dry_run:
        _explain(chosen, as_json)
        return
    from evolve import api
    from evolve.parts import assemble

    assemble(chosen).check()  # what the configuration names is there, before a name is taken
    if name is None:
        chosen = _with_free_name(chosen)

    with _observing(quiet, chosen.budget.candidates, outside=_outside(chosen)) as observers:
        result = api.run(chosen, observers=observers, evaluate=not no_evaluate, until_idle=until_idle)
    _report(result, chosen.budget, as_json)


def resume(
    run: Run,
    overrides: Set = NO_OVERRIDES,
    until_idle: UntilIdle = False,
    ray_address: RayAddress = None,
    no_evaluate: NoEvaluate = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Go on with a run where it stopped or was killed.

    --set may change [budget], [executor] and who answers; a finished run with a larger budget goes on too.
    """
    from evolve import api
    from evolve.config import overridden, validated
    from results.folder import find_run

    overrides = [*overrides, *_on_ray(ray_address)]
    with opened(run) as reader:
        stored, _ = api.stored_config([recorded.event for recorded in reader.events()])
        info = reader.info()
        open_steps = [step for step in reader.steps() if step.candidate_id and not step.verdict]
        waiting = {step.number: step.entry_id or step.origin.value for step in open_steps}
    config = validated(overridden(stored.mapping(), overrides), "configuration")
    standing = {"evaluated": info.evaluated, "best_id": info.best_id, "waiting": waiting, "outside": _outside(config)}
    with _observing(quiet, config.budget.candidates, **standing) as observers:
        result = api.resume(find_run(run), overrides, observers=observers, evaluate=not no_evaluate, until_idle=until_idle)
    _report(result, config.budget, as_json)


def _outside(config: Any) -> bool:
    """Whether answers come from outside."""
    return bool(config.mutation.answerer == "mailbox")


def _on_ray(address: str | None) -> list[str]:
    """The overrides that a Ray address stands for."""
    return [] if address is None else ["executor.kind=ray", f"executor.ray_address={address}"]


def stop(run: Run) -> None:
    """Ask a running search to save and stop.

    It finishes the evaluations under way first; `askevolve resume RUN` goes on with it.
    """
    from results.folder import find_run, request_stop
    from results.lock import is_locked

    folder = find_run(run)
    if not is_locked(folder):
        raise CommandError(f"{folder}: no process works on this run, so there is nothing to stop", Exit.RUN_FOLDER)
    request_stop(folder)
    say(f"asked {folder} to stop; evaluations under way are finished first. Go on later: {_resuming(folder)}")


def _with_free_name(config: Any) -> Any:
    """The configuration, under the next free name where its own is taken by an earlier run; says so."""
    from evolve.config import overridden, validated
    from results.folder import holds_run

    name, number = config.run.name, 2
    while holds_run(Path("runs") / name):
        name, number = f"{config.run.name}-{number}", number + 1
    if name == config.run.name:
        return config
    say(
        f"runs/{config.run.name} holds an earlier run; this one is {name}. "
        f"To go on with the earlier: askevolve resume {config.run.name}"
    )
    return validated(overridden(config.mapping(), [f"run.name={name}"]), "configuration")


@contextmanager
def _observing(quiet: bool, total: int, **standing: Any) -> Iterator[list[Callable[[Any], None]]]:
    """The observers of a search: progress on stderr, or none where it is to be quiet; ``standing`` as Progress takes it."""
    if quiet:
        yield []
        return
    from evolve.cli.progress import Progress

    with Progress(total, **standing) as progress:
        yield [progress]


def _resuming(folder: Path) -> str:
    """The command that goes on with a run."""
    return f"askevolve resume {shlex.quote(str(folder))}"


def _explain(config: Any, as_json: bool) -> None:
    """What a run would do and cost, from the configuration alone; everything it names is loaded and checked."""
    from evolve.parts import assemble
    from population.candidate import short_id
    from results.text import table

    parts = assemble(config)
    seeds = parts.seeds()
    budget = config.budget
    for warning in config.warnings:
        say(warning)
    facts: dict[str, object] = {
        "run": config.run.name,
        "folder": str(Path("runs") / config.run.name),
        "task": parts.card.name,
        "scenarios": f"{len(parts.card.scenarios)} of set {parts.card.scenario_set}",
        "backend": config.task.backend,
        "baselines": _baselines(parts),
        "seeds": ", ".join(f"{name} ({short_id(seed.id)})" for name, seed in zip(config.population.seeds, seeds, strict=True)),
        "questions in the bank": len(parts.mutation.bank),
        "answerer": config.mutation.answerer,
        "candidates at most": budget.candidates,
        "hours at most": budget.hours or "no limit",
        "tokens at most": budget.tokens or "no limit",
        "USD at most": budget.usd or "no limit",
        "GPU hours at most": budget.gpu_hours or "no limit",
        "time of an evaluation": _typical(config.task.backend, config.evaluation.pace),
        "cost of the model": COST[config.mutation.answerer],
        "executor": f"{config.executor.kind}, {config.executor.workers} at once, {config.executor.lookahead} proposals open",
        "goal": config.goal.expression or "none, the budget ends the run",
        "configuration hash": config.hash,
    }
    if as_json:
        print_json({"dry_run": True, **{key.replace(" ", "_"): value for key, value in facts.items()}})
    else:
        write(table(("dry run", ""), facts.items()))


def _typical(backend: str, pace: str) -> str:
    """How long an evaluation takes, as far as it was measured before."""
    if backend == "cpu":
        return TYPICAL[pace]
    return "none is measured" if backend == "simulated" else "seconds for a few scenarios (docs/measurements.md)"


def _baselines(parts: Any) -> str:
    """The baselines of the backend that a run would use, those first that are available here."""
    from evaluator.task import load_baselines

    backend = "cpu" if parts.config.task.backend == "simulated" else parts.config.task.backend
    reasons = {
        baseline.name: baseline.available() for baseline in load_baselines(parts.task.folder) if baseline.backend == backend
    }
    here = [name for name, reason in reasons.items() if reason is None]
    missing = [f"{name} (missing: {reason})" for name, reason in reasons.items() if reason is not None]
    return ", ".join([*here, *missing]) or f"none for {backend}"


def _report(result: Any, budget: Any, as_json: bool) -> None:
    """Print what a run found and end with the exit code that says how it stands."""
    from dataclasses import asdict

    from evolve.cli.summary import summary_lines
    from evolve.stopping import GOES_ON, StopReason

    if as_json:
        print_json(
            {
                "best": plain(result.best), "candidates": result.candidates, "questions_asked": result.questions_asked,
                "spent": dict(result.spent), "stopped_by": result.stopped_by.value, "folder": str(result.folder),
                "gpu": asdict(gpu) if (gpu := _utilisation(result.folder)) else None,
            }
        )  # fmt: skip
    else:
        with opened(str(result.folder)) as reader:
            write(summary_lines(reader, result, _utilisation(result.folder)))
    if result.stopped_by is StopReason.FAULTS:
        say(f"Go on afterwards: {_resuming(result.folder)}")
        raise CommandError("evaluations keep ending in faults of the harness; `askevolve doctor` may say why", Exit.ENVIRONMENT)
    if result.stopped_by in (StopReason.ANSWERER, StopReason.ENVIRONMENT):
        why = _why_stopped(result.folder).rstrip(". ")
        raise CommandError(f"{why}. Nothing stored is lost: {_resuming(result.folder)}", Exit.ENVIRONMENT)
    if result.stopped_by is StopReason.EVALUATION:
        say(
            f"{_open(result.folder)}. Copy {result.folder} to a machine that evaluates, and there: {_resuming(result.folder)} "
            "--until-idle"
        )
        return
    if result.stopped_by is StopReason.WAITING:
        name = shlex.quote(str(result.folder))
        say(
            f"{_prompts(result.folder)}. Take one: askevolve next {name}; answer it: askevolve answer {name} STEP FILE; "
            f"go on: {_resuming(result.folder)}"
        )
        raise SystemExit(Exit.WAITING)
    if result.stopped_by in GOES_ON:
        say(f"stopped ({result.stopped_by}); nothing is lost. Go on: {_resuming(result.folder)}")
        return
    if result.stopped_by is StopReason.EXHAUSTED:
        say(f"the last answers made no new candidate; why: askevolve status {shlex.quote(str(result.folder))}")
    if more := _larger_budget(result, budget):
        say(f"{more[0]}; a larger budget goes on from here: {_resuming(result.folder)} --set {more[1]}")
    if result.best is None or not result.best.verified or result.best.over_baseline.low <= 1.0:
        say("finished, but no verified candidate beats the baseline (its interval would lie above 1)")
        raise SystemExit(Exit.NOT_BEATEN)


def _utilisation(folder: Path) -> Any:
    """How busy a run's evaluations kept their GPUs."""
    from evolve.utilisation import utilisation

    with opened(str(folder)) as reader:
        return utilisation([recorded.event for recorded in reader.events()])


def _open(folder: Path) -> str:
    """How much of a run waits for evaluation."""
    from results.text import count

    with opened(str(folder)) as reader:
        waiting = sum(row.steps for row in reader.funnel() if row.stage == "waiting")
    return f"{count(waiting, 'evaluation')} open" if waiting else "a final is due"


def _prompts(folder: Path) -> str:
    """How many prompts of a run wait for answers."""
    from results.text import count

    with opened(str(folder)) as reader:
        return f"{count(reader.info().open_steps, 'prompt')} open"


def _larger_budget(result: Any, budget: Any) -> tuple[str, str] | None:
    """What of the budget is spent and the setting that doubles it; None where something else ended the run."""
    from evolve.stopping import StopReason

    candidates, hours = result.spent["candidates"], result.spent["hours"]
    if result.stopped_by is StopReason.CANDIDATES:
        return f"all candidates are spent ({candidates})", f"budget.candidates={2 * candidates}"
    if result.stopped_by is StopReason.HOURS:
        return f"all hours are spent ({hours:.3f}, finals included)", f"budget.hours={max(0.01, 2 * hours):.2f}"
    if result.stopped_by in (StopReason.TOKENS, StopReason.USD, StopReason.GPU_HOURS):
        key = result.stopped_by.value
        spent, cap = result.spent[key], getattr(budget, key)
        return f"the budget of {key} is spent ({spent:.6g} of {cap:.6g})", f"budget.{key}={2 * cap}"
    return None


def _why_stopped(folder: Path) -> str:
    """Why the last driver stopped before its time, in its words."""
    from results.events import WHY_STOPPED, RunNoted

    with opened(str(folder)) as reader:
        notes = [recorded.event for recorded in reader.events() if isinstance(recorded.event, RunNoted)]
    return next(note.text for note in reversed(notes) if WHY_STOPPED in note.facts)
