"""The way to the best, step by step: each ancestor's question, the answer's promise, what it gained, and the change it made."""

from typing import Any

from results.dashboard.archive import candidate_key
from results.dashboard.candidate import ratios_to, step_facts
from results.dashboard.diffs import diff_lines
from results.dashboard.view import Facts, Sight

SHOWN = 100
"""Steps before the best that are shown; a way that is longer begins in the middle."""


def replay_facts(sight: Sight) -> Facts:
    """The last steps to the best, oldest first, of ``total`` from its seed; ``ratio`` is to the parent.

    ``diff`` is against the step before; ``source`` is there where there is none.
    """
    reader, columns = sight.reader, sight.columns
    if columns.best is None:
        return {"steps": [], "total": 0, "opponent": None}
    way = columns.ancestry(columns.best)
    rows = [reader.row(candidate_key(columns, row)) for row in reversed(way[: SHOWN + 1])]
    card = reader.info().card
    steps: list[dict[str, Any]] = []
    source, outcome = None, None
    for row in rows:
        found, measured = reader.candidate(row.id), reader.outcome(row.id)
        asked = reader.made_by(row.id)
        steps.append({
            "id": row.id, "number": row.step_number, "origin": row.origin.value, "language": row.language.value,
            "low": row.low, "geomean": row.geomean, "high": row.high, "verdict": row.verdict, **step_facts(asked),
            "ratio": ratios_to(measured, outcome, card).get("all"), "source": found.source if source is None else None,
            "diff": diff_lines(source, found.source) if source is not None else [],
        })  # fmt: skip
        source, outcome = found.source, measured
    return {"steps": steps[-SHOWN:], "total": len(way), "opponent": rows[-1].opponent}
