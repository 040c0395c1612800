"""Finds the number of a knob in a plan's text, however the TOML is written, and the lines that an edit must quote."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mutators.blocks import Block

_PLAN = re.compile(r"^/\* plan[^\n]*\n(.*?)\*/", re.MULTILINE | re.DOTALL)
_INTEGER = re.compile(r"(?<![\w.+-])[+-]?\d[\d_]*(?![\w.])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One turnable number: a knob's plain value (``case`` None), or the value of its n-th ``when`` case."""

    name: str
    case: int | None = None


def change(source: str, target: Target, value: int) -> str | None:
    """The source with one number of its plan changed and nothing else, None where no single number does that.

    Found by trying: the number whose change alters the parsed plan in exactly the wanted place is the one, so inline
    tables, tables of their own, dotted keys and comments need no rules.
    """
    plan = _PLAN.search(source)
    if plan is None:
        return None
    text = plan[1]
    before = _parsed(text)
    old = _get(before, target) if before is not None else None
    if before is None or old is None:
        return None
    wanted = _with(before, target, value)
    for number in _INTEGER.finditer(text):
        if int(number[0]) == old:
            changed = text[: number.start()] + str(value) + text[number.end() :]
            if _parsed(changed) == wanted:
                return source[: plan.start(1)] + changed + source[plan.end(1) :]
    return None


def add_case(source: str, target: Target, condition: str, value: int) -> str | None:
    """The source with one more ``when`` pair of a knob and nothing else, None where no single insertion does that.

    The pair stands just before the case that the target names, or after the last one for the plain value: it takes away from
    the target alone. Found by trying, like ``change``.
    """
    plan = _PLAN.search(source)
    before = _parsed(plan[1]) if plan else None
    if plan is None or before is None or _get(before, target) is None:
        return None
    wanted = _with_case(before, target, condition, value)
    for at, piece in _insertions(plan[1], target.name, f"[{json.dumps(condition)}, {value}]"):
        changed = plan[1][:at] + piece + plan[1][at:]
        if _parsed(changed) == wanted:
            return source[: plan.start(1)] + changed + source[plan.end(1) :]
    return None


def without_values(source: str) -> tuple[str, object]:
    """The text around the plan, and the plan without the values of its knobs, None where it can't be read."""
    plan = _PLAN.search(source)
    parsed = _parsed(plan[1]) if plan else None
    if plan is None or parsed is None:
        return source, None
    knobs = parsed.get("knobs")
    if not isinstance(knobs, dict):
        return source[: plan.start()] + source[plan.end() :], parsed
    bare = {
        name: {key: one for key, one in knob.items() if key not in {"value", "when"}} if isinstance(knob, dict) else knob
        for name, knob in knobs.items()
    }
    return source[: plan.start()] + source[plan.end() :], {**parsed, "knobs": bare}


def _insertions(text: str, name: str, pair: str) -> Iterator[tuple[int, str]]:
    """Places where a ``when`` pair might be written, and what to write there: in a list, else behind the plain value."""
    for bracket in re.finditer(r"[\[\]]", text):
        yield bracket.start(), f"{pair}, " if bracket[0] == "[" else f", {pair}"
        yield bracket.start(), pair
    for number in _INTEGER.finditer(text):
        yield number.end(), f", when = [{pair}]"
        line_end = text.find("\n", number.end())
        yield line_end, f"\nwhen = [{pair}]"
        yield line_end, f"\n{name}.when = [{pair}]"


def block_between(before: str, after: str) -> Block:
    """The smallest SEARCH/REPLACE block that turns ``before`` into ``after``, with as many lines as make it match once.

    Both have the same number of lines.
    """
    old, new = before.split("\n"), after.split("\n")
    changed = [index for index, (left, right) in enumerate(zip(old, new, strict=True)) if left != right]
    first, last = changed[0], changed[-1]
    while first > 0 and _count(old, old[first : last + 1]) > 1:
        first -= 1
    return Block(search=tuple(old[first : last + 1]), replace=tuple(new[first : last + 1]))


def _count(lines: Sequence[str], search: Sequence[str]) -> int:
    """How often the lines occur, white space at line ends aside."""
    wanted = [line.rstrip() for line in search]
    bare = [line.rstrip() for line in lines]
    return sum(bare[at : at + len(wanted)] == wanted for at in range(len(bare) - len(wanted) + 1))


def _parsed(text: str) -> Mapping[str, object] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _get(plan: Mapping[str, object], target: Target) -> int | None:
    knobs = plan.get("knobs")
    knob = knobs.get(target.name) if isinstance(knobs, dict) else None
    if not isinstance(knob, dict):
        return None
    try:
        value = knob["value"] if target.case is None else knob["when"][target.case][1]
    except (KeyError, IndexError, TypeError):
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _with(plan: Mapping[str, object], target: Target, value: int) -> Mapping[str, object]:
    knobs = plan["knobs"]
    assert isinstance(knobs, dict)
    knob = dict(knobs[target.name])
    if target.case is None:
        knob["value"] = value
    else:
        cases = [list(case) for case in knob["when"]]
        cases[target.case][1] = value
        knob["when"] = cases
    return {**plan, "knobs": {**knobs, target.name: knob}}


def _with_case(plan: Mapping[str, object], target: Target, condition: str, value: int) -> Mapping[str, object]:
    knobs = plan["knobs"]
    assert isinstance(knobs, dict)
    knob = knobs[target.name]
    cases = list(knob.get("when", []))
    cases.insert(len(cases) if target.case is None else target.case, [condition, value])
    return {**plan, "knobs": {**knobs, target.name: {**knob, "when": cases}}}
