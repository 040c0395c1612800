"""The steps at which the best so far changed, and the best candidates, as tables."""

from dataclasses import asdict
from typing import Any

import numpy as np

from results.dashboard.codes import NAMES, Flag
from results.dashboard.columns import Columns
from results.dashboard.view import Facts, Sight

TOP = 50
RECORDS = 200


def progress_facts(sight: Sight) -> Facts:
    """``records``: the steps that became the best so far (the last 200 of ``records_total``); ``top``: the best candidates."""
    columns = sight.columns
    rows = records(columns)
    steps = {step.number: step for step in sight.reader.steps_in([int(columns["number"][row]) for row in rows[-RECORDS:]])}
    found: list[dict[str, Any]] = []
    for row in rows[-RECORDS:]:
        step = steps[int(columns["number"][row])]
        found.append({
            "number": step.number, "at_s": float(columns["at"][row]), "id": step.candidate_id, "low": step.low,
            "geomean": step.geomean, "high": step.high, "entry_id": step.entry_id, "question": step.question, "gain": step.gain,
        })  # fmt: skip
    top = [row for row in sight.reader.candidates(order="fitness", limit=TOP) if row.geomean is not None]
    return {
        "records": found, "records_total": len(rows), "top": [asdict(row) for row in top],
        "total": int((columns["geomean"] > 0).sum()),
    }  # fmt: skip


def records(columns: Columns) -> list[int]:
    """The rows whose lower bound beat all before them, in the order of asking; refuted ones don't count."""
    counts = (columns["verdict"] == NAMES["verdicts"].index("OK")) & ((columns["flags"] & int(Flag.FINAL_REFUTED)) == 0)
    low = np.where(counts & (columns["low"] > 0), columns["low"], 0.0)
    if not len(low):
        return []
    before = np.concatenate([[0.0], np.maximum.accumulate(low)[:-1]])
    found: list[int] = np.flatnonzero(low > before).tolist()
    return found
