"""Shared vocabulary: small expressions, read by a parser of their own and worked out within fixed bounds, never ``eval``-ed.

Standard library only, so that every package may import it. Two modes: ``Mode.INTEGER`` for launch plans (checked signed 64-bit
integers; ``dtype`` may be compared with quoted names) and ``Mode.FACTS`` for preconditions over measured facts (floats, texts
and booleans too). Both know ``+ - * / // %``, comparisons, ``in [..]``, ``and or not``, ``x if c else y``, and the functions
``ceil_div min max``. In integer mode ``/`` must divide exactly and a comparison gives 0 or 1.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from evaluator.expression_parser import (
    MAX_INTEGER,
    TEXT_SYMBOL,
    ExpressionError,
    Mode,
    Node,
    UnknownNameError,
    parse_tree,
    shown,
)

__all__ = ["TEXT_SYMBOL", "Expression", "ExpressionError", "Mode", "UnknownNameError", "Value", "parse"]

Value = int | float | str | bool
_Names = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression: its text, its mode, and the tree that ``evaluate`` walks."""

    text: str
    mode: Mode
    root: Node

    @property
    def names(self) -> frozenset[str]:
        """Every name that occurs."""
        return frozenset(str(node.value) for node in _walk(self.root) if node.kind == "name")

    @property
    def texts(self) -> frozenset[str]:
        """Every quoted text that occurs."""
        return frozenset(str(node.value) for node in _walk(self.root) if node.kind == "text")

    def evaluate(self, names: Mapping[str, Value]) -> Value:
        """The value with these names.

        ``and``, ``or`` and ``if`` work out only what they need. UnknownNameError for a missing name; ExpressionError for
        overflow, division by zero and mixed types, with the values that show it.
        """
        try:
            value = _Evaluation(names, self.mode).value(self.root)
        except UnknownNameError:
            raise
        except ExpressionError as error:
            raise ExpressionError(f"{error} in {shown(self.text)}{self._given(names)}") from None
        return int(value) if self.mode is Mode.INTEGER and isinstance(value, bool) else value

    def integer(self, names: Mapping[str, Value]) -> int:
        """The value of an expression in integer mode. Errors as ``evaluate``."""
        value = self.evaluate(names)
        if not isinstance(value, int):
            raise ExpressionError(f"{shown(self.text)} isn't an integer")
        return value

    def _given(self, names: Mapping[str, Value]) -> str:
        given = [f"{name} = {names[name]}" for name in sorted(self.names) if name in names]
        return f" with {', '.join(given[:8])}" if given else ""


@functools.lru_cache(4096)  # a task's own formulas are asked for thousands of times in one final
def parse(text: str, mode: Mode = Mode.INTEGER) -> Expression:
    """The expression in ``text``: at most 1000 characters, 200 operations and values, 40 levels of nesting.

    ExpressionError says what can't be read and what to write instead.
    """
    return Expression(text, mode, parse_tree(text, mode))


def _walk(node: Node) -> list[Node]:
    found = [node]
    for child in node.children:
        found += _walk(child)
    return found


@dataclass(frozen=True, slots=True)
class _Evaluation:
    names: _Names
    mode: Mode

    def value(self, node: Node) -> Value:
        match node.kind:
            case "number" | "text":
                return node.value
            case "name":
                return self.named(str(node.value))
            case "if":
                condition, chosen, other = node.children
                return self.value(chosen if self.truth(condition) else other)
            case "and":
                return all(self.truth(child) for child in node.children)
            case "or":
                return any(self.truth(child) for child in node.children)
            case "not":
                return not self.truth(node.children[0])
            case "compare":
                return self.compared(node)
        return self.checked(self.calculated(node))

    def named(self, name: str) -> Value:
        if name not in self.names:
            near = get_close_matches(name, self.names, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise UnknownNameError(f"unknown name `{name}`{hint}", name)
        value = self.names[name]
        return value if isinstance(value, str) else self.checked(value)

    def checked(self, value: int | float) -> int | float:
        if isinstance(value, int) and not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
            raise ExpressionError("a value beyond 64 bits")
        if isinstance(value, float):
            if self.mode is Mode.INTEGER:
                raise ExpressionError("a value that isn't an integer")
            if not math.isfinite(value):
                raise ExpressionError("a value that isn't finite")
        return value

    def truth(self, node: Node) -> bool:
        value = self.value(node)
        if isinstance(value, str):
            raise ExpressionError("a text where true or false is needed; compare it with ==")
        return value != 0

    def number(self, node: Node) -> int | float:
        value = self.value(node)
        if isinstance(value, str):
            raise ExpressionError("a text where a number is needed")
        return value

    def compared(self, node: Node) -> bool:
        left = self.value(node.children[0])
        for sign, other in zip(str(node.value).split(","), node.children[1:], strict=True):
            if other.kind == "list":
                members = [self.value(child) for child in other.children]
                return any(_holds("==", left, member) for member in members) is (sign == "in")
            right = self.value(other)
            if not _holds(sign, left, right):
                return False
            left = right
        return True

    def calculated(self, node: Node) -> int | float:
        values = [self.number(child) for child in node.children]
        match node.kind, values:
            case "negate", [value]:
                return -value
            case "+", [left, right]:
                return left + right
            case "-", [left, right]:
                return left - right
            case "*", [left, right]:
                return left * right
        if node.kind == "call" and node.value != "ceil_div":
            return min(values) if node.value == "min" else max(values)
        left, right = values
        if right == 0:
            raise ExpressionError("division by zero")
        if node.kind == "//":
            return left // right
        if node.kind == "%":
            return left % right
        if node.kind == "call":
            return -(-left // right)
        return self.quotient(left, right)

    def quotient(self, left: int | float, right: int | float) -> int | float:
        if self.mode is Mode.FACTS:
            return left / right
        if left % right:
            raise ExpressionError(f"{left} / {right} isn't whole (write `//` to round down or ceil_div to round up)")
        return int(left // right)


def _holds(sign: str, left: Value, right: Value) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        if not (isinstance(left, str) and isinstance(right, str)):
            raise ExpressionError("a text compared with a number")
        if sign not in ("==", "!="):
            raise ExpressionError(f"a text compared by `{sign}`; texts are compared by ==, != or in")
        return (left == right) is (sign == "==")
    match sign:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
    return left >= right
