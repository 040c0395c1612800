"""A kernel that candidates are measured against, as a task's ``baselines.py`` declares it.

Light on purpose: the process that runs a baseline imports this, the task's ``baselines.py`` and what that needs, nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evaluator.task_card import SymbolValue

Symbols = Mapping[str, SymbolValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A baseline bound to the buffers of one scenario.

    ``call`` computes once and is what the clock sees; it allocates its result as the library does. ``store`` copies the latest
    result into the output buffers, outside the clock. ``chosen`` names the variant that runs, where there are several.
    """

    call: Callable[[], object]
    store: Callable[[], None]
    chosen: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A named baseline.

    ``backend`` is "cpu" or "cuda". ``available()`` returns None, or one sentence that says what is missing; ``version()`` says
    exactly what runs, and is asked only where the baseline is available. ``supports(symbols)`` tells whether it computes a
    scenario. ``bind(symbols, inputs, outputs)`` gets the tensors by name: numpy arrays on "cpu" (bf16 as uint16), objects with
    DLPack on "cuda" (bf16 as uint16); it may prepare masks and views, which no clock sees. ``leaves_out`` names outputs that it
    doesn't compute and that aren't compared. ``best_of`` names other baselines of the task of which this one runs, scenario by
    scenario, the fastest: they are not raced beside it.
    """

    name: str
    backend: str
    available: Callable[[], str | None]
    version: Callable[[], str]
    supports: Callable[[Symbols], bool]
    bind: Callable[[Symbols, Mapping[str, Any], Mapping[str, Any]], Bound]
    leaves_out: tuple[str, ...] = ()
    best_of: tuple[str, ...] = ()
