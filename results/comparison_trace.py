"""One run as a comparison sees it: how good its best was after so much spending, what became of its answers, and its terms."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evaluator.outcome import LEASE, NOT_REFUTING, Device, Outcome, Verdict
from evaluator.task_card import TaskCard
from mutators.question import Usage
from results.codec import rebuild
from results.events import (
    CONFIG_FACT,
    UNANSWERED,
    Event,
    FinalMeasured,
    RunNoted,
    StepAsked,
    StepEvaluated,
    StepFolded,
    TimeSpent,
)
from results.reader import Reader
from results.rows import StepRow

ONE_RUN = frozenset({"run.name", "run.seed", "mutation.style", "recorded.source", "task.name", "task.scenarios", "task.backend"})
"""Keys of a configuration that tell runs of a comparison apart, or that are looked at as task and device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where a run stood once a step's result was folded, or at its end: what was spent by then, and the best lower bound of the
    ratio to the baseline, None before there is one. ``answers`` counts folded answers, ``evaluations`` those of seeds too.
    """

    answers: int = 0
    evaluations: int = 0
    tokens: int = 0
    wall_s: float = 0.0
    gpu_s: float = 0.0
    usd: float = 0.0
    ratio: float | None = None


AXES: Mapping[str, str] = {
    "answers": "answers",
    "evaluations": "evaluations",
    "tokens": "tokens",
    "wall_s": "wall time, s",
    "gpu_s": "GPU time, s",
}
"""What a curve may run over, each a field of Point, and how an axis is labelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The best of a run against the baseline; ``verified``: by a final, else by the search that chose it."""

    ratio: float
    low: float
    high: float
    verified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What the steps of one layer or moment gave: asked, accepted, and the natural logarithm of all accepted ratios together."""

    key: str
    asked: int
    accepted: int
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A run in a comparison. ``seed`` pairs it with runs of other arms. ``stopped_by`` is None for one that goes on or crashed.

    ``rejections`` counts answers that made no candidate, duplicates among them, ``verdicts`` the evaluated ones.
    ``readded_share`` is the share of added lines that its lineage had deleted before, None where nothing was added.
    ``terms`` say under what it was measured, ``settings`` how it searched; runs that differ in the first have no common scale.
    """

    name: str
    arm: str
    style: str
    seed: int
    stopped_by: str | None
    points: tuple[Point, ...]
    best: Score | None
    accepted: int
    rejections: Mapping[str, int]
    verdicts: Mapping[str, int]
    layers: tuple[Gain, ...]
    moments: tuple[Gain, ...]
    noise_pct: float | None
    readded_share: float | None = None
    terms: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def last(self) -> Point:
        """Where it stands now."""
        return self.points[-1] if self.points else Point()


def trace_of(reader: Reader, arm: str | None = None, *, name: str | None = None, readded_share: float | None = None) -> Trace:
    """A run's trace; ``arm`` is its style and ``name`` its own where no others are given. Raises RunDamaged."""
    events = [recorded.event for recorded in reader.events()]
    info = reader.info()
    config = _config(info.config, events)
    style = str(config.get("mutation", {}).get("style", "question"))
    asked = [row for row in reader.steps() if row.question_id is not None]
    outcomes = [event.outcome for event in events if isinstance(event, StepEvaluated | FinalMeasured)]
    return Trace(
        name=name or info.name,
        arm=arm or style,
        style=style,
        seed=int(str(config.get("run", {}).get("seed", 0))),
        stopped_by=None if info.live else info.stopped_by,
        points=tuple(_points(events, len(info.card.scenarios))),
        best=_best(reader),
        accepted=sum(bool(row.accepted) for row in asked),
        rejections=_counted(word for row in asked if (word := _no_candidate(row))),
        verdicts=_counted(row.verdict for row in asked if row.verdict),
        layers=_gains(asked, [row.layer for row in asked]),
        moments=_gains(asked, [row.moment for row in asked]),
        noise_pct=_noise(events),
        readded_share=readded_share,
        terms=_terms(info.card, outcomes),
        settings=_settings(config, info.version),
    )


def _config(started: Mapping[str, object], events: Sequence[Event]) -> dict[str, dict[str, object]]:
    """The configuration with its last change."""
    changed = [event.facts[CONFIG_FACT] for event in events if isinstance(event, RunNoted) and CONFIG_FACT in event.facts]
    last = changed[-1] if changed else started
    tables = last if isinstance(last, Mapping) else {}
    return {str(table): dict(keys) for table, keys in tables.items() if isinstance(keys, Mapping)}


