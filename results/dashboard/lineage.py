"""The tree of steps around one candidate, as lists that read without a script."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from results.dashboard.candidate import child_facts
from results.dashboard.view import Facts, Sight

CHILDREN = 200
LINE = 60
"""Steps of a line that a page lists; the tree has them all."""


def lineage_facts(sight: Sight, query: Mapping[str, str]) -> Facts:
    """The line (its last steps) to the candidate that ``query`` names, the best if none, and what was tried from it.

    Raises IdUnknown, IdAmbiguous.
    """
    reader = sight.reader
    chosen = reader.row(query["id"]) if query.get("id") else reader.headline()
    if chosen is None:
        return {"chosen": None, "line": [], "line_total": 0, "children": [], "children_total": 0}
    whole = [*reversed(reader.ancestors(chosen.id)), chosen]
    rows = whole[-LINE:]
    steps = {step.number: step for step in reader.steps_in([row.step_number for row in rows])}
    children = reader.children(chosen.id)
    line: list[dict[str, Any]] = [{**asdict(row), "step": asdict(steps[row.step_number])} for row in rows]
    return {
        "chosen": asdict(chosen), "line": line, "line_total": len(whole),
        "children": [child_facts(one) for one in children[:CHILDREN]],
        "children_total": len(children),
    }  # fmt: skip
