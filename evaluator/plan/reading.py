"""Finds the plan comment in a source, reads its TOML, and remembers on which line each key stands."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from evaluator.expression import Expression, ExpressionError, Value, parse
from evaluator.plan.model import SYMBOL_DTYPES, PlanError, Quantity

MAX_SOURCE_BYTES = 256 * 1024
MAX_PLAN_BYTES = 16 * 1024
_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\s-]+?)\s*\]")
_KEY = re.compile(r"""\s*["']?([A-Za-z0-9_-]+)["']?\s*(?:=|\.)""")
_OPENING = re.compile(r"[ \t]*/\* plan(?:(?!\S)|(?=\*/))")
_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)|\(at end of document\)")
Path = tuple[str | int, ...]


def plan_text(source: str) -> tuple[str, int]:
    """The text inside the plan comment and the source line (from 1) of its first character. PlanError if there is none."""
    _check_source(source)
    start, line = 0, 1
    for text in source.split("\n"):
        if _OPENING.match(text):
            break
        if text.strip() and not text.lstrip().startswith("//"):
            raise PlanError(_no_plan_here(text), line)
        start += len(text) + 1
        line += 1
    else:
        raise PlanError("the source has no plan; begin it with a comment `/* plan ... */` that holds at least one [[launch]]", 1)
    opening = _OPENING.match(source, start)
    assert opening is not None
    end = source.find("*/", opening.end())
    if end < 0:
        raise PlanError("the plan comment is never closed; end it with `*/`", line)
    body = source[opening.end() : end]
    if len(body.encode()) > MAX_PLAN_BYTES:
        raise PlanError(f"the plan has {len(body.encode())} bytes; at most {MAX_PLAN_BYTES} are allowed", line)
    _check_only_one(source, end + 2)
    return body, line


def _check_source(source: str) -> None:
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        line = source.count("\n", 0, error.start) + 1
        raise PlanError("a character that isn't valid UTF-8; save the file as UTF-8", line) from None
    if size > MAX_SOURCE_BYTES:
        raise PlanError(f"the source has {size} bytes; at most {MAX_SOURCE_BYTES} are allowed", 1)
    if "\0" in source:
        line = source.count("\n", 0, source.index("\0")) + 1
        raise PlanError("a NUL byte; a source is plain text, remove it", line)
    if source.startswith("\ufeff"):
        raise PlanError("the file begins with a byte-order mark; save it as UTF-8 without one", 1)


def _no_plan_here(text: str) -> str:
    if re.match(r"\s*/\*+\s*plan\b", text, re.IGNORECASE):
        return "the plan comment must begin with exactly `/* plan`, in lower case with one space"
    if re.match(r"\s*/\*", text):
        return "the first block comment must begin `/* plan`; put the plan before every other block comment"
    return "code before the plan; only // lines and blank lines may stand before the comment `/* plan ... */`"


def _check_only_one(source: str, start: int) -> None:
    for number, text in enumerate(source[start:].split("\n")):
        if _OPENING.match(text):
            line = source.count("\n", 0, start) + 1 + number
            raise PlanError("a second comment begins `/* plan`; there is exactly one plan, so merge or reword this one", line)


def load_table(body: str, first_line: int) -> dict[str, object]:
    """The TOML of a plan. PlanError with the line in the source and a hint for the usual slips."""
    try:
        return tomllib.loads(body)
    except RecursionError:
        raise PlanError("the plan's TOML is nested too deeply", first_line) from None
    except ValueError as error:
        lines = body.split("\n")
        found = _AT_LINE.search(str(error))
        number = int(found[1]) if found and found[1] else len(lines)
        problem = _AT_LINE.sub("", str(error)).strip()
        hint = _toml_hint(lines[number - 1], at_end=number == len(lines))
        raise PlanError(f"the plan isn't valid TOML: {problem[:200]}{hint}", first_line + number - 1) from None


def _toml_hint(line: str, *, at_end: bool) -> str:
    if re.match(r"\s*(//|/\*)", line):
        return "; comments in the plan begin with #"
    if at_end:
        return "; the plan ends at the first `*/`, so that can't stand inside it"
    if re.search(r"=\s*(\[.*)?[A-Za-z_(]", line) and line.count('"') < 2:
        return '; expressions and names stand in quotes, as in grid = ["ceil_div(sq, 64)", "h", "b"]'
    return ""


