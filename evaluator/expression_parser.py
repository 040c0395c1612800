"""Reads the text of an expression into a tree of nodes, within fixed bounds of length, size and depth.

Standard library only. ``evaluator.expression`` evaluates the tree; import from there.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum

MAX_LENGTH = 1000
MAX_NODES = 200
MAX_DEPTH = 40
MAX_INTEGER = 2**63 - 1
FUNCTIONS = ("ceil_div", "min", "max")
WORDS = ("and", "or", "not", "in", "if", "else")
TEXT_SYMBOL = "dtype"

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
    (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<text>'[^'\n]*'|"[^"\n]*")
  | (?P<sign>==|!=|<=|>=|//|(?!\*\*|<<|>>)[-+*/%<>()\[\],])
  | (?P<foreign>\*\*|<<|>>|&&|\|\||.)
  | (?P<end>\Z))""",
    re.ASCII | re.VERBOSE | re.DOTALL,
)
_INSTEAD = {
    "**": "write the product out, as in `d * d`",
    "<<": "multiply by a power of two",
    ">>": "divide with `//`",
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
    "?": "write `a if condition else b`",
    "=": "compare with `==`",
    "'": "close the quote",
    '"': "close the quote",
    ".": "attributes don't exist here; use plain names",
}


class Mode(StrEnum):
    """What values an expression may hold: checked 64-bit integers, or measured facts of any simple type."""

    INTEGER = "integer"
    FACTS = "facts"


class ExpressionError(ValueError):
    """An expression that can't be read or worked out; the text says what is wrong and what to write instead."""


class UnknownNameError(ExpressionError):
    """A name that has no value; ``name`` holds it."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. ``kind`` is an operator, "number", "text", "name", "list", "call", "compare" or "if".

    ``value`` is the literal, the name, or the operators of a comparison chain separated by commas.
    """

    kind: str
    children: tuple["Node", ...] = ()
    value: int | float | str = 0


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


def shown(text: str) -> str:
    """The text in back quotes on one line, cut to 80 characters."""
    flat = " ".join(text.split())
    return f"`{flat if len(flat) <= 80 else flat[:77] + '...'}`"


