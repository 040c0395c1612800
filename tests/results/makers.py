"""Makers of events for the tests of the store."""

from dataclasses import replace

from evaluator.outcome import Check, Device, Effort, Fault, Fitness, Outcome, Stage, Timing, Verdict
from evaluator.task_card import Scenario, TaskCard, TensorSpec
from mutators.question import Answer, Claim, Header, Layer, Moment, Question, Rejected, Rejection, Usage
from population.candidate import Candidate, Language, Origin, Step, hash_text
from results.events import (
    FinalMeasured,
    OutcomeMerged,
    RunStarted,
    StepAsked,
    StepEvaluated,
    StepFolded,
    StepMerged,
    StepPosed,
)
from results.store import Store

DEVICE = Device(kind="cpu", name="test", arch="none", cores=2, peak_tflops=1.0, peak_gbs=10.0, versions={"gcc": "12"})


def card() -> TaskCard:
    scenarios = tuple(Scenario(name=f"s{n}", symbols={"sq": 2**n, "dtype": "fp32"}) for n in range(3))
    tensor = TensorSpec(name="q", role="input", dtype="dtype", shape=("b", "sq"), axes=("b", "sq"))
    return TaskCard(
        name="toy",
        summary="a toy",
        contract="out = q",
        symbols=("sq", "dtype"),
        tensors=(tensor,),
        scalars={"scale": "a scale"},
        scenario_set="quick",
        scenarios=scenarios,
        regions=("all",),
        baselines=("torch",),
        hash="c0ffee",
    )


def started(**changes: object) -> RunStarted:
    values: dict[str, object] = {
        "name": "first",
        "config": {"seed": 7, "nested": {"on": True, "rate": 0.5, "names": ["a", "b"]}},
        "config_hash": "beef",
        "card": card(),
        "version": "0.1.0",
    }
    return RunStarted(**{**values, **changes})  # type: ignore[arg-type]


def candidate(text: str) -> Candidate:
    return Candidate(id=hash_text(text), normal_id=hash_text("n" + text), language=Language.CPP, source=text)


def question(entry: str = "tile_size", layer: Layer = Layer.SCHEDULE) -> Question:
    return Question(
        id=hash_text(entry),
        entry_id=entry,
        layer=layer,
        moment=Moment.ROUTINE,
        text=f"What does {entry} cost?",
        settle="time it",
        facts={"registers": 40, "pct": 3.5, "fast": True, "name": "x"},
    )


def posed(number: int, parent: str, prompt: str = "a prompt", *, entry: str = "tile_size") -> StepPosed:
    """A step that waits for its answer; ``parent`` is the parent's source."""
    step = Step(number=number, origin=Origin.QUESTION, island=number % 2, parent_id=hash_text(parent), candidate_id=None)
    return StepPosed(step=step, question=question(entry), prompt_hash=hash_text(prompt))


def asked(
    number: int,
    text: str | None,
    parent: str | None = None,
    *,
    entry: str = "tile_size",
    rejected: Rejection | None = None,
    duplicate_of: str | None = None,
    known: bool = False,
) -> StepAsked:
    """A step; ``text`` is the child's source and ``parent`` the parent's. ``known``: the candidate is not carried along."""
    seed = parent is None
    step = Step(
        number=number,
        origin=Origin.SEED if seed else Origin.QUESTION,
        island=number % 2,
        parent_id=None if parent is None else hash_text(parent),
        candidate_id=None if text is None else hash_text(text),
    )
    usage = Usage(prompt_tokens=100, answer_tokens=20, cost_usd=0.25, wall_s=1.5)
    return StepAsked(
        step=step,
        question=None if seed else question(entry),
        answer=None if seed else Answer(text="+++\n+++", answerer="test", usage=usage),
        header=None if seed else Header(hypothesis="tiles", prediction={"all": 1.1}, claim=Claim.NONE),
        rejected=Rejected(reason=rejected, message="write code") if rejected else None,
        candidate=None if text is None or known or duplicate_of else candidate(text),
        duplicate_of=duplicate_of,
    )


