"""Commands on tasks: list them, admit one, start a new one."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from evolve.cli.inspecting import Json
from evolve.cli.output import CommandError, Exit, print_json, say, write

BACKENDS = ("cpu", "cuda")

app = typer.Typer(help="List tasks, check one, or start a new one.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_tasks(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="A task's name or folder: show what it holds.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the built-in tasks, or what one task holds."""
    from evaluator.admissions import all_of, default_admissions
    from evaluator.task import BUILT_IN, load_baselines, load_task
    from population.candidate import Language
    from results.text import table

    if task is None:
        tasks = [load_task(path.parent.name) for path in sorted(BUILT_IN.glob("*/task.toml"))]
        if as_json:
            print_json({"tasks": [{"name": t.name, "summary": t.definition.summary, "sets": list(t.sets())} for t in tasks]})
        else:
            for t in tasks:
                write([f"{t.name}: {t.definition.summary}", f"  sets: {', '.join(t.sets())}"])
        return
    chosen = load_task(task)
    definition = chosen.definition
    sets = {name: len(chosen.card(name).scenarios) for name in chosen.sets()}
    seeds = {language.value: list(chosen.seeds(language)) for language in Language}
    baselines = {baseline.name: baseline.available() for baseline in load_baselines(chosen.folder)}
    reports = all_of(default_admissions(), chosen.hash)
    if as_json:
        print_json(
            {
                "name": chosen.name, "hash": chosen.hash, "folder": str(chosen.folder), "sets": sets, "seeds": seeds,
                "baselines": baselines, "symbols": dict(definition.symbols), "scalars": dict(definition.scalars),
                "tensors": {name: tensor.model_dump() for name, tensor in definition.tensors.items()},
                "regions": list(definition.regions), "contract": chosen.contract,
                "admissions": [_about(report) for report in reports],
            }
        )  # fmt: skip
        return
    write([f"{chosen.name}: {definition.summary}", "", *chosen.contract.splitlines(), ""])
    shapes = ((name, each.role, each.dtype, f"({', '.join(each.shape)})") for name, each in definition.tensors.items())
    write([*table(("tensor", "role", "dtype", "shape"), shapes), ""])
    write([*table(("symbol or scalar", "meaning"), [*definition.symbols.items(), *definition.scalars.items()]), ""])
    write([f"regions: {', '.join(definition.regions) or 'all'}", "", *table(("set", "scenarios"), sets.items()), ""])
    write(table(("language", "seeds"), ((language, ", ".join(names) or None) for language, names in seeds.items())))
    write(["", *table(("baseline", "here"), ((name, reason or "available") for name, reason in baselines.items()))])
    titles = ("admission of set", "on", "baselines", "at (UTC)", "result")
    rows = (
        (r.circumstances.scenario_set, r.circumstances.device, ", ".join(r.circumstances.baselines), r.at, _result(r.admission))
        for r in reports
    )
    write(["", *table(titles, rows)] if reports else ["", f"never admitted on this machine: askevolve task check {task}"])


