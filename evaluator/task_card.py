"""Shared vocabulary of tasks: what is computed, in which scenarios. No code that computes it.

Standard library only, so that every package may import it. The card is written into the store at the start of a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

SymbolValue = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """A tensor of the task: shape as expressions over scenario symbols, ``dtype`` a literal or the symbol ``dtype``.

    ``role`` is "input" or "output". ``axes`` names the axes (by default the shape's own expressions), which tensor maps use.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[str, ...]
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One point of the grid: a unique readable name and a value for every symbol (integers; ``dtype`` a string)."""

    name: str
    symbols: Mapping[str, SymbolValue]
    region: str = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCard:
    """The contract of a task for people, prompts and readers of a run.

    ``contract`` is the text that a mutator reads. ``scalars`` maps float scalars that the host passes (such as ``scale``) to
    their description; integer symbols may be passed by name. ``scenarios`` are those of the set this run uses (``scenario_set``).
    ``regions`` are the names that predictions and goals may use, ``baselines`` the peers in order of preference.
    ``hash`` covers everything that decides a score (contract, scenarios, reference and tolerance code).
    """

    name: str
    summary: str
    contract: str
    symbols: tuple[str, ...]
    tensors: tuple[TensorSpec, ...]
    scalars: Mapping[str, str]
    scenario_set: str
    scenarios: tuple[Scenario, ...]
    regions: tuple[str, ...]
    baselines: tuple[str, ...]
    hash: str
    notes: Mapping[str, str] = field(default_factory=dict)
