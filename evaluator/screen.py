"""The first stage of the cascade: everything about a source that can be known without compiling it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evaluator.outcome import Fault
from evaluator.plan.knobs import knobs_of
from evaluator.plan.model import Plan
from evaluator.plan.parse import parse_plan
from evaluator.plan.resolve import resolve, supported
from evaluator.plan.resolved import Resolved
from evaluator.task_card import Scenario, TaskCard
from population.candidate import Knob, Language


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """A valid plan with its knobs, the scenarios it claims, and the plan worked out for each of them in the same order."""

    plan: Plan
    knobs: tuple[Knob, ...]
    scenarios: tuple[Scenario, ...]
    resolved: tuple[Resolved, ...]


def screen(
    source: str,
    language: Language,
    card: TaskCard,
    device_facts: Mapping[str, int],
    scalars_of: Callable[[Scenario], Mapping[str, float]],
) -> Screened | Fault:
    """The screened source, or PLAN_ERROR or UNSUPPORTED. ``scalars_of`` gives the task's float arguments in a scenario."""
    plan = parse_plan(source, language, card)
    if isinstance(plan, Fault):
        return plan
    scenarios = supported(plan, card)
    if isinstance(scenarios, Fault):
        return scenarios
    resolved: list[Resolved] = []
    for scenario in scenarios:
        found = resolve(plan, card, scenario, device_facts, scalars_of(scenario))
        if isinstance(found, Fault):
            return found
        resolved.append(found)
    return Screened(plan=plan, knobs=knobs_of(plan), scenarios=scenarios, resolved=tuple(resolved))
