"""Shared vocabulary of the evaluator: verdicts, checks, timings, fitness and the outcome of an evaluation.

Standard library only, so that every package may import it. All values are finite; where a measured value isn't,
the field is None.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """How an evaluation ended. Closed; each is documented in docs/verdicts.md."""

    OK = "OK"
    SLOWER = "SLOWER"
    DUPLICATE = "DUPLICATE"
    UNSUPPORTED = "UNSUPPORTED"
    PLAN_ERROR = "PLAN_ERROR"
    COMPILE_ERROR = "COMPILE_ERROR"
    COMPILE_LIMIT = "COMPILE_LIMIT"
    GATE_VIOLATION = "GATE_VIOLATION"
    LAUNCH_ERROR = "LAUNCH_ERROR"
    CRASH = "CRASH"
    TIMEOUT = "TIMEOUT"
    SANDBOX = "SANDBOX"
    WRONG = "WRONG"
    NONFINITE = "NONFINITE"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    OUT_OF_BOUNDS = "OUT_OF_BOUNDS"
    INPUT_MUTATED = "INPUT_MUTATED"
    STALE_OUTPUT = "STALE_OUTPUT"
    TOO_FAST = "TOO_FAST"
    AMBIGUOUS = "AMBIGUOUS"
    CANCELLED = "CANCELLED"
    HARNESS_FAULT = "HARNESS_FAULT"


NOT_REFUTING = frozenset({Verdict.OK, Verdict.AMBIGUOUS, Verdict.CANCELLED, Verdict.HARNESS_FAULT})
"""Verdicts of a final that don't say that the candidate is bad. After any other it can't be the best of a run."""


CHEATING: Mapping[Verdict, str] = {
    Verdict.SANDBOX: "a system call, a clock, a forged answer: no arithmetic needs them",
    Verdict.INPUT_MUTATED: "whoever writes an input can make it fit the answer, or leave a trace for the next execution",
    Verdict.TOO_FAST: "work was left out, and the checks before had let it pass",
}
"""Verdicts of a running candidate that tell of cheating rather than of a mistake, and why.

Not among them: STALE_OUTPUT (a forgotten element is the commonest mistake of all, and poison makes it useless as a cheat),
OUT_OF_BOUNDS, CRASH, NONDETERMINISTIC and WRONG, which mistakes bring about every day."""


class Stage(StrEnum):
    """The stages of the cascade in their order; an outcome names the one it left at."""

    RECOGNISE = "recognise"
    SCREEN = "screen"
    BUILD = "build"
    GATE = "gate"
    CHECK = "check"
    TIME = "time"
    SCORE = "score"


class Effort(StrEnum):
    """How much an evaluation examines: what the search needs, or everything before a number is published."""

    SEARCH = "search"
    FINAL = "final"


LEASE = "lease_s"
"""Fact of an outcome: seconds for which its evaluation had a GPU to itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A verdict other than OK with its evidence.

    ``message`` is one helpful sentence or two: what, where, and what to write or do instead. ``detail`` holds cleaned,
    capped evidence such as a compiler log. ``scenario`` is set where one scenario shows it. ``reaches`` says what a candidate
    that the gate refused reached for that lets it cheat: state that outlives a launch, a clock, a system call; else it is empty.
    """

    verdict: Verdict
    stage: Stage
    message: str
    detail: str = ""
    scenario: str | None = None
    reaches: str = ""

    @property
    def cheats(self) -> str:
        """Why this tells of cheating rather than of a mistake; empty where it doesn't. A wrong #include is a mistake."""
        return self.reaches or (CHEATING.get(self.verdict, "") if self.stage is not Stage.BUILD else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Correctness of one output tensor in one scenario under one input distribution.

    Errors are absolute, in the output's unit, against the float64 reference; ``max_allowed`` and ``rms_allowed`` are the
    derived tolerances. ``baseline_difference`` is the largest difference to the baseline's output. None: not finite, or not
    measured.
    """

    scenario: str
    distribution: str
    tensor: str
    passed: bool
    max_error: float | None
    max_allowed: float
    rms_error: float | None
    rms_allowed: float
    baseline_difference: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A paired race in one scenario: how many times faster than the opponent the candidate is.

    ``ratio`` is the median over blocks of opponent time / candidate time, with its interval ``low``..``high``; times are
    medians of one execution. In a final it may be several races between fresh processes: ``ratio`` is then the geometric mean of
    their medians, and the interval covers what varies between them too. ``floor_us`` is the physical bound and ``bound`` ("flop"
    or "bytes") which one rules. ``dropped`` counts blocks left out because something else disturbed the host.
    """

    scenario: str
    opponent: str
    ratio: float
    low: float
    high: float
    candidate_us: float
    opponent_us: float
    blocks: int
    floor_us: float
    bound: str
    ambiguous: bool = False
    dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """Geometric mean over scenarios of the ratios to one opponent, with its interval; ``low`` is what selection uses."""

    opponent: str
    geomean: float
    low: float
    high: float
    scenarios: int
    worst_scenario: str
    worst_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Where it was measured; numbers of different devices aren't compared.

    ``peak_tflops`` and ``peak_gbs`` give the physics floor. ``limits`` names protections that this host can't enforce.
    """

    kind: str
    name: str
    arch: str
    cores: int
    peak_tflops: float
    peak_gbs: float
    versions: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything one evaluation found out about one candidate.

    ``fitness`` is against the primary baseline and exists only where every scenario of the declared domain is right and was
    timed; AMBIGUOUS keeps it (right and timed, but its interval is too wide to replace anything). ``versus`` holds further
    opponents: at finals other baselines where they compute a scenario, the "best of all" baselines, and the better seed.
    ``facts`` are compiler and launch facts with units in their names.
    ``supported`` names the scenarios of the set that the candidate claims. ``noise_floor_pct`` is the half-width of the
    session's A/A race (None: not run). ``controls`` are the session's races of the baseline against itself and against a
    copy that is known to be slower, their ``opponent`` saying which.
    """

    candidate_id: str
    effort: Effort
    verdict: Verdict
    stage: Stage
    message: str
    device: Device
    task_hash: str
    harness: str
    wall_s: float
    fault: Fault | None = None
    supported: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    timings: tuple[Timing, ...] = ()
    fitness: Fitness | None = None
    versus: tuple[Fitness, ...] = ()
    facts: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    noise_floor_pct: float | None = None
    controls: tuple[Timing, ...] = ()
    notes: tuple[str, ...] = ()
