"""Commands on the question bank: list it, lint it, show what its questions gave, add one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evolve.cli.inspecting import Json
from evolve.cli.output import CommandError, Exit, print_json, say, write

if TYPE_CHECKING:
    from mutators.bank import Entry
    from mutators.record_file import RunRecords
    from mutators.records import Record

Row = dict[str, int | float]
Root = Annotated[Path, typer.Option("--root", metavar="FOLDER", help="Folder that holds the runs.")]
Files = Annotated[
    list[Path] | None, typer.Argument(metavar="FILE", help="Further banks, such as a task's questions.toml.", show_default=False)
]

app = typer.Typer(help="Read, check and extend the question bank.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_questions(
    files: Files = None,
    layer: Annotated[str, typer.Option(metavar="LAYER", help="Only this layer.")] = "",
    moment: Annotated[str, typer.Option(metavar="MOMENT", help="Only this moment.")] = "",
    backend: Annotated[str, typer.Option(metavar="BACKEND", help="Only what makes sense on cpu or cuda.")] = "",
    as_json: Json = False,
) -> None:
    """List the questions, layer by layer, with their moments."""
    from dataclasses import asdict

    from mutators.bank import BACKENDS, load_bank
    from mutators.question import Layer, Moment

    for option, value, allowed in (
        ("layer", layer, list(Layer)),
        ("moment", moment, list(Moment)),
        ("backend", backend, list(BACKENDS)),
    ):
        _known(option, value, allowed)
    chosen = [
        entry
        for entry in load_bank(files or [])
        if layer in ("", entry.layer) and (not moment or moment in entry.moments) and (not backend or backend in entry.backends)
    ]
    if as_json:
        print_json({"questions": [asdict(entry) for entry in chosen]})
        return
    for entry in chosen:
        conditions = f"; when {entry.when}" if entry.when else ""
        places = f"; {entry.backends[0]} only" if len(entry.backends) == 1 else ""
        write([f"{entry.id}  ({entry.layer}; {', '.join(entry.moments)}{places}{conditions})", f"  {entry.text}", ""])
    say(f"{len(chosen)} questions")


@app.command("lint")
def lint_banks(files: Files = None) -> None:
    """Check the bank, and further files with it. Exit code 3 where a question breaks a rule."""
    from mutators.bank import load_bank
    from mutators.linter import lint

    bank = load_bank(files or [])
    complaints = lint(bank)
    write(map(str, complaints))
    if complaints:
        raise CommandError(
            f"{len(complaints)} complaints about {len(bank)} questions; docs/questions.md has the rules", Exit.CONFIG
        )
    say(f"{len(bank)} questions keep the rules")


@app.command("stats")
def stats(
    root: Root = Path("runs"),
    people: Annotated[bool, typer.Option("--people", help="Only what people asked, with its text.")] = False,
    as_json: Json = False,
) -> None:
    """What questions gave over all runs of a folder: asked, accepted, gain, cost, by layer and by question."""
    from mutators.record_file import FILE_NAME, recall
    from results.text import table

    found = recall(root / FILE_NAME)
    if found.problem is not None:
        raise CommandError(found.problem, Exit.RUN_FOLDER)
    layers, questions, texts = _totals(found.runs)
    shown = {key: row for key, row in questions.items() if not people or key in texts}
    if as_json:
        rows = [{"key": key, "text": texts.get(key, ""), **row} for key, row in shown.items()]
        print_json(
            {"runs": len(found.runs), "layers": [{"layer": name, **row} for name, row in layers.items()], "questions": rows}
        )
        return
    if not shown:
        what = "nobody asked or told a run anything" if found.runs else "there are no records"
        say(f"{what} in {root}; a run's come when its driver stops, and simulated ones keep none")
        return
    titles = ("asked", "accepted", "gain %", "gain per answer %", "cost")
    if not people:
        write([*table(("layer", *titles), ((name, *_cells(row)) for name, row in layers.items())), ""])
    write(table(("question", *titles), ((key, *_cells(row)) for key, row in shown.items())))
    write(line for key in shown if key in texts for line in ("", f"{key}:", f"  {texts[key]}"))
    say(f"{len(found.runs)} runs in {root}; gain: sum of verified steps; cost: answers, minutes and money (docs/questions.md)")


@app.command("add")
def add(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Bank to add to, such as a task's questions.toml.", show_default=False)
    ],
    entry_id: Annotated[str, typer.Option("--id", metavar="ID", help="Lower-case words joined by hyphens.", show_default=False)],
    layer: Annotated[str, typer.Option(metavar="LAYER", help="Layer it asks about.", show_default=False)],
    settle: Annotated[str, typer.Option(metavar="TEXT", help="What the harness would look at.", show_default=False)],
    moments: Annotated[
        list[str], typer.Option("--moment", metavar="MOMENT", help="When it is asked; may be repeated.", show_default=False)
    ],
    text: Annotated[str, typer.Option(metavar="TEXT", help="The question, with {slots} for facts.")] = "",
    asked: Annotated[
        str, typer.Option("--asked", metavar="KEY", help="Take the text that a person asked (see stats --people).")
    ] = "",
    when: Annotated[str, typer.Option(metavar="CONDITION", help="Precondition over facts.")] = "",
    command: Annotated[str, typer.Option(metavar="TEXT", help="The same matter as an order, for comparisons.")] = "",
    root: Root = Path("runs"),
) -> None:
    """Add a question to a bank of yours. Exit code 3, and nothing written, where it breaks a rule."""
    from mutators.bank import load_bank, toml_of
    from mutators.linter import lint

    if bool(text) == bool(asked):
        raise CommandError("give the question by --text, or by --asked with the key of one that a person asked", Exit.USAGE)
    fields = {
        "id": entry_id, "layer": layer, "moments": moments, "text": text or _text_asked(root, asked), "when": when,
        "settle": settle, "command": command,
    }  # fmt: skip
    addition = toml_of({name: value for name, value in fields.items() if value})
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    whole = f"{before.rstrip()}\n\n{addition}".lstrip()
    bank = (*load_bank(), *_read(whole, file))
    complaints = [complaint for complaint in lint(bank) if complaint.source == str(file) and complaint.entry_id == entry_id]
    if complaints:
        raise CommandError("\n".join(map(str, complaints)), Exit.CONFIG)
    try:
        file.write_text(whole, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{file}: can't be written ({error.strerror})", Exit.ENVIRONMENT) from None
    say(f"added {entry_id} to {file}; a task asks what stands in questions.toml beside its task.toml")


def _read(text: str, file: Path) -> "tuple[Entry, ...]":
    from mutators.bank import read_bank

    return read_bank(text, str(file))


def _text_asked(root: Path, key: str) -> str:
    from mutators.record_file import FILE_NAME, recall

    found = recall(root / FILE_NAME)
    texts = {one.key: one.text for run in found.runs for one in run.asked if one.text}
    if key not in texts:
        raise CommandError(
            f"--asked {key}: no person asked that in {root}; askevolve bank stats --people lists the keys", Exit.USAGE
        )
    return texts[key]


def _totals(runs: "tuple[RunRecords, ...]") -> "tuple[dict[str, Row], dict[str, Row], dict[str, str]]":
    """Rows by layer and by question, the one that gained most first, and the texts of what people asked."""
    from mutators.record_file import records_in

    records = records_in([one for run in runs for one in run.asked])
    texts = {one.key: one.text for run in runs for one in run.asked if one.text}
    layers = {layer.value: _row(record) for layer, record in records.layers.items()}
    questions = {key: _row(record) for key, record in records.entries.items()}
    return _sorted(layers), _sorted(questions), texts


def _row(record: "Record") -> "Row":
    return {
        "asked": record.asked, "answered": record.answered, "accepted": record.accepted, "gain_log": record.gain,
        "best_log": record.best, "cost": record.cost, "wall_s": record.wall_s, "cost_usd": record.cost_usd,
    }  # fmt: skip


def _sorted(rows: "dict[str, Row]") -> "dict[str, Row]":
    return dict(sorted(rows.items(), key=lambda item: (-item[1]["gain_log"], item[0])))


def _cells(row: "Row") -> tuple[object, ...]:
    percent = 100 * row["gain_log"]
    return row["asked"], row["accepted"], f"{percent:.1f}", f"{percent / max(1, row['asked']):.2f}", f"{row['cost']:.1f}"


def _known(option: str, value: str, allowed: Sequence[str]) -> None:
    if value and value not in allowed:
        raise CommandError(f"--{option} {value}: write one of {', '.join(allowed)}", Exit.USAGE)
