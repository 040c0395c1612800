"""Commands that look at runs and change nothing: list, status, show, diff, lineage."""

from pathlib import Path
from typing import Annotated, Any

import typer

from evolve.cli.output import CommandError, Exit, print_json, say, write

Run = Annotated[str, typer.Argument(help="Name below runs/, or a run's folder.", show_default=False)]
Id = Annotated[str, typer.Argument(help="A candidate's id or its first digits; 'best' for the best.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def list_runs(root: Annotated[Path, typer.Argument(help="Folder of runs.")] = Path("runs"), as_json: Json = False) -> None:
    """List the runs in a folder."""
    from results.errors import RunError
    from results.folder import runs_in
    from results.reader import Reader
    from results.terminal import run_rows

    infos = []
    for folder in runs_in(root):
        try:
            with Reader.open(folder) as reader:
                infos.append(reader.info())
        except RunError as error:
            say(f"left out {folder}: {error}")
    if as_json:
        print_json({"runs": [summary(info) for info in infos]})
    elif infos:
        write(run_rows(infos))
    else:
        say(f"No runs in {root}. Start one with `askevolve run CONFIG`.")


def summary(info: Any) -> dict[str, object]:
    """What ``--json`` says of a run."""
    from results.terminal import state

    return {
        "name": info.name, "folder": str(info.folder), "state": state(info), "live": info.live, "stopped_by": info.stopped_by,
        "task": info.card.name, "scenario_set": info.card.scenario_set, "steps": info.steps, "candidates": info.candidates,
        "evaluated": info.evaluated, "accepted": info.accepted, "best_id": info.best_id, "spent_s": info.spent_s,
        "cost_usd": info.cost_usd, "tokens": info.tokens,
    }  # fmt: skip


def status(run: Run, as_json: Json = False) -> None:
    """One screen about a run: the best and whether to believe it, where steps ended, what questions gave."""
    from dataclasses import asdict

    from results.terminal import status_lines

    with opened(run) as reader:
        info, best = reader.info(), reader.best()
        final = reader.final(best.id) if best else None
        funnel, layers = reader.funnel(), reader.layers()
    if as_json:
        print_json(
            {
                "run": summary(info),
                "best": asdict(best) if best else None,
                "final": plain(final),
                "funnel": [asdict(row) for row in funnel],
                "layers": [asdict(row) for row in layers],
            }
        )
    else:
        write(status_lines(info, best, final, funnel, layers))


def show(
    run: Run,
    candidate: Id = "best",
    source: Annotated[bool, typer.Option("--source", help="Print the source alone.")] = False,
    questions: Annotated[bool, typer.Option("--questions", help="The record of each question instead.")] = False,
    as_json: Json = False,
) -> None:
    """Show a candidate: where it came from, the question, the prediction, checks and timings."""
    from dataclasses import asdict

    from results.terminal import candidate_lines, question_rows

    with opened(run) as reader:
        if questions:
            rows = reader.questions()
            if as_json:
                print_json({"questions": [asdict(row) for row in rows]})
            else:
                write(question_rows(rows, "question"))
            return
        full_id = resolved(reader, candidate)
        row, outcome, final = reader.row(full_id), reader.outcome(full_id), reader.final(full_id)
        asked, found = reader.step(row.step_number), reader.candidate(full_id)
    if source:
        write(found.source.splitlines())
    elif as_json:
        print_json(
            {
                "candidate": asdict(row), "source": found.source, "question": plain(asked.question), "header": plain(asked.header),
                "answer": plain(asked.answer), "outcome": plain(outcome), "final": plain(final),
            }
        )  # fmt: skip
    else:
        write(candidate_lines(row, asked, outcome, final))


def diff(
    run: Run,
    candidate: Id,
    other: Annotated[str | None, typer.Argument(help="Compare with this one instead of the parent.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """The difference between a candidate and its parent, or between two candidates."""
    from results.terminal import diff_lines

    with opened(run) as reader:
        new = reader.candidate(resolved(reader, candidate))
        old_id = resolved(reader, other) if other else reader.row(new.id).parent_id
        if old_id is None:
            raise CommandError(f"{candidate} is a seed and has no parent; name a second candidate to compare with", Exit.USAGE)
        lines = diff_lines(reader.candidate(old_id), new)
    if as_json:
        print_json({"old_id": old_id, "new_id": new.id, "diff": lines})
    else:
        write(lines)


def lineage(run: Run, candidate: Id = "best", as_json: Json = False) -> None:
    """The path from a seed to a candidate with the question, the answer's hypothesis and the gain of each step."""
    from dataclasses import asdict

    from results.terminal import lineage_lines

    with opened(run) as reader:
        full_id = resolved(reader, candidate)
        rows = [*reversed(reader.ancestors(full_id)), reader.row(full_id)]
        steps = {step.number: step for step in reader.steps()}
    path = [(row, steps.get(row.step_number)) for row in rows]
    if as_json:
        print_json({"path": [{"candidate": asdict(row), "step": asdict(step) if step else None} for row, step in path]})
    else:
        write(lineage_lines(path))


def opened(run: str) -> Any:
    """A reader of the run that a person named."""
    from results.folder import find_run
    from results.reader import Reader

    return Reader.open(find_run(run))


def resolved(reader: Any, wanted: str) -> str:
    """The full id behind 'best' or the first digits of an id."""
    if wanted != "best":
        return str(reader.full_id(wanted))
    best = reader.best()
    if best is None:
        raise CommandError(
            "this run has no best candidate yet; `askevolve status RUN` says where its steps ended", Exit.NOT_BEATEN
        )
    return str(best.id)


def plain(value: object) -> object:
    """A vocabulary value as JSON types, None as it is."""
    from results.codec import plain as to_plain

    return None if value is None else to_plain(value)
