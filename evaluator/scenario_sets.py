"""Reads ``scenarios.toml``: sets of scenarios written out one by one, or as a grid in a compact notation.

The file holds ``[defaults]`` (values for symbols that a block doesn't give), ``[rows]`` (named lists of tables that several sets
share) and, for each set, one or more blocks ``[[sets.NAME]]``. A block makes one scenario for every combination of its axes:

* ``s = [512, 1024]`` is an axis over numbers; ``rows = [{ b = 32, s = 512 }, ...]`` or ``rows = "NAME"`` is an axis over
  tables whose values override the block's. The last axis of the block runs fastest.
* A text is an expression over the other values (``h = "2048 // d"``), except for ``dtype`` and ``label``, which are literal.
* Names that aren't symbols of the task (``s``, ``number``, ``label``) help expressions and names, then vanish.
* ``name`` is a template: ``{d}`` inserts a value, ``{s:k}`` writes 4096 as ``4k``, ``{causal:full|causal}`` picks the word whose
  place is the value.
"""

import itertools
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluator.expression import ExpressionError, parse
from evaluator.task_card import Scenario, SymbolValue

LITERAL = ("dtype", "label")


class ScenarioError(ValueError):
    """A scenario set that can't be read; the text names the set, the block and what to write."""


def expand(blocks: Sequence[Mapping[str, Any]], shared: Mapping[str, Any], symbols: Sequence[str]) -> tuple[Scenario, ...]:
    """The scenarios of a set's blocks in order, each with every symbol of the task, in region "all".

    ``shared`` is the whole file (for ``defaults`` and ``rows``). ScenarioError for a missing or unknown name, a bad expression
    or a name that occurs twice.
    """
    scenarios: list[Scenario] = []
    for number, block in enumerate(blocks, start=1):
        try:
            scenarios += [_scenario(values, symbols) for values in _combinations(block, shared)]
        except (ExpressionError, ScenarioError) as error:
            raise ScenarioError(f"block {number}: {error}") from None
    names = [scenario.name for scenario in scenarios]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ScenarioError(f"the name {twice[0]!r} occurs twice; add what differs to the block's name template")
    if not scenarios:
        raise ScenarioError("the set has no scenarios; add a block with at least a name and the symbols")
    return tuple(scenarios)


def _combinations(block: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One table of values for each combination of the block's axes."""
    axes: list[list[Mapping[str, Any]]] = []
    for key, value in block.items():
        if key == "rows":
            axes.append(_rows(value, shared))
        elif isinstance(value, list):
            axes.append([{key: item} for item in value])
        else:
            axes.append([{key: value}])
    for combination in itertools.product(*axes):
        values = dict(shared.get("defaults", {}))
        for table in combination:
            values.update(table)
        for table in combination:  # a row's values override the block's, wherever the block gives them
            if len(table) != 1:
                values.update(table)
        yield values


def _rows(value: Any, shared: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if isinstance(value, str):
        known = shared.get("rows", {})
        if value not in known:
            raise ScenarioError(f"rows = {value!r}, but [rows] holds {', '.join(known) or 'nothing'}")
        value = known[value]
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise ScenarioError("rows must be a list of tables, such as [{ b = 32, s = 512 }]")
    return list(value)


def _scenario(values: Mapping[str, Any], symbols: Sequence[str]) -> Scenario:
    worked: dict[str, SymbolValue] = {}
    for key in values:
        if key != "name":
            _work_out(key, values, worked, ())
    missing = [symbol for symbol in symbols if symbol not in worked]
    if missing:
        raise ScenarioError(f"no value for {', '.join(missing)}; give it in the block or in [defaults]")
    if not isinstance(values.get("name"), str):
        raise ScenarioError('no name; add a template such as name = "n{n}"')
    return Scenario(name=_Names().vformat(values["name"], (), worked), symbols={s: worked[s] for s in symbols})


def _work_out(key: str, values: Mapping[str, Any], worked: dict[str, SymbolValue], above: tuple[str, ...]) -> None:
    """Put the value of ``key`` into ``worked``, after the values that its expression needs."""
    if key in worked:
        return
    if key in above:
        raise ScenarioError(f"{' -> '.join((*above, key))} goes round in a circle")
    value = values[key]
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ScenarioError(f"{key} = {value!r}; write an integer, an expression in quotes, or a list of integers as an axis")
    if isinstance(value, int) or key in LITERAL:
        worked[key] = value
        return
    expression = parse(value)
    for name in sorted(expression.names):
        if name not in values:
            raise ScenarioError(f"{key} = {value!r} needs {name!r}, which has no value here")
        _work_out(name, values, worked, (*above, key))
    worked[key] = expression.integer(worked)


class _Names(string.Formatter):
    """Fills a name template."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if key not in kwargs:
            raise ScenarioError(f"the name template uses {{{key}}}, which has no value here")
        return kwargs[str(key)]

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "k":
            return f"{value // 1024}k" if value >= 1024 and value % 1024 == 0 else str(value)
        if "|" in format_spec:
            words = format_spec.split("|")
            if not 0 <= value < len(words):
                raise ScenarioError(f"the name template has {len(words)} words ({format_spec}) for the value {value}")
            return str(words[value])
        if format_spec:
            raise ScenarioError(f"the name template has {{:{format_spec}}}; known are {{x}}, {{x:k}} and {{x:word|word}}")
        return str(value)
