"""The launch plan as it is written: every expression parsed, no number worked out yet."""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluator.expression import Expression, ExpressionError, Value
from evaluator.outcome import Fault, Stage, Verdict
from population.candidate import Knob, Language

DTYPE_BYTES: Mapping[str, int] = {"bf16": 2, "fp16": 2, "fp32": 4, "float32": 4, "int32": 4}
"""Bytes an element takes, by every dtype name that tensors and workspaces may have."""

SYMBOL_DTYPES = ("bf16", "fp16", "fp32")
"""The values that the symbol ``dtype`` may take."""

DEVICE_FACTS = ("sm_count", "shared_limit")
"""Device facts that plan expressions may use."""

MAX_MESSAGE = 600


class PlanError(Exception):
    """A plan that can't be used. Raised inside this package only; its functions return it as a Fault."""

    def __init__(self, message: str, line: int, scenario: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.scenario = scenario

    def fault(self) -> Fault:
        """The error as a PLAN_ERROR of the screen stage: one printable line of at most MAX_MESSAGE characters."""
        text = "".join(letter if letter.isprintable() else "?" for letter in " ".join(self.message.split()))
        return Fault(
            verdict=Verdict.PLAN_ERROR,
            stage=Stage.SCREEN,
            message=f"line {self.line}: {text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 3] + '...'}",
            scenario=self.scenario,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """An integer of the plan: its expression, what it is for (for messages), and its line in the source."""

    expression: Expression
    place: str
    line: int

    def at(self, names: Mapping[str, Value], scenario: str) -> int:
        """The value with these names. PlanError naming place and scenario."""
        try:
            return self.expression.integer(names)
        except ExpressionError as error:
            raise self.error(str(error), scenario) from None

    def error(self, problem: str, scenario: str) -> PlanError:
        """A PlanError about this quantity that names the scenario that shows it."""
        return PlanError(f"{self.place}: {problem} (scenario {scenario})", self.line, scenario)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobSpec:
    """A knob with its conditions parsed: the first case that holds gives the value, otherwise ``knob.value``."""

    knob: Knob
    cases: tuple[tuple[Quantity, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSpec:
    """Scratch memory. ``dtype`` is a name of DTYPE_BYTES or the symbol "dtype"; ``init`` "poison" or "zero"."""

    name: str
    dtype: str
    shape: tuple[Quantity, ...]
    init: str
    self_resetting: bool
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMapSpec:
    """A TMA descriptor over ``tensor`` with its ``axes``, outermost first.

    ``split`` maps an axis to its inner size; ``box`` maps axes, after splitting, to extents in the order written.
    """

    name: str
    tensor: str
    axes: tuple[str, ...]
    split: Mapping[str, Quantity]
    box: Mapping[str, Quantity]
    swizzle: str
    l2_promotion: int
    interleave: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """One kernel launch; ``when`` is None where it always applies, sizes have three entries (x, y, z)."""

    kernel: str
    when: Quantity | None
    grid: tuple[Quantity, ...]
    block: tuple[Quantity, ...]
    cluster: tuple[Quantity, ...]
    cooperative: bool
    shared: Quantity
    args: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole launch plan, valid as far as it can be judged without a scenario. ``line`` is where it starts."""

    language: Language
    domain: Quantity
    knobs: tuple[KnobSpec, ...]
    constants: Mapping[str, Quantity]
    fast_math: bool
    maxrregcount: int | None
    nondeterministic: bool
    workspaces: Mapping[str, WorkspaceSpec]
    tensor_maps: Mapping[str, TensorMapSpec]
    scalars: Mapping[str, Quantity]
    launches: tuple[LaunchSpec, ...]
    line: int
