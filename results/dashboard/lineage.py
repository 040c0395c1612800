"""The tree of steps around one candidate, as lists that read without a script."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from results.dashboard.archive import candidate_key
from results.dashboard.candidate import child_facts
from results.dashboard.view import Facts, Sight

CHILDREN = 200
SHOWN = 50


def lineage_facts(sight: Sight, query: Mapping[str, str]) -> Facts:
    """The line to the candidate that ``query`` names (else the best), the last 50 of ``line_total``, and its children.

    Raises IdUnknown, IdAmbiguous.
    """
    reader, columns = sight.reader, sight.columns
    chosen = reader.row(query["id"]) if query.get("id") else reader.headline()
    if chosen is None:
        return {"chosen": None, "line": [], "line_total": 0, "children": [], "children_total": 0}
    way = columns.ancestry(columns.row_of[chosen.id]) if chosen.id in columns.row_of else []
    rows = [reader.row(candidate_key(columns, row)) for row in reversed(way[:SHOWN])]
    numbers = {row.id: row.step_number for row in rows if row.step_number is not None}
    steps = {step.number: step for step in reader.steps_in(list(numbers.values()))}
    children = reader.children(chosen.id)
    line: list[dict[str, Any]] = [{**asdict(row), "step": asdict(steps[numbers[row.id]])} for row in rows]
    return {
        "chosen": asdict(chosen), "line": line, "line_total": len(way),
        "children": [child_facts(one) for one in children[:CHILDREN]],
        "children_total": len(children),
    }  # fmt: skip
