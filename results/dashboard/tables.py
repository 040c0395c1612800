"""Every figure as a table of comma separated values."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from results.dashboard.codes import ABSENT, NAMES
from results.dashboard.columns import LAYOUT, Columns
from results.dashboard.facts import facts_of
from results.dashboard.view import Facts, RunView

Rows = Iterable[Sequence[object]]
LISTS: Mapping[str, tuple[str, str]] = {
    "funnel": ("run", "funnel"), "versus": ("run", "versus"), "records": ("progress", "records"), "top": ("progress", "top"),
    "questions": ("questions", "questions"), "layers": ("questions", "layers"), "moments": ("questions", "moments"),
    "islands": ("archive", "islands"), "archive": ("archive", "cells"), "failures": ("failures", "groups"),
    "replay": ("replay", "steps"), "arms": ("arms", "arms"),
}  # fmt: skip
"""Tables that are a list in some facts: by name, which facts and which list."""

WORDS = {
    "verdict": NAMES["verdicts"], "stage": NAMES["stages"], "layer": NAMES["layers"], "moment": NAMES["moments"],
    "origin": NAMES["origins"],
}  # fmt: skip


def table(view: RunView, name: str) -> bytes:
    """The table of this name as UTF-8, one title line first. Raises KeyError where there is none, RunError."""
    if name == "steps":
        with view.sight() as sight:
            return written([title for title, _ in LAYOUT], _steps(sight.columns))
    if name == "scenarios":
        return written(("scenario", "opponent", "candidate", "ratio", "low", "high"), _races(facts_of(view, name)))
    facts, key = LISTS[name]
    rows = facts_of(view, facts)[key]
    titles = [title for title, value in rows[0].items() if not isinstance(value, list | dict)] if rows else []
    return written(titles, ([row[title] for title in titles] for row in rows))


NAMES_OF_TABLES = ("steps", "scenarios", *LISTS)


def written(titles: Sequence[str], rows: Rows) -> bytes:
    """Lines of comma separated values; a text that a spreadsheet would run as a formula begins with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: object) -> object:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.7g}"
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return "" if value is None else value


def _steps(columns: Columns) -> Rows:
    """Every step with words for codes; the parent is the number of its step."""
    words: dict[str, list[str]] = {**WORDS, "status": list(columns.statuses), "question": list(columns.questions)}
    cells: list[list[Any]] = []
    for name, kind in LAYOUT:
        values = columns[name]
        if name in words:
            found = words[name]
            cells.append([found[code] if 0 <= code < len(found) and code != ABSENT else "" for code in values.tolist()])
        elif name == "parent":
            cells.append([str(int(columns["number"][row])) if row >= 0 else "" for row in values.tolist()])
        elif name == "id":
            cells.append(["" if not one else np.uint64(one).astype("<u8").tobytes().hex() for one in values.tolist()])
        else:
            cells.append(values.tolist() if kind != "f4" else [float(value) for value in values])
    return zip(*cells, strict=True)


def _races(facts: Facts) -> Rows:
    for opponent, cells in facts["cells"].items():
        for place, candidate in enumerate(facts["candidates"]):
            for column, scenario in enumerate(facts["scenarios"]):
                if cells["ratio"][place][column] is not None:
                    figures = (cells[field][place][column] for field in ("ratio", "low", "high"))
                    yield (scenario["name"], opponent, candidate["id"][:16], *figures)
