"""Which moment a parent is in: what its own step and the attempts around it showed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.outcome import Verdict
from mutators.attempts import Attempt
from mutators.question import Claim, Moment

FAILED = frozenset(
    {
        Verdict.UNSUPPORTED,
        Verdict.PLAN_ERROR,
        Verdict.COMPILE_ERROR,
        Verdict.COMPILE_LIMIT,
        Verdict.GATE_VIOLATION,
        Verdict.LAUNCH_ERROR,
        Verdict.CRASH,
        Verdict.TIMEOUT,
        Verdict.SANDBOX,
        Verdict.WRONG,
        Verdict.NONFINITE,
        Verdict.NONDETERMINISTIC,
        Verdict.OUT_OF_BOUNDS,
        Verdict.INPUT_MUTATED,
        Verdict.STALE_OUTPUT,
    }
)
"""Verdicts that the candidate itself caused, so that its evidence is worth a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentSettings:
    """Where moments begin.

    ``stall_attempts``: attempts on the island without an accepted improvement. ``suspicious_ratio``: a gain in one step that
    is doubted before it is built on. ``lone_ratio``: a gain in one scenario that is doubted if the others stayed within
    ``rest_ratio``. ``readded_share`` of at least ``readded_lines`` added lines were deleted earlier in the lineage. A prediction
    ``missed_ratio`` times too high is asked about like a slower child, even where the child is faster.
    """

    stall_attempts: int = 10
    suspicious_ratio: float = 1.5
    lone_ratio: float = 1.15
    rest_ratio: float = 1.01
    readded_share: float = 0.3
    readded_lines: int = 3
    missed_ratio: float = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Readded:
    """How much of an edit had been deleted before: its share, and the attempt that deleted most of it."""

    share: float
    lines: int
    earlier: Attempt


def notice(history: Sequence[Attempt], parent_id: str, settings: MomentSettings) -> Moment:
    """The moment for the next question to this parent; ``history`` is its island's, oldest first.

    In this order: a suspicious step (the one that made the parent, before anything is built on it, or a child faster than
    physics), then what the last attempt from this parent showed: failure, loop, ceiling or done claim; then the island's stall;
    then that last attempt's regression or missed prediction; else routine. A moment that speaks about the last attempt isn't
    repeated: where that attempt already answered a question of this moment, the next in the order applies.
    """
    last = last_from(history, parent_id)
    found = _of_last(last, history, settings) if last else _of_making(history, parent_id, settings)
    asked = last.question.moment if last and last.question else None
    for moment in found:
        if moment is not asked:
            return moment
    if attempts_since_improvement(history) >= settings.stall_attempts:
        return Moment.STALL
    if last is not None and asked is not Moment.REGRESSION and (is_slower(last) or is_missed(last, settings)):
        return Moment.REGRESSION
    return Moment.ROUTINE


def _of_making(history: Sequence[Attempt], parent_id: str, settings: MomentSettings) -> Sequence[Moment]:
    made = made_by(history, parent_id)
    return [Moment.SUSPICIOUS_WIN] if made is not None and is_suspicious(made, settings) else []


def _of_last(last: Attempt, history: Sequence[Attempt], settings: MomentSettings) -> Sequence[Moment]:
    moments = []
    if last.verdict == Verdict.TOO_FAST:
        moments.append(Moment.SUSPICIOUS_WIN)
    if last.verdict in FAILED:
        moments.append(Moment.FAILURE)
    again = readded(last, history)
    if again is not None and again.share >= settings.readded_share and again.lines >= settings.readded_lines:
        moments.append(Moment.LOOP)
    if last.claim is Claim.CEILING:
        moments.append(Moment.CEILING_CLAIM)
    if last.claim is Claim.DONE:
        moments.append(Moment.DONE_CLAIM)
    return moments


