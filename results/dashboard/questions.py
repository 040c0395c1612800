"""Which questions were put at which moments, what their answers promised, and what came of it."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from results.dashboard.codes import NAMES, Flag
from results.dashboard.columns import Columns
from results.dashboard.view import Facts, Sight
from results.mailbox import Mailbox
from results.rows import StepRow

TEXTS = "SELECT entry_id, question, MAX(number) FROM steps WHERE question_id IS NOT NULL GROUP BY entry_id"
FILTERS = {"entry": "s.entry_id", "layer": "s.layer", "moment": "s.moment"}


def question_facts(sight: Sight) -> Facts:
    """The record of each question (with the text as last put), of each layer, and of each layer at each moment."""
    reader = sight.reader
    texts = {entry: text for entry, text, _ in reader.connection.execute(TEXTS)}
    right = calibration(sight.columns)
    return {
        "questions": [
            {**asdict(row), "text": texts.get(row.key, ""), **right.get(row.key, NOT_HELD)} for row in reader.questions()
        ],
        "layers": [asdict(row) for row in reader.layers()],
        "moments": moment_facts(sight.columns),
        "people": [
            {"person": one.person, "text": one.text, "layer": one.layer.value, "message": one.message, "parent_id": one.parent_id}
            for one in Mailbox(reader.folder).asked()
        ],
    }  # fmt: skip


NOT_HELD: Mapping[str, Any] = {"promised": None, "found": None, "held": 0}


def calibration(columns: Columns) -> dict[str, dict[str, Any]]:
    """For each question: geometric means of the predicted and of the measured ratios to the parent, over ``held`` answers."""
    measured = parent_ratio(columns)
    predicted = columns["predicted"].astype(float)
    both = np.isfinite(measured) & (predicted > 0) & (measured > 0)
    found = {}
    for entry, code in columns.questions.items():
        rows = both & (columns["question"] == code)
        held = int(rows.sum())
        if held:
            means = [math.exp(float(np.log(values[rows]).mean())) for values in (predicted, measured)]
            found[entry] = {"promised": means[0], "found": means[1], "held": held}
    return found


def parent_ratio(columns: Columns) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Each step's speed relative to its parent, (rows,); NaN where either has no score."""
    geomean = columns["geomean"].astype(float)
    parent = columns["parent"]
    above = np.where(parent >= 0, geomean[np.maximum(parent, 0)] if len(geomean) else geomean, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(above > 0, geomean / above, np.nan)


def moment_facts(columns: Columns) -> list[dict[str, Any]]:
    """How often a layer was asked at a moment, how many answers were right and how many accepted; only pairs that occurred."""
    right = [NAMES["verdicts"].index(word) for word in ("OK", "SLOWER")]
    found = []
    for layer, layer_name in enumerate(NAMES["layers"]):
        for moment, moment_name in enumerate(NAMES["moments"]):
            rows = (columns["layer"] == layer) & (columns["moment"] == moment)
            if rows.any():
                found.append({
                    "layer": layer_name, "moment": moment_name, "asked": int(rows.sum()),
                    "right": int((rows & np.isin(columns["verdict"], right)).sum()),
                    "accepted": int((rows & ((columns["flags"] & int(Flag.ACCEPTED)) > 0)).sum()),
                    "gain": float(np.nansum(columns["gain"][rows])),
                })  # fmt: skip
    return found


def asked_steps(sight: Sight, query: Mapping[str, str], page: int, per_page: int) -> tuple[list[StepRow], int]:
    """One page of the steps that put a question, newest first, and how many; ``query`` may name entry, layer, moment."""
    wanted = {name: query[name] for name in FILTERS if query.get(name)}
    where = " AND ".join(["s.question_id IS NOT NULL", *(f"{FILTERS[name]} = ?" for name in wanted)])
    values = tuple(wanted.values())
    total = sight.reader.connection.execute(f"SELECT COUNT(*) FROM steps s WHERE {where}", values).fetchone()[0]
    rows = sight.reader.connection.execute(
        f"SELECT number FROM steps s WHERE {where} ORDER BY number DESC LIMIT ? OFFSET ?", (*values, per_page, page * per_page)
    ).fetchall()
    steps = sight.reader.steps_in([number for (number,) in rows])
    return list(reversed(steps)), total
