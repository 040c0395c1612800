"""The best candidates in every scenario against every opponent, as matrices that a heat map draws."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from results.dashboard.view import Facts, Sight
from results.outcome_text import opponent_name

SHOWN = 60
TIMINGS = """
SELECT o.step_number, json_extract(e.payload, '$.outcome.timings') FROM outcomes o JOIN events e ON e.seq = o.seq
WHERE o.step_number IN (SELECT value FROM json_each(?))
"""


def scenario_facts(sight: Sight) -> Facts:
    """Scenarios, candidates (best first) and, for each opponent, ratios with their intervals, (candidates, scenarios) each.

    A cell is None where that race wasn't run. ``floors_us`` is each scenario's physical bound, ``candidate_us`` the candidate's
    own times. ``shown`` of ``total`` candidates that were timed are there.
    """
    reader = sight.reader
    card = reader.info().card
    timed = [row for row in reader.candidates(order="fitness", limit=SHOWN) if row.geomean is not None]
    numbers = {row.id: row.step_number for row in timed if row.step_number is not None}
    races = races_of(sight, list(numbers.values()))
    names = [scenario.name for scenario in card.scenarios]
    opponents = list(dict.fromkeys(race["opponent"] for row in timed for race in races.get(numbers.get(row.id, -1), ())))
    cells = {
        opponent_name(opponent): {
            field: [_line(races.get(numbers.get(row.id, -1), ()), opponent, names, field) for row in timed]
            for field in ("ratio", "low", "high")
        }
        for opponent in opponents
    }
    first = {race["scenario"]: race for row in timed for race in races.get(numbers.get(row.id, -1), ())}
    return {
        "scenarios": [{"name": one.name, "region": one.region, "symbols": dict(one.symbols)} for one in card.scenarios],
        "regions": list(card.regions),
        "opponents": list(cells),
        "candidates": [
            {
                "id": row.id, "number": row.step_number, "low": row.low, "geomean": row.geomean, "high": row.high,
                "origin": row.origin.value, "verdict": row.verdict,
            }
            for row in timed
        ],
        "cells": cells,
        "floors_us": [first[name]["floor_us"] if name in first else None for name in names],
        "bounds": [first[name]["bound"] if name in first else None for name in names],
        "candidate_us": [_line(races.get(numbers.get(row.id, -1), ()), None, names, "candidate_us") for row in timed],
        "shown": len(timed),
        "total": int((sight.columns["geomean"] > 0).sum()),
    }  # fmt: skip


def races_of(sight: Sight, numbers: Sequence[int]) -> Mapping[int, Sequence[Mapping[str, Any]]]:
    """The races of these steps' search outcomes, as stored."""
    rows = sight.reader.connection.execute(TIMINGS, (json.dumps(list(numbers)),))
    return {number: json.loads(text or "[]") for number, text in rows}


def _line(races: Sequence[Mapping[str, Any]], opponent: str | None, names: Sequence[str], field: str) -> list[float | None]:
    """One field of the races against an opponent (None: whoever comes first), in the order of ``names``."""
    found: dict[str, float] = {}
    for race in races:
        if opponent is None or race["opponent"] == opponent:
            found.setdefault(race["scenario"], race[field])
    return [found.get(name) for name in names]