def key_lines(body: str, first_line: int) -> dict[Path, int]:
    """The source line of each table and key, by path; the n-th [[launch]] has the path ("launch", n)."""
    lines: dict[Path, int] = {(): first_line}
    table: Path = ()
    counts: dict[str, int] = {}
    for number, text in enumerate(body.split("\n"), first_line):
        if header := _HEADER.match(text):
            table = tuple(part.strip() for part in header[2].split("."))
            if header[1] == "[[":
                name = str(table[0])
                table = (name, counts.get(name, 0))
                counts[name] = counts.get(name, 0) + 1
            lines.setdefault(table, number)
        elif key := _KEY.match(text):
            lines.setdefault((*table, key[1]), number)
    return lines


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint "; did you mean `x`?" where a known name is close, otherwise nothing."""
    near = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which names an expression may use; ``others`` says what a name outside it is."""

    allowed: frozenset[str]
    title: str
    others: Mapping[str, str]

    def problem(self, expression: Expression) -> str | None:
        """What is wrong with the names and quoted texts of an expression, or None."""
        for name in sorted(expression.names - self.allowed):
            if name in self.others:
                return f"`{name}` is {self.others[name]}, and only {self.title} may be used here"
            hint = nearest(name, self.allowed)
            listed = "" if hint else f"; the names here are {', '.join(sorted(self.allowed))}"
            return f"unknown name `{name}`{hint}{listed}"
        for text in sorted(expression.texts - set(SYMBOL_DTYPES)):
            return f"`dtype` is never '{text}'; it is one of {', '.join(SYMBOL_DTYPES)}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One table of the plan with what its messages need. ``title`` is how messages call it, such as "launch 1 (attention)"."""

    values: Mapping[str, object]
    path: Path
    title: str
    lines: Mapping[Path, int]

    def line(self, *path: str | int) -> int:
        """The source line of a key, or of the nearest table around it."""
        whole = (*self.path, *path)
        for length in range(len(whole), 0, -1):
            if whole[:length] in self.lines:
                return self.lines[whole[:length]]
        return self.lines[()]

    def error(self, problem: str, key: str | None = None) -> PlanError:
        """A PlanError about a key of this table, or about the table."""
        place = " of ".join(part for part in (key, self.title) if part)
        return PlanError(f"{place}: {problem}", self.line() if key is None else self.line(key))

    def only(self, keys: Iterable[str]) -> None:
        """Refuse keys that the format doesn't have."""
        keys = tuple(keys)
        for key in self.values:
            if key not in keys:
                raise self.error(f"unknown key{nearest(key, keys)} (known: {', '.join(keys)})", key)

    def inner(self, key: str, title: str) -> "Section":
        """The table under a key; empty where it is absent."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.error("must be a table { name = value, ... }", key)
        return Section(values=value, path=(*self.path, key), title=title, lines=self.lines)

    def need(self, key: str, example: str) -> object:
        """The value of a key that must be there."""
        if key not in self.values:
            raise self.error(f"`{key}` is missing; write {example}")
        return self.values[key]

    def flag(self, key: str) -> bool:
        """true or false; false where absent."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.error("must be true or false, without quotes", key)
        return value

    def word(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """One of ``choices``."""
        value = self.need(key, f'{key} = "{choices[0]}"') if default is None else self.values.get(key, default)
        if not isinstance(value, str) or value not in choices:
            hint = nearest(value, choices) if isinstance(value, str) else ""
            raise self.error(f"must be one of {', '.join(repr(choice) for choice in choices)}{hint}", key)
        return value

    def integer(self, key: str, value: object) -> int:
        """A plain integer of at most 64 bits."""
        if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
            raise self.error("must be a plain integer of at most 64 bits", key)
        return value

    def quantity(self, key: str, value: object, scope: Scope, label: str | None = None) -> Quantity:
        """An integer or a quoted expression under a key."""
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise self.error('must be an integer or a quoted expression such as "ceil_div(sq, 64)"', label or key)
        place = " of ".join(part for part in (label or key, self.title) if part)
        line = self.line(key)
        try:
            expression = parse(value if isinstance(value, str) else str(self.integer(key, value)))
        except ExpressionError as error:
            raise PlanError(f"{place}: {error}", line) from None
        if problem := scope.problem(expression):
            shown: Value = value if len(str(value)) <= 80 else str(value)[:77] + "..."
            raise PlanError(f"{place}: {problem} in `{shown}`", line)
        return Quantity(expression=expression, place=place, line=line)

    def quantities(self, key: str, value: object, scope: Scope, most: int) -> tuple[Quantity, ...]:
        """A list of one to ``most`` integers or expressions."""
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            raise self.error(f'must be a list of 1 to {most} integers or expressions, such as ["b", 2]', key)
        return tuple(self.quantity(key, item, scope, label=f"{key}[{index}]") for index, item in enumerate(value))
