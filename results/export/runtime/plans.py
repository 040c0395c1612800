"""Works out a kernel's launch plan for a call, with the same code that the search used."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._plan.candidate import Language
from ._plan.model import Plan
from ._plan.outcome import Fault
from ._plan.parse import parse_plan
from ._plan.resolve import resolve
from ._plan.resolved import Resolved
from ._plan.task_card import Scenario, TaskCard, TensorSpec
from .errors import CannotRun

MOST_REMEMBERED = 4096


def card_of(task: Mapping[str, Any]) -> TaskCard:
    """The task's card from ``task.json``, without scenarios."""
    tensors = tuple(
        TensorSpec(name=t["name"], role=t["role"], dtype=t["dtype"], shape=tuple(t["shape"]), axes=tuple(t["axes"]))
        for t in task["tensors"]
    )
    return TaskCard(
        name=task["name"],
        summary=task["summary"],
        contract=task["contract"],
        symbols=tuple(task["symbols"]),
        tensors=tensors,
        scalars=task["scalars"],
        scenario_set=task["scenario_set"],
        scenarios=(),
        regions=tuple(task["regions"]),
        baselines=(),
        hash=task["hash"],
    )


class Plans:
    """A kernel's plan, parsed once; ``at`` remembers what it worked out for the last few thousand different calls.

    ``kernel`` is the document ``kernel.json`` that lies in ``folder``. CannotRun where the source holds no plan.
    """

    def __init__(self, folder: Path, kernel: Mapping[str, Any]) -> None:
        self._card = card_of(kernel["task"])
        self._facts = kernel["device_facts"]
        self._where = str(folder / kernel["source"])
        source = (folder / kernel["source"]).read_text(encoding="utf-8")
        plan = parse_plan(source, Language(kernel["language"]), self._card)
        if isinstance(plan, Fault):
            raise CannotRun(f"the kernel's plan can't be read: {plan.message}", self._where, "Export the kernel again.")
        self.plan: Plan = plan
        self._known: dict[tuple[Any, ...], Resolved] = {}

    def at(self, symbols: Mapping[str, int | str], scalars: Mapping[str, float]) -> Resolved:
        """The plan for these symbols (``dtype`` among them) and float scalars. CannotRun with the plan's own message."""
        key = (*symbols.values(), *scalars.values())
        found = self._known.get(key)
        if found is None:
            scenario = Scenario(name="this call", symbols=dict(symbols))
            worked_out = resolve(self.plan, self._card, scenario, self._facts, scalars)
            if isinstance(worked_out, Fault):
                raise CannotRun(f"the plan has no launch for this call: {worked_out.message}", self._where, "Change the shapes.")
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            found = self._known[key] = worked_out
        return found
