"""Facts from attempts: the step that made a parent, the last attempt from it, and its island's recent history."""

import math
import re
from collections.abc import Mapping, Sequence

from evaluator.task_card import TaskCard
from mutators.attempts import Attempt, Change
from mutators.moments import attempts_since_improvement, expected_ratio, is_slower, last_from, made_by, readded
from mutators.question import FactValue
from mutators.records import gain_of

MAX_MESSAGE_CHARS = 200
PREDICTIONS = 10
"""So many of the last measured predictions count in their mean error."""

_FIRST = re.compile(r"first (?:wrong )?at ((?:\w+=\d+(?:, )?)+)")
_VALUES = re.compile(r"got ([^\s,;]+), expected ([^\s,;]+)")
_SHARE = re.compile(r"(\d+) of (\d+) elements")
_WITHIN = re.compile(r"within ((?:\w+ \d+\.\.\d+(?:, )?)+)")
_AXES: Mapping[str, str] = {"b": "wrong_batch", "sq": "wrong_row", "h": "wrong_head", "d": "wrong_col"}


def island_facts(history: Sequence[Attempt], parent_id: str) -> dict[str, FactValue]:
    """Counts over the island's attempts and over this parent's children, turned knobs left out."""
    attempts = [attempt for attempt in history if attempt.parent_id is not None and not attempt.swept]
    children = [attempt for attempt in attempts if attempt.parent_id == parent_id]
    facts: dict[str, FactValue] = {
        "attempts": len(attempts),
        "attempts_since_improvement": attempts_since_improvement(history),
        "children": len(children),
        "children_slower": sum(is_slower(child) for child in children),
    }
    layers = [attempt.layer for attempt in attempts if attempt.layer is not None]
    if layers:
        facts["last_layer"] = layers[-1].value
        facts["same_layer_streak"] = next(
            (count for count, layer in enumerate(reversed(layers)) if layer is not layers[-1]), len(layers)
        )
    if (streak := _same_stage_streak(children)) > 0:
        facts["same_stage_streak"] = streak
    facts |= _calibration(attempts)
    paid = max(attempts, key=lambda attempt: (gain_of(attempt), attempt.number), default=None)
    if paid is not None and paid.layer is not None and gain_of(paid) > 0:
        facts["best_step_layer"] = paid.layer.value
        facts["best_step_pct"] = 100 * math.expm1(gain_of(paid))
    return facts


def _same_stage_streak(children: Sequence[Attempt]) -> int:
    """How many of the last attempts from a parent, in a row, failed at one stage."""
    stages = [child.failure.stage if child.failure else None for child in children]
    if not stages or stages[-1] is None:
        return 0
    return next((count for count, stage in enumerate(reversed(stages)) if stage != stages[-1]), len(stages))


def _calibration(attempts: Sequence[Attempt]) -> dict[str, FactValue]:
    """How far predictions lay above what was measured, over the last of them."""
    pairs = [(expected_ratio(attempt), attempt.change) for attempt in attempts]
    known = [_pct(expected) - _pct(change.ratio) for expected, change in pairs if expected is not None and change is not None]
    last = known[-PREDICTIONS:]
    return {"predictions": len(last), "mean_overshoot_pct": sum(last) / len(last)} if last else {}


def step_facts(history: Sequence[Attempt], parent_id: str, change: Change | None) -> dict[str, FactValue]:
    """How the parent itself compares with the candidate it was made from."""
    if change is None:
        return {}
    facts: dict[str, FactValue] = {
        "gain_pct": _pct(change.ratio),
        "gain_scenario": change.best_scenario,
        "gain_scenario_pct": _pct(change.best_ratio),
    }
    if change.scenarios > 1:
        facts |= {"rest_gain_pct": _pct(change.rest_ratio), "rest_count": change.scenarios - 1}
        facts |= {"lost_scenario": change.worst_scenario, "lost_scenario_pct": -_pct(change.worst_ratio)}
    made = made_by(history, parent_id)
    expected = expected_ratio(made) if made is not None else None
    if expected is not None:
        facts["gain_expected_pct"] = _pct(expected)
    return facts


def last_facts(history: Sequence[Attempt], parent_id: str, card: TaskCard) -> dict[str, FactValue]:
    """What the last attempt from this parent showed: its prediction, its failure, lines it brought back."""
    last = last_from(history, parent_id)
    if last is None:
        return {}
    facts: dict[str, FactValue] = {"last_verdict": last.verdict, "last_lines": len(last.added)}
    if last.change is not None:
        facts |= {"actual_pct": _pct(last.change.ratio), "last_slow_scenario": last.change.worst_scenario}
        facts |= {"last_slow_pct": -_pct(last.change.worst_ratio), "last_fast_scenario": last.change.best_scenario}
        facts["last_fast_pct"] = _pct(last.change.best_ratio)
    expected = expected_ratio(last)
    if expected is not None:
        facts["predicted_pct"] = _pct(expected)
    facts |= _failure_facts(last, card)
    again = readded(last, history)
    if again is not None:
        facts |= {"readded_pct": 100 * again.share, "earlier_attempt": again.earlier.number}
        facts["earlier_verdict"] = again.earlier.verdict
    return facts


def _failure_facts(attempt: Attempt, card: TaskCard) -> dict[str, FactValue]:
    failure = attempt.failure
    if failure is None:
        return {}
    facts: dict[str, FactValue] = {"failed_stage": failure.stage, "failure_message": _one_line(failure.message)}
    if failure.scenario is not None:
        facts["failed_scenario"] = failure.scenario
        symbols = next((item.symbols for item in card.scenarios if item.name == failure.scenario), {})
        facts |= {f"failed_{name}": symbols[name] for name in ("sq", "sk", "d") if name in symbols}
    check = failure.check
    if check is not None:
        facts |= {"wrong_tensor": check.tensor, "wrong_distribution": check.distribution}
        if check.max_error is not None and check.max_allowed > 0:
            facts["error_over_allowed"] = check.max_error / check.max_allowed
    return facts | _place_facts(check.message if check else failure.message)


def _place_facts(message: str) -> dict[str, FactValue]:
    """Where the harness's message says that elements are wrong: the first one, their share, the region around them all."""
    facts: dict[str, FactValue] = {}
    if first := _FIRST.search(message):
        index = (part.split("=") for part in first[1].rstrip(", ").split(", "))
        facts |= {_AXES[axis]: int(at) for axis, at in index if axis in _AXES}
    if values := _VALUES.search(message):
        facts |= {"wrong_got": values[1], "wrong_want": values[2]}
    if share := _SHARE.search(message):
        facts["wrong_pct"] = 100 * int(share[1]) / max(1, int(share[2]))
    if within := _WITHIN.search(message):
        facts["wrong_where"] = within[1].rstrip(", ")
    return facts


def _one_line(text: str) -> str:
    """A message as one short line that can stand inside a question."""
    return " ".join(text.replace("`", "'").split())[:MAX_MESSAGE_CHARS]


def _pct(ratio: float) -> float:
    return 100 * (ratio - 1)
