"""The goal of a run: a predicate over a verified final, with a small grammar (docs/goals.md).

``geomean(fa3) >= 1.16 and worst(best_peer) >= 1.0 and correct == all``
"""

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.outcome import Outcome, Timing, Verdict
from evaluator.task_card import TaskCard

BEST_PEER = "best_peer"
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?|\.\d+)|(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)|(?P<sign>>=|>|==|[(),])|(?P<bad>\S))"
)
_STATISTICS = ("geomean", "worst")


class GoalError(Exception):
    """A goal can't be read; the text says what, at which character, and what may stand there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One comparison. ``statistic`` is geomean, worst or correct; peer, region and threshold don't apply to correct."""

    statistic: str
    text: str
    peer: str = ""
    region: str | None = None
    strict: bool = False
    threshold: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """All conditions must hold."""

    text: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionResult:
    """How far a condition is met. ``value`` is a lower bound, None where it wasn't measured (``reason`` says why)."""

    condition: Condition
    met: bool
    value: float | None
    reason: str = ""


def parse_goal(text: str) -> Goal:
    """The goal written in ``text``. Raises GoalError."""
    tokens = _Tokens(text)
    conditions = [_condition(tokens)]
    while not tokens.at_end:
        tokens.take("and")
        conditions.append(_condition(tokens))
    return Goal(text=text, conditions=tuple(conditions))


def check_names(goal: Goal, card: TaskCard) -> None:
    """Raises GoalError where the goal names a baseline or region that the task doesn't have."""
    for condition in goal.conditions:
        if condition.statistic == "correct":
            continue
        peers, regions = (*card.baselines, BEST_PEER), tuple(dict.fromkeys(("all", *card.regions)))
        if condition.peer not in peers:
            raise GoalError(f"'{condition.text}': task {card.name} has no baseline '{condition.peer}'; it has {', '.join(peers)}")
        if condition.region is not None and condition.region not in regions:
            raise GoalError(
                f"'{condition.text}': task {card.name} has no region '{condition.region}'; it has {', '.join(regions)}"
            )


def examine(goal: Goal, outcome: Outcome, card: TaskCard) -> tuple[ConditionResult, ...]:
    """How an outcome stands to each condition, by the lower bounds of what was measured.

    Whether the outcome is a final is the caller's business: the search looks at its own outcomes to see if a final is due.
    """
    return tuple(_examined(condition, outcome, card) for condition in goal.conditions)


def is_met(goal: Goal, outcome: Outcome, card: TaskCard) -> bool:
    """Whether the outcome is OK and meets every condition."""
    return outcome.verdict is Verdict.OK and all(result.met for result in examine(goal, outcome, card))


class _Tokens:
    """A cursor over the tokens of a goal."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[int, str]] = []
        for match in _TOKEN.finditer(text.rstrip()):
            kind = match.lastgroup or "bad"
            if kind == "bad":
                raise GoalError(f"character {match.start(kind) + 1}: '{match[kind]}' has no meaning in a goal")
            self._tokens.append((match.start(kind), match[kind]))
        self._next = 0

    @property
    def at_end(self) -> bool:
        return self._next == len(self._tokens)

    def take(self, *allowed: str, what: str = "") -> str:
        """The next token, which must be one of ``allowed`` (any token where none is given)."""
        expected = what or " or ".join(f"'{word}'" for word in allowed)
        if self.at_end:
            raise GoalError(f"ends after character {len(self._text.rstrip())} where {expected} should follow")
        position, token = self._tokens[self._next]
        if allowed and token not in allowed:
            near = difflib.get_close_matches(token, allowed, n=1, cutoff=0.6)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            raise GoalError(f"character {position + 1}: '{token}' where {expected} should stand{hint}")
        self._next += 1
        return token

    def follows(self, token: str) -> bool:
        """Whether the next token is this one."""
        return not self.at_end and self._tokens[self._next][1] == token

    def since(self, start: int) -> str:
        """The text from token ``start`` to the cursor."""
        position, token = self._tokens[self._next - 1]
        return self._text[self._tokens[start][0] : position + len(token)]

    @property
    def index(self) -> int:
        return self._next


def _condition(tokens: _Tokens) -> Condition:
    start = tokens.index
    statistic = tokens.take(*_STATISTICS, "correct")
    if statistic == "correct":
        tokens.take("==")
        tokens.take("all")
        return Condition(statistic=statistic, text=tokens.since(start))
    tokens.take("(")
    peer = _name(tokens, "a baseline's name")
    region = None
    if tokens.follows(","):
        tokens.take(",")
        region = _name(tokens, "a region's name")
    tokens.take(")")
    sign = tokens.take(">=", ">")
    threshold = tokens.take(what="a number")
    try:
        value = float(threshold)
    except ValueError:
        raise GoalError(f"'{tokens.since(start)}': '{threshold}' where a number should stand, such as 1.05") from None
    return Condition(statistic=statistic, text=tokens.since(start), peer=peer, region=region, strict=sign == ">", threshold=value)


def _name(tokens: _Tokens, what: str) -> str:
    token = tokens.take(what=what)
    if not (token[0].isalpha() or token[0] == "_"):
        raise GoalError(f"'{token}' where {what} should stand")
    return token


def _examined(condition: Condition, outcome: Outcome, card: TaskCard) -> ConditionResult:
    if condition.statistic == "correct":
        everywhere = set(outcome.supported) == {scenario.name for scenario in card.scenarios}
        right = outcome.verdict is Verdict.OK and all(check.passed for check in outcome.checks)
        missing = len(card.scenarios) - len(outcome.supported)
        reason = "" if everywhere else f"{missing} of {len(card.scenarios)} scenarios lie outside the candidate's domain"
        return ConditionResult(
            condition=condition, met=everywhere and right, value=None, reason=reason if right else "not right everywhere"
        )
    value = _value(condition, outcome, card)
    if value is None:
        return ConditionResult(condition=condition, met=False, value=None, reason=f"no race against {condition.peer}")
    met = value > condition.threshold if condition.strict else value >= condition.threshold
    return ConditionResult(condition=condition, met=met, value=value)


def _value(condition: Condition, outcome: Outcome, card: TaskCard) -> float | None:
    """The lower bound of a statistic: the interval of the geometric mean where there is one, else from scenario intervals."""
    region = None if condition.region == "all" else condition.region
    if condition.statistic == "geomean" and region is None:
        fitted = [] if outcome.fitness is None else [outcome.fitness, *outcome.versus]
        for fitness in fitted:
            if fitness.opponent == condition.peer:
                return fitness.low
    lows = _scenario_lows(condition.peer, outcome.timings, card, region)
    if not lows or min(lows) <= 0:
        return None
    return min(lows) if condition.statistic == "worst" else math.exp(sum(map(math.log, lows)) / len(lows))


def _scenario_lows(peer: str, timings: Sequence[Timing], card: TaskCard, region: str | None) -> list[float]:
    """Lower bounds by scenario; against ``best_peer`` that of the baseline which does best there."""
    regions = {scenario.name: scenario.region for scenario in card.scenarios}
    lows: dict[str, float] = {}
    for timing in timings:
        wanted = timing.opponent in card.baselines if peer == BEST_PEER else timing.opponent == peer
        if wanted and timing.scenario in regions and region in (None, regions[timing.scenario]):
            lows[timing.scenario] = min(timing.low, lows.get(timing.scenario, math.inf))
    return list(lows.values())