def is_suspicious(attempt: Attempt, settings: MomentSettings) -> bool:
    """Whether a step's gain is large for one step, or sits in one scenario alone, which is what a sweep is after."""
    change = attempt.change
    if change is None:
        return False
    alone = change.scenarios > 1 and change.best_ratio >= settings.lone_ratio and change.rest_ratio < settings.rest_ratio
    return change.ratio >= settings.suspicious_ratio or (alone and not attempt.swept)


def is_slower(attempt: Attempt) -> bool:
    """Whether a right child came out slower than its parent (SLOWER without a full race counts)."""
    if attempt.change is None:
        return attempt.verdict == Verdict.SLOWER
    return attempt.verdict in {Verdict.OK, Verdict.SLOWER} and attempt.change.ratio < 1


def is_missed(attempt: Attempt, settings: MomentSettings) -> bool:
    """Whether a right child fell far short of what its author predicted."""
    expected = expected_ratio(attempt)
    if expected is None or attempt.change is None or attempt.verdict not in {Verdict.OK, Verdict.SLOWER}:
        return False
    return expected >= attempt.change.ratio * settings.missed_ratio


def expected_ratio(attempt: Attempt) -> float | None:
    """The predicted ratio over everything: ``all``, else the geometric mean of the regions that were named."""
    prediction = attempt.header.prediction if attempt.header else {}
    if not prediction:
        return None
    return prediction.get("all") or math.exp(sum(math.log(ratio) for ratio in prediction.values()) / len(prediction))


def readded(attempt: Attempt, history: Sequence[Attempt]) -> Readded | None:
    """Which of an attempt's added lines its ancestors had deleted, None where none were.

    Exact: line hashes of the attempts that lead to its parent. Linear in the lines that the lineage ever deleted.
    """
    if not attempt.added:
        return None
    made = first_makers([earlier for earlier in history if earlier.number < attempt.number])
    wanted = set(attempt.added)
    deleted: set[int] = set()
    best, most = None, 0
    for ancestor in ancestry(made, attempt.parent_id):
        hits = wanted.intersection(ancestor.deleted)
        deleted |= hits
        if len(hits) > most:
            best, most = ancestor, len(hits)
    if best is None:
        return None
    again = sum(line in deleted for line in attempt.added)
    return Readded(share=again / len(attempt.added), lines=again, earlier=best)


def first_makers(history: Sequence[Attempt]) -> Mapping[str, Attempt]:
    """For each candidate the attempt that first made it."""
    made: dict[str, Attempt] = {}
    for attempt in history:
        if attempt.candidate_id is not None:
            made.setdefault(attempt.candidate_id, attempt)
    return made


def ancestry(made: Mapping[str, Attempt], parent_id: str | None) -> Sequence[Attempt]:
    """The attempts that led to a candidate, newest first; ``made`` comes from ``first_makers``."""
    chain: list[Attempt] = []
    seen: set[str] = set()
    while parent_id is not None and parent_id in made and parent_id not in seen:
        seen.add(parent_id)
        chain.append(made[parent_id])
        parent_id = chain[-1].parent_id
    return chain


def last_from(history: Sequence[Attempt], parent_id: str) -> Attempt | None:
    """The latest attempt that started from this parent; a turned knob is none."""
    own = (attempt for attempt in reversed(history) if attempt.parent_id == parent_id and not attempt.swept)
    return next(own, None)


def made_by(history: Sequence[Attempt], candidate_id: str) -> Attempt | None:
    """The attempt that first made this candidate, None for a seed or a migrant."""
    return next((attempt for attempt in history if attempt.candidate_id == candidate_id and attempt.parent_id), None)


def attempts_since_improvement(history: Sequence[Attempt]) -> int:
    """Attempts on the island since the last accepted improvement on a parent (seeds and turned knobs don't count as attempts)."""
    count = 0
    for attempt in reversed(history):
        if attempt.parent_id is None or attempt.swept:
            continue
        if _improved(attempt):
            break
        count += 1
    return count


def _improved(attempt: Attempt) -> bool:
    return attempt.accepted and (attempt.change is None or attempt.change.ratio > 1)