def parse_tree(text: str, mode: Mode) -> Node:
    """The tree of an expression. ExpressionError names the offending part and what to write instead."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression has at most {MAX_LENGTH} characters, this one has {len(text)}")
    if not text.strip():
        raise ExpressionError('the expression is empty; write a number or a name, such as "sq"')
    parser = _Parser(text, mode)
    root = parser.conditional()
    parser.expect_end()
    if mode is Mode.INTEGER:
        _check_texts(root, text)
    return root


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while True:
        found = _TOKEN.match(text, position)
        assert found is not None  # the pattern takes any character
        assert found.lastgroup is not None
        token = _Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup))
        if token.kind == "foreign":
            instead = _INSTEAD.get(token.text, "the operators are + - * // % == != < <= > >= and or not in if else")
            raise ExpressionError(f"{shown(token.text)} in {shown(text)} isn't part of an expression; {instead}")
        yield token
        if token.kind == "end":
            return
        position = found.end()


@dataclass(slots=True)
class _Parser:
    text: str
    mode: Mode
    tokens: list[_Token] = field(init=False)
    at: int = 0
    nodes: int = 0
    depth: int = 0

    def __post_init__(self) -> None:
        self.tokens = list(_tokens(self.text))

    def fail(self, what: str) -> ExpressionError:
        return ExpressionError(f"{what} in {shown(self.text)}")

    def make(self, kind: str, children: tuple[Node, ...] = (), value: int | float | str = 0) -> Node:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.fail(f"more than {MAX_NODES} operations and values; split the expression into several [scalars]")
        return Node(kind, children, value)

    def take(self, *texts: str) -> str | None:
        """The next token's text if it is one of these signs or words, and steps over it; otherwise None."""
        token = self.tokens[self.at]
        if token.kind in ("sign", "name") and token.text in texts:
            self.at += 1
            return token.text
        return None

    def expect(self, text: str, why: str) -> None:
        if self.take(text) is None:
            raise self.fail(f"expected `{text}` {why}, found {self.found()}")

    def expect_end(self) -> None:
        if self.tokens[self.at].kind != "end":
            raise self.fail(f"expected an operator or the end, found {self.found()}")

    def found(self) -> str:
        token = self.tokens[self.at]
        return "the end" if token.kind == "end" else shown(token.text)

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(f"more than {MAX_DEPTH} levels of nesting")

    def conditional(self) -> Node:
        self.enter()
        value = self.either()
        if self.take("if"):
            condition = self.either()
            self.expect("else", "after `a if condition`")
            value = self.make("if", (condition, value, self.conditional()))
        self.depth -= 1
        return value

    def either(self) -> Node:
        parts = [self.both()]
        while self.take("or"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else self.make("or", tuple(parts))

    def both(self) -> Node:
        parts = [self.negation()]
        while self.take("and"):
            parts.append(self.negation())
        return parts[0] if len(parts) == 1 else self.make("and", tuple(parts))

    def negation(self) -> Node:
        if not self.take("not"):
            return self.comparison()
        self.enter()
        node = self.make("not", (self.negation(),))
        self.depth -= 1
        return node

    def comparison(self) -> Node:
        parts, signs = [self.sum()], []
        while sign := self.take("==", "!=", "<=", ">=", "<", ">", "in", "not"):
            if sign == "not":
                self.expect("in", "after `not`")
                sign = "not in"
            signs.append(sign)
            parts.append(self.members() if sign.endswith("in") else self.sum())
        if not signs:
            return parts[0]
        if len(signs) > 1 and any(sign.endswith("in") for sign in signs):
            raise self.fail("`in` beside another comparison; put parentheses around it")
        return self.make("compare", tuple(parts), ",".join(signs))

    def members(self) -> Node:
        self.expect("[", "after `in`, as in `d in [64, 128]`")
        items = self.items("]")
        if not items:
            raise self.fail("an empty list after `in`; write at least one value")
        return self.make("list", items)

    def items(self, closing: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self.take(closing):
            if found:
                self.expect(",", f"or `{closing}`")
                if self.take(closing):
                    break
            found.append(self.conditional())
        return tuple(found)

    def sum(self) -> Node:
        value = self.product()
        while sign := self.take("+", "-"):
            value = self.make(sign, (value, self.product()))
        return value

    def product(self) -> Node:
        value = self.signed()
        while sign := self.take("*", "//", "/", "%"):
            value = self.make(sign, (value, self.signed()))
        return value

    def signed(self) -> Node:
        sign = self.take("-", "+")
        if sign is None:
            return self.atom()
        self.enter()
        value = self.signed()
        self.depth -= 1
        return self.make("negate", (value,)) if sign == "-" else value

    def atom(self) -> Node:
        token = self.tokens[self.at]
        if self.take("("):
            value = self.conditional()
            self.expect(")", "to close the parenthesis")
            return value
        if token.kind in ("end", "sign") or token.text in WORDS:
            raise self.fail(f"expected a value, found {self.found()}")
        self.at += 1
        if token.kind == "number":
            return self.make("number", value=self.number(token.text))
        if token.kind == "text":
            return self.make("text", value=token.text[1:-1])
        if self.take("("):
            return self.call(token.text)
        return self.make("name", value=token.text)

    def number(self, text: str) -> int | float:
        if text.isdigit():
            value = int(text)
            if value > MAX_INTEGER:
                raise self.fail(f"{shown(text)} doesn't fit in 64 bits")
            return value
        if self.mode is Mode.INTEGER:
            raise self.fail(f"{shown(text)} isn't a decimal integer; expressions of a plan hold integers only")
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self.fail(f"{shown(text)} isn't a number")
        return number

    def call(self, name: str) -> Node:
        if name not in FUNCTIONS:
            near = get_close_matches(name, FUNCTIONS, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise self.fail(f"`{name[:40]}` can't be called (only ceil_div, min and max can){hint}")
        items = self.items(")")
        if name == "ceil_div" and len(items) != 2:
            raise self.fail(f"ceil_div takes two values, found {len(items)}")
        if len(items) < 2:
            raise self.fail(f"{name} takes two values or more, found {len(items)}")
        return self.make("call", items, name)


def _check_texts(node: Node, text: str) -> None:
    """Refuse, in a plan, a quoted text or ``dtype`` anywhere but beside its counterpart in a comparison."""
    if node.kind == "text":
        raise ExpressionError(f"the text '{node.value}' can only be compared with `{TEXT_SYMBOL}`, in {shown(text)}")
    if _is_text(node):
        raise ExpressionError(f"`{TEXT_SYMBOL}` is a text; compare it, as in `{TEXT_SYMBOL} == 'bf16'`, in {shown(text)}")
    if node.kind != "compare":
        for child in node.children:
            _check_texts(child, text)
        return
    signs = str(node.value).split(",")
    for left, sign, right in zip(node.children, signs, node.children[1:], strict=False):
        others = right.children if right.kind == "list" else (right,)
        if not any(_is_text(part) for part in (left, *others)):
            for part in (left, *others):
                _check_texts(part, text)
            continue
        symbol, quoted = (left, others) if left.kind == "name" else (right, (left,))
        counterparts = symbol.kind == "name" and symbol.value == TEXT_SYMBOL and all(part.kind == "text" for part in quoted)
        if not counterparts or sign not in ("==", "!=", "in", "not in"):
            raise ExpressionError(
                f"a text is only compared with `{TEXT_SYMBOL}`, by ==, !=, in or not in, as in `{TEXT_SYMBOL} == 'bf16'`; "
                f"found `{sign}` in {shown(text)}"
            )


def _is_text(node: Node) -> bool:
    return node.kind == "text" or (node.kind == "name" and node.value == TEXT_SYMBOL)
