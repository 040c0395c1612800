"""Everything about one candidate: where it came from, the question, the promise, the evidence, and what came of it."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evaluator.outcome import Outcome, Timing
from evaluator.task_card import TaskCard
from population.candidate import Candidate
from results.codec import plain
from results.dashboard.archive import candidate_key
from results.dashboard.columns import Columns
from results.dashboard.diffs import diff_lines
from results.dashboard.overview import fitnesses, versus_facts
from results.dashboard.view import Facts, Sight
from results.errors import IdUnknown
from results.events import StepAsked
from results.outcome_text import opponent_name
from results.reader import Reader
from results.rows import StepRow

CHILDREN = 200
ANCESTORS = 12
EVERYWHERE = "all"


def candidate_facts(sight: Sight, prefix: str) -> Facts:
    """The facts of the one candidate whose id begins so. Raises IdUnknown, IdAmbiguous."""
    reader = sight.reader
    row = reader.row(prefix)
    asked, found = reader.made_by(row.id), reader.candidate(row.id)
    outcome, final = reader.outcome(row.id), reader.final(row.id)
    card = reader.info().card
    parents = [one for one in (asked.step.parent_id, *asked.step.inspiration_ids) if one is not None] if asked else []
    own = () if row.step_number is None else reader.steps_in([row.step_number])
    children = reader.children(row.id)
    parent_outcome = reader.outcome(row.parent_id) if row.parent_id else None
    return {
        **asdict(row), "asked_at": own[0].asked_at if own else None, "source": found.source,
        **step_facts(asked),
        "predictions": prediction_facts(asked, outcome, parent_outcome, card) if asked else [],
        "search": outcome_facts(outcome), "final": outcome_facts(final),
        "parents": [parent_facts(reader, one, found) for one in dict.fromkeys(parents)],
        **ancestor_facts(sight.columns, row.id),
        "children": [child_facts(one) for one in children[:CHILDREN]], "children_total": len(children),
    }  # fmt: skip


def step_facts(asked: StepAsked | None) -> dict[str, Any]:
    """The question as it was put, the answer as it came, and what the answer says of itself; None each where no step was."""
    parts = {} if asked is None else {name: getattr(asked, name) for name in ("question", "header", "rejected", "answer")}
    return {name: plain(parts[name]) if parts.get(name) else None for name in ("question", "header", "rejected", "answer")}


def parent_facts(reader: Reader, parent_id: str, child: Candidate) -> dict[str, Any]:
    """A parent or inspiration with the difference to it; ``diff`` is None where the run doesn't hold it."""
    try:
        parent = reader.candidate(parent_id)
    except IdUnknown:
        return {"id": parent_id, "number": None, "diff": None}
    return {"id": parent.id, "number": reader.row(parent.id).step_number, "diff": diff_lines(parent.source, child.source)}


def ancestor_facts(columns: Columns, full_id: str) -> dict[str, Any]:
    """The nearest ancestors, the parent first, of ``ancestors_total``, and the one that the line begins with."""
    line = columns.ancestry(columns.row_of[full_id])[1:] if full_id in columns.row_of else []
    found = [
        {
            "id": candidate_key(columns, one), "number": int(columns["number"][one]),
            "geomean": float(columns["geomean"][one]) if columns["geomean"][one] > 0 else None,
        }
        for one in (*line[:ANCESTORS], *line[-1:])
    ]  # fmt: skip
    return {"ancestors": found[:-1] if line else [], "ancestors_total": len(line), "origin_of_line": found[-1] if line else None}


def child_facts(step: StepRow) -> dict[str, Any]:
    """What a step that started from this candidate asked, and what came of it."""
    return {
        "number": step.number, "id": step.candidate_id, "entry_id": step.entry_id, "question": step.question,
        "hypothesis": step.hypothesis, "verdict": step.verdict or step.rejection or ("DUPLICATE" if step.duplicate_of else None),
        "geomean": step.geomean, "accepted": step.accepted, "gain": step.gain,
    }  # fmt: skip


def outcome_facts(outcome: Outcome | None) -> dict[str, Any] | None:
    """An outcome as JSON types, with ratios to all opponents and each scenario's share of the device's bound."""
    if outcome is None:
        return None
    facts: dict[str, Any] = plain(outcome)
    facts["versus"] = [versus_facts(one) for one in fitnesses(outcome)]
    for timing in facts["timings"]:
        timing["opponent"] = opponent_name(timing["opponent"])
        timing["share"] = timing["floor_us"] / timing["candidate_us"] if timing["candidate_us"] > 0 else None
    failed = [check for check in facts["checks"] if not check["passed"]]
    facts["checks_passed"], facts["checks_failed"] = len(facts["checks"]) - len(failed), failed
    return facts


def prediction_facts(asked: StepAsked, outcome: Outcome | None, parent: Outcome | None, card: TaskCard) -> list[dict[str, Any]]:
    """Each region that the answer made a prediction for: the promised ratio to the parent and the measured one (or None)."""
    said = asked.header.prediction if asked.header else {}
    measured = ratios_to(outcome, parent, card)
    return [{"region": region, "predicted": value, "measured": measured.get(region)} for region, value in said.items()]


def ratios_to(child: Outcome | None, parent: Outcome | None, card: TaskCard) -> Mapping[str, float]:
    """How many times faster the child is than its parent in each region, by their ratios to the same opponent."""
    ours, theirs = _ratios(child.timings if child else ()), _ratios(parent.timings if parent else ())
    logs: defaultdict[str, list[float]] = defaultdict(list)
    for scenario in card.scenarios:
        if scenario.name in ours and scenario.name in theirs:
            for region in {scenario.region, EVERYWHERE}:
                logs[region].append(math.log(ours[scenario.name] / theirs[scenario.name]))
    return {region: math.exp(math.fsum(found) / len(found)) for region, found in logs.items()}


def _ratios(timings: Sequence[Timing]) -> dict[str, float]:
    return {one.scenario: one.ratio for one in timings if one.opponent == timings[0].opponent and one.ratio > 0}


def comparison_facts(sight: Sight, ids: Sequence[str]) -> Facts:
    """Several candidates side by side: figures, each scenario's ratios, and the difference of each to the first.

    Raises IdUnknown, IdAmbiguous.
    """
    reader = sight.reader
    rows = [reader.row(one) for one in ids]
    sources = [reader.candidate(row.id) for row in rows]
    outcomes = [reader.outcome(row.id) for row in rows]
    ratios = [_ratios(outcome.timings if outcome else ()) for outcome in outcomes]
    facts = [dict(outcome.facts) if outcome else {} for outcome in outcomes]
    names = [one.name for one in reader.info().card.scenarios]
    return {
        "candidates": [asdict(row) for row in rows],
        "scenarios": [
            {"name": name, "ratios": [one.get(name) for one in ratios]} for name in names if any(name in one for one in ratios)
        ],
        "facts": [
            {"name": name, "values": [one.get(name) for one in facts], "differs": len({str(one.get(name)) for one in facts}) > 1}
            for name in sorted({name for one in facts for name in one})
        ],
        "diffs": [{"id": other.id, "diff": diff_lines(sources[0].source, other.source)} for other in sources[1:]],
    }
