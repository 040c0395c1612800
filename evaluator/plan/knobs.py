"""Knobs of a plan: numbers that a tuner may turn, whose value may depend on the scenario."""

from collections.abc import Mapping

from evaluator.expression import Value
from evaluator.plan.model import KnobSpec, Plan, Quantity
from evaluator.plan.section import Scope, Section
from population.candidate import Knob

MAX_CHOICES = 64
_FORM = "NAME = { value = 128, choices = [64, 128] }"


def read_knobs(table: Section, scope: Scope) -> tuple[KnobSpec, ...]:
    """The knobs of the [knobs] table; conditions see ``scope``. PlanError for a value that isn't among the choices."""
    found = []
    for name, value in table.values.items():
        if not isinstance(value, dict):
            raise table.error(f"a knob is a table; write {_FORM}", name)
        found.append(_read_knob(name, table.inner(name, f"knob {name}"), scope))
    return tuple(found)


def _read_knob(name: str, section: Section, scope: Scope) -> KnobSpec:
    section.only(("value", "when", "choices"))
    value = section.integer("value", section.need("value", _FORM))
    choices = section.need("choices", _FORM)
    if not isinstance(choices, list) or not 1 <= len(choices) <= MAX_CHOICES:
        raise section.error(f"must be a list of 1 to {MAX_CHOICES} integers", "choices")
    numbers = [section.integer("choices", choice) for choice in choices]
    if len(set(numbers)) < len(numbers):
        raise section.error("a value occurs twice; list each once", "choices")
    cases = _read_cases(section, scope)
    for number in (value, *(case for _, case in cases)):
        if number not in numbers:
            raise section.error(f"{number} isn't among choices {numbers}; add it there or choose another", "value")
    texts = tuple((condition.expression.text, case) for condition, case in cases)
    knob = Knob(name=name, value=value, choices=tuple(sorted(numbers)), cases=texts)
    return KnobSpec(knob=knob, cases=cases)


def _read_cases(section: Section, scope: Scope) -> tuple[tuple[Quantity, int], ...]:
    pairs = section.values.get("when", [])
    if not isinstance(pairs, list):
        raise section.error('must be a list of pairs, as in when = [["d == 64", 192]]', "when")
    cases = []
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise section.error('must be a list of pairs, as in when = [["d == 64", 192]]', "when")
        cases.append((section.quantity("when", pair[0], scope), section.integer("when", pair[1])))
    return tuple(cases)


def knobs_of(plan: Plan) -> tuple[Knob, ...]:
    """The plan's knobs in the order in which they are written."""
    return tuple(spec.knob for spec in plan.knobs)


def knob_values(specs: tuple[KnobSpec, ...], symbols: Mapping[str, Value], scenario: str) -> dict[str, int]:
    """The value of every knob in one scenario: that of the first case that holds, otherwise the plain value."""
    values = {}
    for spec in specs:
        held = (case for condition, case in spec.cases if condition.at(symbols, scenario))
        values[spec.knob.name] = next(held, spec.knob.value)
    return values