def _points(events: Sequence[Event], scenarios: int) -> Iterator[Point]:
    """A point for each folded step, in order, and one for what was spent after the last of them.

    The ratio is that of the search's own best, which may be a seed with a wide interval but no such child. A candidate that a
    final refuted was never good, whenever that came out; then what was sure beside it counts.
    """
    refuted = {
        event.outcome.candidate_id
        for event in events
        if isinstance(event, FinalMeasured) and event.outcome.verdict not in NOT_REFUTING
    }
    now = told = Point()
    asked: set[int] = set()
    lows: dict[str, float] = {}
    sure: dict[int, str] = {}
    for event in events:
        match event:
            case StepAsked(step=step, answer=answer) if answer is not None:
                asked.add(step.number)
                now = _paid(now, answer.usage)
            case RunNoted(facts=facts) if UNANSWERED in facts:
                now = _paid(now, rebuild(Usage, facts[UNANSWERED]))
            case TimeSpent(wall_s=wall_s):
                now = replace(now, wall_s=now.wall_s + wall_s)
            case StepEvaluated(step_number=number, outcome=outcome):
                now = replace(_held(now, outcome), evaluations=now.evaluations + (outcome.verdict is not Verdict.HARNESS_FAULT))
                if outcome.candidate_id not in refuted and (low := _low(outcome, scenarios)) is not None:
                    lows[outcome.candidate_id] = low
                    sure |= {number: outcome.candidate_id} if outcome.verdict is Verdict.OK else {}
            case FinalMeasured(outcome=outcome):
                now = _held(now, outcome)
            case StepFolded(step_number=number, best_id=best_id):
                held = [lows.get(candidate_id) for candidate_id in (best_id, sure.get(number)) if candidate_id]
                known = [ratio for ratio in (now.ratio, *held) if ratio is not None]
                now = replace(now, answers=now.answers + (number in asked), ratio=max(known, default=None))
                told = now
                yield now
    if now != told:
        yield now


def _paid(now: Point, usage: Usage) -> Point:
    return replace(now, tokens=now.tokens + usage.prompt_tokens + usage.answer_tokens, usd=now.usd + usage.cost_usd)


def _held(now: Point, outcome: Outcome) -> Point:
    held_s = outcome.facts.get(LEASE, 0.0)
    return replace(now, gpu_s=now.gpu_s + float(held_s)) if isinstance(held_s, int | float) else now


def _low(outcome: Outcome, scenarios: int) -> float | None:
    """The lower bound of a candidate that is right in all scenarios, however wide its interval."""
    fitness = outcome.fitness
    right = outcome.verdict in (Verdict.OK, Verdict.AMBIGUOUS)
    return fitness.low if right and fitness is not None and fitness.scenarios == scenarios else None


def _best(reader: Reader) -> Score | None:
    """The score of the run's own headline; where that came home from elsewhere, of its own search's best."""
    row = reader.headline()
    if row is not None and row.step_number is None:
        row = reader.best()
    if row is None or row.low is None or row.geomean is None or row.high is None:
        return None
    final = reader.final(row.id)
    fitness = final.fitness if final is not None and final.verdict is Verdict.OK else None
    if fitness is not None:
        return Score(ratio=fitness.geomean, low=fitness.low, high=fitness.high, verified=True)
    return Score(ratio=row.geomean, low=row.low, high=row.high, verified=False)


def _counted(words: Iterable[str]) -> dict[str, int]:
    """How often each word comes, the commonest first."""
    return dict(Counter(words).most_common())


def _no_candidate(row: StepRow) -> str | None:
    """Why a step's answer made no candidate, None where it made one."""
    return row.rejection or ("duplicate" if row.duplicate_of is not None else None)


def _gains(rows: Sequence[StepRow], keys: Sequence[str | None]) -> tuple[Gain, ...]:
    """One for each key, the one that gained most first."""
    found = []
    for key in sorted({key for key in keys if key}):
        own = [row for row, of in zip(rows, keys, strict=True) if of == key]
        accepted, gain = sum(bool(row.accepted) for row in own), sum(row.gain or 0.0 for row in own)
        found.append(Gain(key=key, asked=len(own), accepted=accepted, gain=gain))
    return tuple(sorted(found, key=lambda gain: (-gain.gain, gain.key)))


def _noise(events: Sequence[Event]) -> float | None:
    """The noise floor of the run's last final, else the largest that its search met, in percent."""
    finals = [event.outcome.noise_floor_pct for event in events if isinstance(event, FinalMeasured)]
    searched = [event.outcome.noise_floor_pct for event in events if isinstance(event, StepEvaluated)]
    known = [floor for floor in finals if floor is not None][-1:] or [floor for floor in searched if floor is not None]
    return max(known, default=None)


def _terms(card: TaskCard, outcomes: Sequence[Outcome]) -> dict[str, str]:
    """What numbers must have in common to be compared at all."""
    opponents = dict.fromkeys(outcome.fitness.opponent for outcome in outcomes if outcome.fitness)
    harnesses = dict.fromkeys(outcome.harness for outcome in outcomes)
    devices = dict.fromkeys(_device(outcome.device) for outcome in outcomes)
    return {
        "task": f"{card.name} {card.hash[:10]}",
        "scenario set": f"{card.scenario_set} ({len(card.scenarios)})",
        "baseline": ", ".join(opponents),
        "harness": ", ".join(sorted(harnesses)),
        "device": "; ".join(sorted(devices)),
    }


def _device(device: Device) -> str:
    return f"{device.kind} {device.name} ({device.arch}, {device.cores} cores)"


def _settings(config: Mapping[str, Mapping[str, object]], version: str) -> dict[str, str]:
    """How a run searched, key by key."""
    keys = {f"{table}.{key}": repr(value) for table, of in config.items() for key, value in of.items()}
    return {**{key: value for key, value in keys.items() if key not in ONE_RUN}, "askevolve": version}
