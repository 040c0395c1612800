"""Who answered: what each answerer and model was asked, what it gained and cost, and how well it knew that before."""

import math
from typing import Any

import numpy as np

from results.dashboard.payloads import as_text, sql_text
from results.dashboard.questions import parent_ratio
from results.dashboard.view import Facts, Sight

ARMS = f"""
SELECT COALESCE(s.answerer, '') AS answerer, {sql_text("$.answer.model")} AS model, s.origin AS origin,
    s.number, s.rejection IS NULL AND s.duplicate_of IS NULL AND s.candidate_id IS NOT NULL, o.verdict IN ('OK', 'SLOWER'),
    s.accepted, s.gain, s.tokens, s.cost_usd, s.answer_s, o.wall_s
FROM steps s JOIN events e ON e.seq = s.asked_seq LEFT JOIN outcomes o ON o.step_number = s.number WHERE s.origin <> 'seed'
"""
SUMS = ("new", "right", "accepted", "gain", "tokens", "cost_usd", "answer_s", "evaluation_s")


def arm_facts(sight: Sight) -> Facts:
    """For each answerer, model and origin of steps: counts, gain, cost, and predictions against measured ratios."""
    columns = sight.columns
    place = {number: row for row, number in enumerate(columns["number"].tolist())}
    measured, predicted = parent_ratio(columns), columns["predicted"].astype(float)
    arms: dict[tuple[str, str, str], dict[str, Any]] = {}
    for answerer, model, origin, number, *figures in sight.reader.connection.execute(ARMS):
        arm = arms.setdefault(
            (answerer, as_text(model), origin),
            {"answerer": answerer, "model": as_text(model), "origin": origin, "asked": 0, **dict.fromkeys(SUMS, 0), "rows": []},
        )
        arm["asked"] += 1
        for name, value in zip(SUMS, figures, strict=True):
            arm[name] += value or 0
        arm["rows"].append(place[number])
    found = [{**arm, **_held(predicted[arm["rows"]], measured[arm["rows"]])} for arm in arms.values()]
    for arm in found:
        del arm["rows"]
    return {"arms": sorted(found, key=lambda arm: -arm["asked"])}


def _held(predicted: np.ndarray[Any, Any], measured: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Predictions that were measured: count, both means, the typical factor between, how often faster was right."""
    both = (predicted > 0) & (measured > 0)
    if not both.any():
        return {"held": 0, "promised": None, "found": None, "off_by": None, "direction": None}
    promised, found = np.log(predicted[both]), np.log(measured[both])
    return {
        "held": int(both.sum()), "promised": math.exp(promised.mean()), "found": math.exp(found.mean()),
        "off_by": math.exp(np.abs(promised - found).mean()), "direction": float(((promised > 0) == (found > 0)).mean()),
    }  # fmt: skip
