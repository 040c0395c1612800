"""A table of the plan with its place in the source: typed access to keys, and messages that name key, table and line."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from evaluator.expression import Expression, ExpressionError, parse
from evaluator.expression_parser import shown
from evaluator.plan.model import SYMBOL_DTYPES, PlanError, Quantity
from evaluator.plan.text import Path


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
        whole = shown(expression.text)
        for name in sorted(expression.names - self.allowed):
            subject = f"`{name}`" if whole == f"`{name}`" else f"`{name}` in {whole}"
            if name in self.others:
                return f"{subject} is {self.others[name]}, and only {self.title} may be used here"
            hint = nearest(name, self.allowed)
            listed = "" if hint else f"; the names here are {', '.join(sorted(self.allowed))}"
            return f"unknown name {subject}{hint}{listed}"
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
        place = " of ".join(part[:80] for part in (key, self.title) if part) or "the plan"
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
            raise PlanError(f"{place}: {problem}", line)
        return Quantity(expression=expression, place=place, line=line)

    def quantities(self, key: str, value: object, scope: Scope, most: int) -> tuple[Quantity, ...]:
        """A list of one to ``most`` integers or expressions."""
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            raise self.error(f'must be a list of 1 to {most} integers or expressions, such as ["b", 2]', key)
        return tuple(self.quantity(key, item, scope, label=f"{key}[{index}]") for index, item in enumerate(value))
