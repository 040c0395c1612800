"""The run at a glance: how far the best is, whether to believe it, what it cost, what happens now, what to do next."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from evaluator.outcome import Fitness, Outcome, Timing
from population.candidate import short_id
from results.dashboard.advice import advice, warnings
from results.dashboard.codes import Flag
from results.dashboard.columns import Columns
from results.dashboard.funnel import funnel
from results.dashboard.view import Facts, Sight
from results.mailbox import Mailbox
from results.outcome_text import opponent_name
from results.rows import CandidateRow
from results.terminal import state

LATEST = 8


def run_facts(sight: Sight) -> Facts:
    """Everything that the overview shows, as JSON types."""
    reader, columns = sight.reader, sight.columns
    info, best = reader.info(), reader.headline()
    final = reader.final(best.id) if best else None
    found = final if final is not None and final.fitness is not None else reader.outcome(best.id) if best else None
    outlook = sight.outlook(reader, columns)
    answered = Mailbox(info.folder).answered() & {one.step.number for one in reader.open_steps()}
    facts: dict[str, Any] = {
        "name": info.name, "seq": columns.seq, "state": state(info), "live": info.live, "stopped_by": info.stopped_by,
        "task": info.card.name, "summary": info.card.summary, "scenario_set": info.card.scenario_set,
        "scenarios": len(info.card.scenarios), "baselines": list(info.card.baselines), "version": info.version,
        "started_at": info.started_at, "last_at": info.last_at, "spent_s": info.spent_s, "cost_usd": info.cost_usd,
        "tokens": info.tokens, "steps": info.steps, "candidates": info.candidates, "evaluated": info.evaluated,
        "accepted": info.accepted, "open_steps": info.open_steps, "answered": len(answered),
        "best": best_facts(best, final) if best else None, "verified": verified(final),
        "versus": [versus_facts(one) for one in fitnesses(found)], "bound": bound_facts(found.timings if found else ()),
        "noise_floor_pct": found.noise_floor_pct if found else None,
        "device": {"name": found.device.name, "arch": found.device.arch} if found else None,
        "goal": outlook.goal, "goal_ratio": outlook.goal_ratio, "conditions": [asdict(one) for one in outlook.conditions],
        "budgets": [asdict(one) for one in outlook.budgets], "workers": outlook.workers,
        "lease_share": outlook.lease_share, "busy_share": outlook.busy_share,
        "rate": rate_facts(columns, info.spent_s), "funnel": [asdict(row) for row in funnel(columns)],
        "latest": latest_facts(sight), "notes": [{"at": at, "text": text} for at, text in columns.notes],
    }  # fmt: skip
    if best is not None and best.step_number is not None:
        step = reader.steps_in([best.step_number])[0]
        facts["best"] |= {"question": step.question, "hypothesis": step.hypothesis, "gain": step.gain}
    elif best is not None:
        facts["best"] |= {"question": None, "hypothesis": None, "gain": None}
    facts["warnings"] = warnings(facts, columns)
    facts["advice"] = advice(facts)
    return facts


def best_facts(best: CandidateRow, final: Outcome | None) -> dict[str, Any]:
    """The best with the figures of its final where that gave some, else of the search."""
    fitness = final.fitness if final is not None else None
    figures: Any = fitness or best
    return {
        "id": best.id, "short": short_id(best.id), "number": best.step_number, "origin": best.origin.value,
        "depth": best.depth, "language": best.language.value, "opponent": opponent_name(figures.opponent or ""),
        "low": figures.low, "geomean": figures.geomean, "high": figures.high, "worst_scenario": figures.worst_scenario,
        "worst_ratio": figures.worst_ratio, "measured_by": "final" if fitness else "search",
    }  # fmt: skip


def verified(final: Outcome | None) -> str:
    """``verified``, ``refuted``, ``undecided`` (the final itself failed) or ``not yet``."""
    if final is None:
        return "not yet"
    if final.fitness is None:
        return "refuted" if final.verdict.value not in ("CANCELLED", "HARNESS_FAULT") else "undecided"
    return "verified" if final.verdict.value == "OK" else "undecided"


def fitnesses(outcome: Outcome | None) -> Sequence[Fitness]:
    """The ratios to every opponent, the primary baseline first."""
    return () if outcome is None or outcome.fitness is None else (outcome.fitness, *outcome.versus)


def versus_facts(fitness: Fitness) -> dict[str, Any]:
    """One opponent's geometric mean with its interval."""
    return {**asdict(fitness), "opponent": opponent_name(fitness.opponent), "rival": fitness.opponent.startswith("candidate:")}


def bound_facts(timings: Sequence[Timing]) -> dict[str, Any] | None:
    """The share of what the device could do at most: geometric mean and extremes over scenarios. None without a race."""
    first = [one for one in timings if one.opponent == timings[0].opponent and one.candidate_us > 0 and one.floor_us > 0]
    if not first:
        return None
    shares = {one.scenario: one.floor_us / one.candidate_us for one in first}
    least, most = min(shares, key=lambda name: shares[name]), max(shares, key=lambda name: shares[name])
    return {
        "share": math.exp(math.fsum(map(math.log, shares.values())) / len(shares)),
        "least": shares[least], "least_scenario": least, "most": shares[most], "most_scenario": most,
    }  # fmt: skip


def rate_facts(columns: Columns, spent_s: float) -> dict[str, Any]:
    """Evaluations an hour of the drivers' time, and seconds of one evaluation and of one answer on average."""
    evaluation = columns["eval_s"]
    evaluated = int((evaluation >= 0).sum())
    asked = columns["answer_s"] > 0
    return {
        "evaluated_h": evaluated / spent_s * 3600 if spent_s > 0 and evaluated else None,
        "eval_s": float(evaluation[evaluation >= 0].mean()) if evaluated else None,
        "answer_s": float(columns["answer_s"][asked].mean()) if asked.any() else None,
    }


def latest_facts(sight: Sight) -> list[dict[str, Any]]:
    """The last accepted steps, newest first: the question and what it gained."""
    flags = sight.columns["flags"] & int(Flag.ACCEPTED | Flag.SEED)
    rows = (flags == int(Flag.ACCEPTED)).nonzero()[0][-LATEST:].tolist()
    numbers = [int(sight.columns["number"][row]) for row in rows]
    return [
        {
            "number": step.number, "id": step.candidate_id, "short": short_id(step.candidate_id or ""), "question": step.question,
            "entry_id": step.entry_id, "hypothesis": step.hypothesis, "gain": step.gain, "geomean": step.geomean,
        }
        for step in reversed(sight.reader.steps_in(numbers))
    ]  # fmt: skip
