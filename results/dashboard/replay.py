"""The way to the best, step by step: each ancestor's question, the answer's promise, what it gained, and the change it made."""

from typing import Any

from results.dashboard.candidate import ratios_to, step_facts
from results.dashboard.diffs import diff_lines
from results.dashboard.view import Facts, Sight


def replay_facts(sight: Sight) -> Facts:
    """The steps from the seed to the best, oldest first; ``ratio`` is to the parent, ``geomean`` to the opponent."""
    reader = sight.reader
    best = reader.headline()
    if best is None:
        return {"steps": [], "opponent": None}
    rows = [*reversed(reader.ancestors(best.id)), best]
    card = reader.info().card
    steps: list[dict[str, Any]] = []
    source, outcome = None, None
    for row in rows:
        found, measured = reader.candidate(row.id), reader.outcome(row.id)
        asked = reader.step(row.step_number)
        steps.append({
            "id": row.id, "number": row.step_number, "origin": row.origin.value, "language": row.language.value,
            "low": row.low, "geomean": row.geomean,
            "high": row.high, "verdict": row.verdict, **step_facts(asked),
            "ratio": ratios_to(measured, outcome, card).get("all"), "source": found.source if source is None else None,
            "diff": diff_lines(source, found.source) if source is not None else [],
        })  # fmt: skip
        source, outcome = found.source, measured
    return {"steps": steps, "opponent": best.opponent}