def fitness(geomean: float, width: float = 0.002) -> Fitness:
    return Fitness(
        opponent="torch",
        geomean=geomean,
        low=geomean * (1 - width),
        high=geomean * (1 + width),
        scenarios=3,
        worst_scenario="s1",
        worst_ratio=geomean * 0.9,
    )


def outcome(text: str, geomean: float | None = None, *, verdict: Verdict = Verdict.OK, effort: Effort = Effort.SEARCH) -> Outcome:
    check = Check(
        scenario="s1",
        distribution="normal",
        tensor="out",
        passed=geomean is not None,
        max_error=1e-6 if geomean else None,
        max_allowed=2e-6,
        rms_error=None,
        rms_allowed=1e-6,
    )
    ratio = geomean or 1.0
    timing = Timing(
        scenario="s1",
        opponent="torch",
        ratio=ratio,
        low=ratio,
        high=ratio,
        candidate_us=10.0,
        opponent_us=10.0 * ratio,
        blocks=8,
        floor_us=1.0,
        bound="bytes",
    )
    failed = verdict not in (Verdict.OK, Verdict.SLOWER)
    return Outcome(
        candidate_id=hash_text(text),
        effort=effort,
        verdict=verdict,
        stage=Stage.CHECK if failed else Stage.SCORE,
        message="as measured",
        device=DEVICE,
        task_hash="c0ffee",
        harness="1",
        wall_s=2.0,
        fault=Fault(verdict=verdict, stage=Stage.CHECK, message="look", detail="log") if failed else None,
        supported=("s0", "s1", "s2"),
        checks=(check,),
        timings=() if failed else (timing,),
        fitness=fitness(geomean) if geomean is not None else None,
        facts={"registers": 64, "spills_bytes": 0, "simd": True, "isa": "avx2"},
        noise_floor_pct=0.2,
    )


def evaluated(number: int, text: str, geomean: float | None = None, *, verdict: Verdict = Verdict.OK) -> StepEvaluated:
    return StepEvaluated(step_number=number, outcome=outcome(text, geomean, verdict=verdict))


def folded(number: int, best: str | None, *, accepted: bool = False, status: str = "not_added") -> StepFolded:
    return StepFolded(step_number=number, status=status, accepted=accepted, best_id=best and hash_text(best))


def final(text: str, geomean: float | None = None, *, verdict: Verdict = Verdict.OK) -> FinalMeasured:
    return FinalMeasured(outcome=outcome(text, geomean, verdict=verdict, effort=Effort.FINAL))


def merged_step(number: int, text: str, parent: str | None = None) -> StepMerged:
    """A step of another run."""
    step = asked(number, text, parent)
    return StepMerged(asked=replace(step, candidate=None), candidate=step.candidate, came_from="other")


def merged(text: str, found: Outcome, *, comparable: bool = False) -> OutcomeMerged:
    """An outcome that came home."""
    return OutcomeMerged(candidate=candidate(text), outcome=found, came_from="other", comparable=comparable)


def fill(store: Store) -> None:
    """A small run: two seeds, one gain, one failure, one rejection, one duplicate, one waiting, one verified."""
    store.append(asked(0, "seed a"), evaluated(0, "seed a", 1.0), folded(0, "seed a", status="best"))
    store.append(asked(1, "seed b"), evaluated(1, "seed b", 0.5), folded(1, "seed a", status="added"))
    store.append(asked(2, "child", "seed a"), evaluated(2, "child", 1.5), folded(2, "child", accepted=True, status="best"))
    store.append(asked(3, "broken", "child"), evaluated(3, "broken", verdict=Verdict.WRONG), folded(3, "child"))
    store.append(asked(4, None, "child", entry="spills", rejected=Rejection.NO_CODE), folded(4, "child"))
    store.append(asked(5, "child", "seed b", duplicate_of=hash_text("child")), folded(5, "child"))
    store.append(asked(6, "late", "child", entry="spills"), final("child", 1.45))
