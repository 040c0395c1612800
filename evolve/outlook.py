"""How a run stands to its goal and its budgets, for those who look at it."""

import json
from dataclasses import replace

from evaluator.outcome import Outcome
from evaluator.task_card import TaskCard
from evolve.config import BudgetTable, ConfigError, RunConfig, validated
from evolve.goal import examine, parse_goal
from results.dashboard.columns import Columns
from results.dashboard.outlook import Budget, Condition, Outlook
from results.events import CONFIG_FACT
from results.reader import Reader

CHANGED = f"""
SELECT json_extract(payload, '$.facts.{CONFIG_FACT}') FROM events
WHERE kind = 'RunNoted' AND json_extract(payload, '$.facts.{CONFIG_FACT}') IS NOT NULL ORDER BY seq DESC LIMIT 1
"""


def outlook(reader: Reader, columns: Columns) -> Outlook:
    """Goal, budgets and workers of the run that is read; empty where its configuration is of another version."""
    info = reader.info()
    try:
        config = validated(_configuration(reader, info.config), "the run's configuration")
    except ConfigError:
        return Outlook()
    spent_h, workers = info.spent_s / 3600, config.executor.workers
    best = reader.headline()
    found = (reader.final(best.id) or reader.outcome(best.id)) if best else None
    out = Outlook(
        budgets=_budgets(config.budget, info.candidates, spent_h, info.tokens, info.cost_usd, columns.held_s / 3600),
        workers=workers,
        lease_share=_share(columns.held_s, info.spent_s * workers),
        busy_share=_share(columns.busy_s, info.spent_s * workers),
    )
    return _with_goal(out, config, found, info.card)


def _configuration(reader: Reader, first: object) -> dict[str, object]:
    """The configuration as it is now: the last that a driver noted, or the one that the run began with."""
    row = reader.connection.execute(CHANGED).fetchone()
    return dict(json.loads(row[0])) if row else dict(first) if isinstance(first, dict) else {}


def _budgets(limits: BudgetTable, candidates: int, spent_h: float, tokens: int, usd: float, gpu_h: float) -> tuple[Budget, ...]:
    """What is spent of each limit, those that are neither limited nor touched left out."""
    found = (
        Budget(name="Evaluations", spent=candidates, limit=limits.candidates, unit="candidates"),
        Budget(name="Time", spent=spent_h, limit=limits.hours, unit="hours"),
        Budget(name="Tokens", spent=tokens, limit=limits.tokens, unit="tokens"),
        Budget(name="Money", spent=usd, limit=limits.usd, unit="US dollars"),
        Budget(name="GPU", spent=gpu_h, limit=limits.gpu_hours, unit="hours"),
    )
    return tuple(one for one in found if one.limit is not None or one.spent)


def _share(part_s: float, whole_s: float) -> float | None:
    return min(1.0, part_s / whole_s) if part_s and whole_s else None


def _with_goal(out: Outlook, config: RunConfig, found: Outcome | None, card: TaskCard) -> Outlook:
    """The outlook with the goal's conditions against what the best measured."""
    if config.goal.expression is None:
        return out
    goal = parse_goal(config.goal.expression)
    results = {one.condition.text: one for one in examine(goal, found, card)} if found is not None else {}
    conditions = tuple(
        Condition(
            text=one.text,
            met=one.text in results and results[one.text].met,
            value=results[one.text].value if one.text in results else None,
            threshold=one.threshold if one.statistic != "correct" else None,
            reason=results[one.text].reason if one.text in results else "no candidate yet",
        )
        for one in goal.conditions
    )
    shown = found.fitness.opponent if found is not None and found.fitness is not None else card.baselines[0]
    ratios = [one.threshold for one in goal.conditions if one.statistic == "geomean" and one.peer == shown]
    return replace(out, goal=goal.text, conditions=conditions, goal_ratio=max(ratios, default=None))
