"""Commands that search: run, resume, stop."""

from pathlib import Path
from typing import Annotated, Any

import typer

from evolve.cli.inspecting import Json, Run, opened, plain
from evolve.cli.output import CommandError, Exit, print_json, say, write

Set = Annotated[list[str], typer.Option("--set", help="Override a key: table.key=value. May be repeated.", show_default=False)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress lines on stderr.")]
NO_OVERRIDES: list[str] = []


def run(
    config: Annotated[Path, typer.Argument(help="A run's TOML file; precedence: defaults < file < --set.", show_default=False)],
    overrides: Set = NO_OVERRIDES,
    name: Annotated[str | None, typer.Option(help="The run's name; an error where it is taken.", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen and what it would cost.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Search as a configuration says, in a new folder runs/NAME. The first ctrl-C drains, saves and says how to go on."""
    from evolve.config import load_config

    chosen = load_config(config, [*overrides, *([f"run.name={name}"] if name else [])])
    if dry_run:
        _explain(chosen, as_json)
        return
    if name is None:
        chosen = _with_free_name(chosen)
    from evolve import api

    _report(api.run(chosen, observers=_observers(quiet, chosen)), as_json)


def resume(
    run: Run,
    overrides: Set = NO_OVERRIDES,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Exit with code 8 once only answers are awaited, instead of waiting for them.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Go on with a run where its last driver stopped or was killed. --set may change [budget] and [executor]."""
    from evolve import api
    from results.folder import find_run

    with opened(run) as reader:
        config, _ = api.stored_config([recorded.event for recorded in reader.events()])
    result = api.resume(find_run(run), overrides, observers=_observers(quiet, config))
    _report(result, as_json, until_idle)


def stop(run: Run) -> None:
    """Ask a running search to drain, save and stop; `askevolve resume RUN` goes on with it."""
    from results.folder import find_run, request_stop
    from results.lock import is_locked

    folder = find_run(run)
    if not is_locked(folder):
        raise CommandError(f"{folder}: no process works on this run, so there is nothing to stop", Exit.RUN_FOLDER)
    request_stop(folder)
    say(f"asked {folder} to stop; evaluations under way are finished first. Go on later: askevolve resume {run}")


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
        f"runs/{config.run.name} holds an earlier run; this one is {name}. To go on with the earlier: askevolve resume {config.run.name}"
    )
    return validated(overridden(config.mapping(), [f"run.name={name}"]), "configuration")


def _observers(quiet: bool, config: Any) -> list[Any]:
    from evolve.cli.progress import Progress

    return [] if quiet else [Progress(config.budget.candidates)]


def _explain(config: Any, as_json: bool) -> None:
    """What a run would do and cost, from the configuration alone; everything it names is loaded and checked."""
    from evolve.parts import assemble
    from results.terminal import table

    parts = assemble(config)
    seeds = parts.seeds()
    budget = config.budget
    facts: dict[str, object] = {
        "run": config.run.name,
        "task": parts.card.name,
        "scenarios": f"{len(parts.card.scenarios)} of set {parts.card.scenario_set}",
        "backend": config.task.backend,
        "baselines": ", ".join(parts.card.baselines),
        "seeds": len(seeds),
        "questions in the bank": len(parts.mutation.bank),
        "answerer": config.mutation.answerer,
        "evaluations at most": budget.candidates,
        "hours at most": budget.hours,
        "model cost": "none: the knobs answerer calls no model",
        "executor": f"{config.executor.kind}, {config.executor.workers} at once, {config.executor.lookahead} proposals open",
        "goal": config.goal.expression,
        "configuration hash": config.hash,
    }
    if as_json:
        print_json({"dry_run": True, **{key.replace(" ", "_"): value for key, value in facts.items()}})
    else:
        write(table(("", "would be"), facts.items()))


def _report(result: Any, as_json: bool, until_idle: bool = False) -> None:
    """Print what a run found and end with the exit code that says how it stands."""
    from evolve.cli.summary import summary_lines
    from evolve.stopping import GOES_ON, StopReason

    if as_json:
        print_json(
            {
                "best": plain(result.best), "candidates": result.candidates, "questions_asked": result.questions_asked,
                "spent": dict(result.spent), "stopped_by": result.stopped_by.value, "folder": str(result.folder),
            }
        )  # fmt: skip
    else:
        with opened(str(result.folder)) as reader:
            write(summary_lines(reader, result))
    if result.stopped_by in GOES_ON:
        say(f"stopped ({result.stopped_by}); nothing is lost. Go on: askevolve resume {result.folder}")
    if result.stopped_by is StopReason.WAITING and until_idle:
        raise SystemExit(Exit.WAITING)
    if result.stopped_by is StopReason.FAULTS:
        raise CommandError("evaluations keep ending in faults of the harness; `askevolve doctor` may say why", Exit.ENVIRONMENT)
    beaten = result.best is not None and result.best.verified and result.best.over_baseline.low > 1.0
    if result.stopped_by not in GOES_ON and not beaten:
        raise SystemExit(Exit.NOT_BEATEN)
