"""Islands of the archive, and the cells island x layer: where the search looked and what it found there."""

from typing import Any

import numpy as np

from results.dashboard.codes import ABSENT, NAMES, Flag
from results.dashboard.columns import Columns
from results.dashboard.view import Facts, Sight

ENTERED = ("added", "improved", "best")
ENTRANTS = 12
SEEDS = "seed"


def archive_facts(sight: Sight) -> Facts:
    """For each island its figures and last entrants, and for each pair of island and layer a cell."""
    columns = sight.columns
    islands = sorted(set(columns["island"].tolist()))
    return {
        "islands": [_island(columns, island) for island in islands],
        "layers": [SEEDS, *NAMES["layers"]],
        "cells": [cell for island in islands for cell in _cells(columns, island)],
    }


def _island(columns: Columns, island: int) -> dict[str, Any]:
    rows = columns["island"] == island
    came_in = np.flatnonzero(rows & entered(columns))
    return {
        "island": int(island), **_figures(columns, rows), "entered": len(came_in),
        "entrants": [
            {
                "id": candidate_key(columns, row), "number": int(columns["number"][row]),
                "geomean": float(columns["geomean"][row]), "low": float(columns["low"][row]),
                "status": list(columns.statuses)[columns["status"][row]],
            }
            for row in reversed(came_in[-ENTRANTS:].tolist())
        ],
    }  # fmt: skip


def _cells(columns: Columns, island: int) -> list[dict[str, Any]]:
    """The cells of an island that hold a step; seeds and sweeps, which no question led to, are those without a layer."""
    found = []
    for layer, name in [(ABSENT, SEEDS), *enumerate(NAMES["layers"])]:
        rows = (columns["island"] == island) & (columns["layer"] == layer)
        if rows.any():
            found.append({"island": int(island), "layer": name, **_figures(columns, rows)})
    return found


def _figures(columns: Columns, rows: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, Any]:
    """Steps, right ones, accepted ones, and the best by its lower bound."""
    low = np.where(rows & (columns["verdict"] == NAMES["verdicts"].index("OK")), columns["low"], np.nan)
    best = int(np.nanargmax(low)) if np.isfinite(low).any() else None
    return {
        "steps": int(rows.sum()), "right": int(np.isfinite(low).sum()),
        "accepted": int((rows & ((columns["flags"] & int(Flag.ACCEPTED)) > 0)).sum()),
        "best_id": None if best is None else candidate_key(columns, best),
        "best_low": None if best is None else float(columns["low"][best]),
        "best_geomean": None if best is None else float(columns["geomean"][best]),
    }  # fmt: skip


def entered(columns: Columns) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which steps entered the archive, (rows,)."""
    codes = [code for word, code in columns.statuses.items() if word in ENTERED]
    found: np.ndarray[Any, np.dtype[np.bool_]] = np.isin(columns["status"], codes)
    return found


def candidate_key(columns: Columns, row: int) -> str:
    """The first 16 digits of the id of a row's candidate, "" where the answer made none."""
    key: str = columns["id"][row].tobytes().hex()
    return "" if key == "0" * 16 else key
