"""Commands that look at runs and change nothing: list, status, show, diff, lineage."""

from pathlib import Path
from typing import Annotated, Any

import typer

from evolve.cli.output import CommandError, Exit, print_json, say, write, write_source

Run = Annotated[str, typer.Argument(metavar="RUN", help="Name below runs/, or a run's folder.", show_default=False)]
Id = Annotated[str, typer.Argument(metavar="ID", help="A candidate's id or its first digits, or 'best'.")]
Explain = Annotated[bool, typer.Option("--explain", help="Every check and race with its figures, every fact and note.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def list_runs(
    root: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of runs.")] = Path("runs"), as_json: Json = False
) -> None:
    """List the runs in a folder."""
    from results.errors import RunError
    from results.folder import runs_in
    from results.reader import Reader
    from results.terminal import run_rows

    infos, bests = [], []
    for folder in runs_in(root):
        try:
            with Reader.open(folder) as reader:
                info, best = reader.info(), reader.headline()
        except RunError as error:
            say(f"left out {folder}: {error}")
            continue
        infos.append(info)
        bests.append(best)
    if as_json:
        print_json({"runs": [summary(info, best) for info, best in zip(infos, bests, strict=True)]})
    elif infos:
        write(run_rows(infos, bests))
    else:
        say(f"No runs in {root}. Start one with `askevolve run CONFIG`.")


def summary(info: Any, best: Any) -> dict[str, object]:
    """What ``--json`` says of a run; its best candidate is the verified one where there is one."""
    from results.terminal import state

    return {
        "name": info.name, "folder": str(info.folder), "state": state(info), "live": info.live, "stopped_by": info.stopped_by,
        "task": info.card.name, "scenario_set": info.card.scenario_set, "steps": info.steps, "candidates": info.candidates,
        "evaluated": info.evaluated, "accepted": info.accepted, "best_id": best.id if best else None, "spent_s": info.spent_s,
        "cost_usd": info.cost_usd, "tokens": info.tokens,
    }  # fmt: skip


def status(run: Run, as_json: Json = False) -> None:
    """One screen about a run.

    The best and whether to believe it, where steps ended, what each layer of questions gave.
    """
    from dataclasses import asdict

    from results.terminal import status_screen

    with opened(run) as reader:
        if not as_json:
            write(status_screen(reader))
            return
        info, best = reader.info(), reader.headline()
        print_json(
            {
                "run": summary(info, best),
                "best": asdict(best) if best else None,
                "final": plain(reader.verifying(best.id) if best else None),
                "elsewhere": [asdict(row) for row in reader.devices_elsewhere()],
                "funnel": [asdict(row) for row in reader.funnel()],
                "layers": [asdict(row) for row in reader.layers()],
            }
        )


def trace(run: Run) -> None:
    """Tell a run's whole story as a Markdown page.

    Every step with its question, verdict, gain and prediction; what each layer and moment gave; predictions against
    measurements; lines that came back.
    """
    from evolve.trace_page import trace_page

    with opened(run) as reader:
        write(trace_page(reader))


def show(
    run: Run,
    candidate: Id = "best",
    source: Annotated[bool, typer.Option("--source", help="Print the source alone.")] = False,
    questions: Annotated[bool, typer.Option("--questions", help="The record of each question of the run instead.")] = False,
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """Show a candidate.

    Where it came from, the question, the prediction, checks and timings of the search and of its final.
    """
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
        asked, found, merged = reader.made_by(full_id), reader.candidate(full_id), reader.elsewhere(full_id)
    if source:
        write_source(found.source)
    elif as_json:
        print_json(
            {
                "candidate": asdict(row), "source": found.source, "question": plain(asked.question if asked else None),
                "header": plain(asked.header if asked else None), "answer": plain(asked.answer if asked else None),
                "outcome": plain(outcome), "final": plain(final),
                "elsewhere": [
                    {"came_from": one.came_from, "comparable": one.comparable, "outcome": plain(one.outcome)} for one in merged
                ],
            }
        )  # fmt: skip
    else:
        write(candidate_lines(row, asked, outcome, final, merged, explain))


def diff(
    run: Run,
    candidate: Id,
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="Compare with this one instead of the parent.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare a candidate with its parent or another."""
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
    """Show the path from a seed to a candidate.

    Each step with its question, the answer's hypothesis and the gain over its parent.
    """
    from dataclasses import asdict

    from results.terminal import lineage_lines

    with opened(run) as reader:
        full_id = resolved(reader, candidate)
        rows = [*reversed(reader.ancestors(full_id)), reader.row(full_id)]
        steps = {step.number: step for step in reader.steps()}
        merged = {row.id: reader.elsewhere(row.id) for row in rows}
    path = [(row, None if row.step_number is None else steps.get(row.step_number)) for row in rows]
    if as_json:
        print_json({"path": [{"candidate": asdict(row), "step": asdict(step) if step else None} for row, step in path]})
    else:
        write(lineage_lines(path, merged))


def opened(run: str) -> Any:
    """A reader of the run that a person named."""
    from results.folder import find_run
    from results.reader import Reader

    return Reader.open(find_run(run))


def resolved(reader: Any, wanted: str) -> str:
    """The full id behind 'best' or the first digits of an id."""
    if wanted != "best":
        return str(reader.full_id(wanted))
    best = reader.headline()
    if best is None:
        raise CommandError(
            "this run has no best candidate yet; `askevolve status RUN` says where its steps ended", Exit.NOT_BEATEN
        )
    return str(best.id)


def plain(value: object) -> object:
    """A vocabulary value as JSON types, None as it is."""
    from results.codec import plain as to_plain

    return None if value is None else to_plain(value)
