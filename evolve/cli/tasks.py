"""Commands on tasks: list them, admit one, start a new one."""

from pathlib import Path
from typing import Annotated

import typer

from evolve.cli.inspecting import Json
from evolve.cli.output import CommandError, Exit, print_json, say, write

app = typer.Typer(help="List tasks, check one, or start a new one.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_tasks(
    task: Annotated[str | None, typer.Argument(help="A task: show its scenario sets.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """The built-in tasks, or one task's scenario sets, seeds and baselines."""
    from evaluator.task import BUILT_IN, load_baselines, load_task
    from population.candidate import Language
    from results.terminal import table

    if task is None:
        tasks = [load_task(path.parent.name) for path in sorted(BUILT_IN.glob("*/task.toml"))]
        if as_json:
            print_json({"tasks": [{"name": t.name, "summary": t.definition.summary, "sets": list(t.sets())} for t in tasks]})
        else:
            write(table(("task", "summary", "sets"), ((t.name, t.definition.summary, ", ".join(t.sets())) for t in tasks)))
        return
    chosen = load_task(task)
    sets = {name: len(chosen.card(name).scenarios) for name in chosen.sets()}
    seeds = {language.value: list(chosen.seeds(language)) for language in Language}
    baselines = {baseline.name: baseline.available() for baseline in load_baselines(chosen.folder)}
    if as_json:
        print_json({"name": chosen.name, "hash": chosen.hash, "sets": sets, "seeds": seeds, "baselines": baselines})
        return
    write([f"{chosen.name}: {chosen.definition.summary}", "", *table(("set", "scenarios"), sets.items()), ""])
    write(table(("language", "seeds"), ((language, ", ".join(names) or None) for language, names in seeds.items())))
    write(["", *table(("baseline", "here"), ((name, reason or "available") for name, reason in baselines.items()))])


@app.command("check")
def check(
    task: Annotated[str, typer.Argument(help="A task's name or folder.")],
    scenarios: Annotated[str | None, typer.Option(help="Scenario set; by default the task's first.", show_default=False)] = None,
    backend: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: Json = False,
) -> None:
    """Admit a task: baselines pass with room, and every known wrong answer fails. Exit code 9 where it isn't admitted."""
    from dataclasses import asdict

    from evaluator.admission import admit

    from evaluator.task import load_task
    from results.terminal import table

    chosen = load_task(task)
    admission = admit(chosen, scenarios or chosen.sets()[0], backend)
    if as_json:
        print_json(
            {"task": chosen.name, "hash": chosen.hash, "passed": admission.passed, "rows": [asdict(r) for r in admission.rows]}
        )
    else:
        write(table(("scenario", "inputs", "answer", "must", "", "detail"),
                    ((r.scenario, r.distribution, r.answer, r.must, "ok" if r.ok else "NOT OK", r.detail)
                     for r in admission.rows)))  # fmt: skip
    if not admission.passed:
        raise CommandError(f"task {chosen.name} is not admitted: see the rows that say NOT OK", Exit.REFUTED)
    say(f"task {chosen.name} is admitted: {len(admission.rows)} answers judged as they must be")


@app.command("new")
def new(folder: Annotated[Path, typer.Argument(help="Folder to make.", show_default=False)]) -> None:
    """Write a small complete task to start from; every file says what to change."""
    from evaluator.scaffold import new_task

    for path in new_task(folder):
        write([f"wrote {path}"])
    say(f"Next: askevolve task check {folder}, then change it step by step (docs/tasks.md)")
