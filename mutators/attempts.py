"""What became of one question: the value that moments, facts and records are computed from."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from evaluator.outcome import Check, Outcome, Verdict
from mutators.answerers.base import Relative
from mutators.claims import claim_in
from mutators.question import Answer, Claim, Header, Layer, Question, Rejected
from population.candidate import Knob, Origin, Step

MAX_DETAIL_CHARS = 4000

SWEPT = "nothing: a knob was turned"
"""What history says in the place of a question where there was a knob sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How a candidate compares with its parent, from both races against the same opponent.

    Ratios above 1 are faster. ``ratio`` is the geometric mean over the scenarios that both were timed in, ``low`` the child's
    lower bound over the parent's estimate (None where the two domains differ). ``rest_ratio`` leaves the best scenario out.
    """

    ratio: float
    low: float | None
    best_scenario: str
    best_ratio: float
    worst_scenario: str
    worst_ratio: float
    rest_ratio: float
    scenarios: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The first piece of evidence that a harness verdict came with; ``check`` is the first check that failed."""

    verdict: Verdict
    stage: str
    message: str
    detail: str = ""
    scenario: str | None = None
    check: Check | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One folded step, in the order of asking. Make one with ``attempt_of``.

    ``verdict`` is a harness verdict or an answer rejection. ``added`` and ``deleted`` are hashes of the source lines that the
    edit brought and took away (lines that only moved count as neither, lines without three letters or digits are left out).
    ``said`` is what the answer's prose claims about the limit, whatever its header says. ``swept``: no question was answered, a
    knob was turned to see what it does.
    """

    number: int
    island: int
    parent_id: str | None
    candidate_id: str | None
    verdict: str
    accepted: bool
    question: Question | None = None
    header: Header | None = None
    said: Claim = Claim.NONE
    change: Change | None = None
    failure: Failure | None = None
    added: tuple[int, ...] = ()
    deleted: tuple[int, ...] = ()
    wall_s: float = 0.0
    cost_usd: float = 0.0
    swept: bool = False

    @property
    def layer(self) -> Layer | None:
        """The layer of the question that was asked."""
        return self.question.layer if self.question else None

    @property
    def claim(self) -> Claim:
        """What the answer claimed about the limit: in its header, else in its prose."""
        return self.header.claim if self.header and self.header.claim is not Claim.NONE else self.said


def attempt_of(
    *,
    step: Step,
    accepted: bool,
    question: Question | None,
    answer: Answer | None,
    header: Header | None,
    rejected: Rejected | None,
    outcome: Outcome | None,
    parent_outcome: Outcome | None,
    source: str | None,
    parent_source: str | None,
) -> Attempt:
    """The attempt that a folded step amounts to; a duplicate comes with its old outcome or with none."""
    verdict = rejected.reason.value if rejected else outcome.verdict.value if outcome else Verdict.DUPLICATE.value
    known = source is not None and parent_source is not None
    added, deleted = line_changes(parent_source or "", source or "") if known else ((), ())
    return Attempt(
        number=step.number,
        island=step.island,
        parent_id=step.parent_id,
        candidate_id=step.candidate_id,
        verdict=verdict,
        accepted=accepted,
        question=question,
        header=header,
        said=claim_in(answer.text) if answer else Claim.NONE,
        change=change_of(outcome, parent_outcome),
        failure=failure_of(outcome),
        added=added,
        deleted=deleted,
        wall_s=(answer.usage.wall_s if answer else 0.0) + (outcome.wall_s if outcome else 0.0),
        cost_usd=answer.usage.cost_usd if answer else 0.0,
        swept=step.origin is Origin.SWEEP,
    )


def change_of(outcome: Outcome | None, parent: Outcome | None) -> Change | None:
    """The comparison of a child with its parent, None where one of them has no fitness against the same opponent."""
    if outcome is None or parent is None or outcome.fitness is None or parent.fitness is None:
        return None
    opponent = outcome.fitness.opponent
    if parent.fitness.opponent != opponent:
        return None
    before = {timing.scenario: timing.ratio for timing in parent.timings if timing.opponent == opponent}
    logs = {
        timing.scenario: math.log(timing.ratio / before[timing.scenario])
        for timing in outcome.timings
        if timing.opponent == opponent and timing.scenario in before
    }
    if not logs:
        return None
    best = max(logs, key=lambda name: logs[name])
    worst = min(logs, key=lambda name: logs[name])
    total = sum(logs.values())
    same = outcome.fitness.scenarios == parent.fitness.scenarios == len(logs)
    return Change(
        ratio=math.exp(total / len(logs)),
        low=outcome.fitness.low / parent.fitness.geomean if same else None,
        best_scenario=best,
        best_ratio=math.exp(logs[best]),
        worst_scenario=worst,
        worst_ratio=math.exp(logs[worst]),
        rest_ratio=math.exp((total - logs[best]) / (len(logs) - 1)) if len(logs) > 1 else math.exp(logs[best]),
        scenarios=len(logs),
    )


def failure_of(outcome: Outcome | None) -> Failure | None:
    """The first evidence in an outcome that is no score: its fault, and the first check that failed."""
    if outcome is None or outcome.verdict in {Verdict.OK, Verdict.SLOWER, Verdict.AMBIGUOUS, Verdict.DUPLICATE}:
        return None
    wrong = next((check for check in outcome.checks if not check.passed), None)
    fault = outcome.fault
    return Failure(
        verdict=outcome.verdict,
        stage=outcome.stage.value,
        message=fault.message if fault else outcome.message,
        detail=fault.detail[:MAX_DETAIL_CHARS] if fault else "",
        scenario=fault.scenario if fault and fault.scenario else wrong.scenario if wrong else None,
        check=wrong,
    )


def line_changes(parent: str, child: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Hashes of lines that only the child holds and of lines that only the parent holds, as multisets, sorted.

    A line counts byte for byte, its indentation included. 64 bits: among a million lines two different ones share a hash with
    a chance of one in 10 million.
    """
    old, new = Counter(parent.splitlines()), Counter(child.splitlines())
    changed = {line for line, _ in new.items() ^ old.items()}
    return _hashes({line: new[line] - old[line] for line in changed}), _hashes({line: old[line] - new[line] for line in changed})


def _hashes(surplus: Mapping[str, int]) -> tuple[int, ...]:
    """The hashes of the lines of which there are more, each as often as that, sorted; lines that say little are left out."""
    found = []
    for line, count in surplus.items():
        if count > 0 and sum(map(str.isalnum, line)) >= 3:
            data = line.encode("utf-8", "surrogatepass")
            found += [int.from_bytes(blake2b(data, digest_size=8).digest(), "big")] * count
    return tuple(sorted(found))


def assignment_of(knobs: Sequence[Knob]) -> Mapping[str, int]:
    """All turnable numbers of a plan by name; a conditional value is named ``NAME when CONDITION``."""
    values = {knob.name: knob.value for knob in knobs}
    return values | {f"{knob.name} when {condition}": value for knob in knobs for condition, value in knob.cases}


def relative_of(attempt: Attempt, knobs: Sequence[Knob]) -> Relative:
    """The attempt as history shows it to mutators; ``knobs`` are those of its candidate (none where it made no child)."""
    return Relative(
        number=attempt.number,
        question=attempt.question.text if attempt.question else SWEPT if attempt.swept else "",
        hypothesis=attempt.header.hypothesis if attempt.header else "",
        prediction=dict(attempt.header.prediction) if attempt.header else {},
        verdict=attempt.verdict,
        ratio=attempt.change.ratio if attempt.change else None,
        knobs=assignment_of(knobs),
    )