@app.command("check")
def check(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task's name or folder.", show_default=False)],
    scenarios: Annotated[
        str | None,
        typer.Option(metavar="SET", help="Scenario set; by default the first that a baseline here computes.", show_default=False),
    ] = None,
    backend: Annotated[str, typer.Option(metavar="BACKEND", help="Whose baselines: cpu or cuda.")] = "cpu",
    as_json: Json = False,
) -> None:
    """Admit a task, or say why not.

    Baselines must pass with room, and every known wrong answer must fail. The report is kept for evaluations to ask for.
    Exit code 9 where the task isn't admitted.
    """
    from dataclasses import asdict

    from evaluator.admission import admit
    from evaluator.task import load_task
    from evolve.parts import bank_of
    from results.text import count

    if backend not in BACKENDS:
        raise CommandError(f"--backend {backend}: write {' or '.join(BACKENDS)}", Exit.USAGE)
    chosen = load_task(task)
    set_name = scenarios or _first_computed(chosen, backend)
    bank_of(chosen, chosen.card(set_name))  # the task's own questions keep the rules of the bank
    say(f"judging known right and wrong answers in set {set_name} of task {chosen.name}")
    admission = admit(chosen, set_name, backend)
    stored = _stored(chosen, set_name, backend, admission)
    if as_json:
        rows = [asdict(row) for row in admission.rows]
        about = {"task": chosen.name, "hash": chosen.hash, "scenario_set": set_name, "stored": stored and str(stored)}
        print_json({**about, "passed": admission.passed, "rows": rows})
    else:
        write(_admission_lines(admission))
    if stored is not None:
        say(f"report: {stored}")
    if not admission.passed:
        raise CommandError(
            f"task {chosen.name} is not admitted: {count(len(admission.problems), 'answer')} judged otherwise than they must be",
            Exit.REFUTED,
        )
    say(f"task {chosen.name} is admitted: {count(len(admission.rows), 'answer')} judged as they must be")


@app.command("new")
def new(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to make.", show_default=False)]) -> None:
    """Write a small task to start from.

    It is complete and admitted as it is; every file says what to change.
    """
    from evaluator.scaffold import new_task

    try:
        written = new_task(folder)
    except OSError as error:
        raise CommandError(f"{folder}: can't be written ({error.strerror}); choose a folder of yours", Exit.ENVIRONMENT) from None
    write(f"wrote {path}" for path in written)
    named = shlex.quote(as_path(folder))
    say(f"Next: askevolve task check {named}, then change it step by step; askevolve init DIR --task {named} starts a run of it")


def as_path(folder: Path) -> str:
    """The folder written so that it can't be taken for a built-in task's name: with a slash."""
    text = str(folder)
    return text if "/" in text else f"./{text}"


def _first_computed(task: Any, backend: str) -> str:
    """The first scenario set that an available baseline computes as a whole, the task's first where there is none."""
    from evaluator.task import load_baselines

    here = [item for item in load_baselines(task.folder) if item.backend == backend and item.available() is None]
    for name in task.sets():
        card = task.card(name)
        if any(
            item.name in card.baselines and all(item.supports(scenario.symbols) for scenario in card.scenarios) for item in here
        ):
            return str(name)
    return str(task.sets()[0])


def _admission_lines(admission: Any) -> list[str]:
    """A row for each answer that was judged, then what is wrong with those that were judged otherwise than they must be."""
    from results.text import table

    titles = ("scenario", "inputs", "answer", "must", "is", "share of tolerance")
    rows = (
        (row.scenario, row.distribution, row.answer, row.must, "ok" if row.ok else "NOT OK", _share(row.share))
        for row in admission.rows
    )
    wrong = (f"NOT OK {row.scenario}, {row.distribution}, {row.answer}: {row.detail}" for row in admission.problems)
    return [*table(titles, rows), *wrong]


def _stored(task: Any, set_name: str, backend: str, admission: Any) -> Path | None:
    """Where the report of an admission was kept; None, with the reason said, where there is no device or no place for it."""
    from datetime import UTC, datetime

    from evaluator.admissions import Report, circumstances, default_admissions, device_here, keep
    from evaluator.cuda.device import NoGpuError

    try:
        found = circumstances(task, set_name, backend, *device_here(backend))
        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        return keep(default_admissions(), Report(circumstances=found, admission=admission, at=at))
    except (NoGpuError, OSError) as error:
        say(f"the report isn't kept: {error}")
        return None


def _about(report: Any) -> dict[str, Any]:
    """Circumstances, date and result of a stored admission, without its rows."""
    from dataclasses import asdict

    return {**asdict(report.circumstances), "at": report.at, "passed": report.admission.passed}


def _result(admission: Any) -> str:
    return "admitted" if admission.passed else f"refused: {len(admission.problems)} of {len(admission.rows)} answers"


def _share(share: float | None) -> str:
    return "not finite" if share is None else f"{share:.3g}"
