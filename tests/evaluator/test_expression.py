"""Expressions: what they give, what they refuse, and that nothing exceeds its bounds."""

import operator
import re
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.expression import ExpressionError, Mode, UnknownNameError, Value, parse
from evaluator.expression_parser import MAX_LENGTH

NAMES = {"sq": 1000, "d": 128, "zero": 0, "negative": -7, "dtype": "bf16", "big": 2**62}
FACTS = {"gain_pct": 3.5, "uses_mma": True, "verdict": "WRONG", "registers": 168, "nan": float("nan")}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ceil_div(sq, 64)", 16),
        ("ceil_div(negative, 2)", -3),
        ("negative // 2", -4),
        ("negative % 4", 1),
        ("d / 64", 2),
        ("1 + 2 * 3 - 4 // 3", 6),
        ("-(1 + 2) * +3", -9),
        ("- -d", 128),
        ("max(1, min(sq, d), 3)", 128),
        ("d in [64, 128]", 1),
        ("d not in [64, 128,]", 0),
        ("64 <= d < 128 or d == 128 and not zero", 1),
        ("1 < d < 100", 0),
        ("dtype == 'bf16'", 1),
        ('dtype in ["fp16", "fp32"]', 0),
        ("'bf16' != dtype", 0),
        ("1 if d == 64 else 2 if d == 128 else 3", 2),
        ("zero and sq // zero", 0),
        ("d or sq // zero", 1),
        ("sq // zero if zero else 5", 5),
        ("(d == 128) + (d == 64)", 1),
        ("big + (big - 1)", 2**63 - 1),
    ],
)
def test_integer_value(text: str, value: int) -> None:
    found = parse(text).evaluate(NAMES)
    assert (found, type(found)) == (value, int)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("sq // zero", "division by zero in `sq // zero` with sq = 1000, zero = 0"),
        ("sq % zero", "division by zero"),
        ("ceil_div(sq, zero)", "division by zero"),
        ("sq / 3", "1000 / 3 isn't whole"),
        ("big + big", "a value beyond 64 bits"),
        ("0 - big - big - 1", "a value beyond 64 bits"),
        ("half + 1", "unknown name `half`"),
        ("sqq", "unknown name `sqq`; did you mean `sq`?"),
    ],
)
def test_integer_error_on_evaluation(text: str, phrase: str) -> None:
    expression = parse(text)
    with pytest.raises(ExpressionError, match=re.escape(phrase)):
        expression.evaluate(NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "1 2", "(1", "1)", "min(1)", "f(1)", "a.b", "a[0]", "[1]", "x if y", "lambda: 1", "1; 2",
        "a = 1", "a := 1", "2 ** 9", "1 << 70", "~1", "a & b", "a | b", "a ^ b", "!a", "a ? b : c", "'text'",
        "dtype", "dtype + 1", "dtype < 'z'", "dtype == d", "'a' == 'b'", "d == 'a'", "min('a', 'b')",
        "d in ['a']", "dtype in [1]", "d in []", "d in 64", "d in [1] == 1", "1.5", "1e3", "0x10", "10u",
        "9223372036854775808", "not", "and", "d and", "in [1]", "'open", "\u00b2", "\u0663", "\0",
        "min(1,,2)", "ceil_div(1, 2, 3)", "__import__('os')", "a if b else", "f\"{d}\"",
    ],
)  # fmt: skip
def test_integer_mode_refuses(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("gain_pct > 3", True),
        ("uses_wgmma or uses_mma", UnknownNameError),
        ("uses_mma or uses_wgmma", True),
        ("uses_mma and registers >= 168.0", True),
        ("verdict == 'WRONG' and gain_pct / 2 < 1.75 + 1e-9", True),
        ("verdict in ['OK', 'SLOWER']", False),
        ("registers / 5 > 33.5", True),
        ("registers // 5", 33),
        ("registers", 168),
        ("verdict > 1", ExpressionError),
        ("verdict", "WRONG"),
        ("not verdict", ExpressionError),
        ("verdict + 1", ExpressionError),
        ("gain_pct / 0", ExpressionError),
        ("gain_pct * 1e308 * 10", ExpressionError),
        ("nan > 1", ExpressionError),
        ("1e999", ExpressionError),
        ("0x10", ExpressionError),
    ],
)
def test_facts_mode(text: str, value: object) -> None:
    if isinstance(value, type):
        with pytest.raises(value):
            parse(text, Mode.FACTS).evaluate(FACTS)
    else:
        assert parse(text, Mode.FACTS).evaluate(FACTS) == value


def test_unknown_name_carries_the_name() -> None:
    with pytest.raises(UnknownNameError) as caught:
        parse("uses_wgmma or uses_mma", Mode.FACTS).evaluate(FACTS)
    assert caught.value.name == "uses_wgmma"


def test_names_and_texts_are_listed() -> None:
    found = parse("ceil_div(sq, BLOCK) if dtype in ['bf16'] else min(d, 2)")
    assert (found.names, found.texts) == ({"sq", "BLOCK", "dtype", "d"}, {"bf16"})


TERMS = st.recursive(
    st.integers(0, 10**6).map(str) | st.sampled_from(["sq", "d", "negative"]),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "<", "==", "and", "or"]), inner).map(
        lambda parts: f"({' '.join(parts)})"
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(text=TERMS)
def test_arithmetic_agrees_with_python(text: str) -> None:
    """Within 64 bits the value is Python's, comparisons and logic counted as 0 or 1."""
    names = {"sq": 1000, "d": 128, "negative": -7}
    mine = outcome(text, Mode.INTEGER, names)
    if isinstance(mine, str):
        assert re.search("division by zero|beyond 64 bits", mine)
    else:
        assert mine == walked(text, names)


def outcome(text: str, mode: Mode, names: Mapping[str, Value]) -> Value | str:
    """The value, or the text of the error; texts as values are quoted."""
    try:
        value = parse(text, mode).evaluate(names)
    except ExpressionError as error:
        return str(error)
    return repr(value) if isinstance(value, str) else value


def walked(text: str, names: dict[str, int]) -> int:
    """The value of a fully bracketed term, by splitting at its outermost operator."""
    if not text.startswith("("):
        return names[text] if text in names else int(text)
    depth = 0
    for found in re.finditer(r"[()]| (\S+) ", text[1:-1]):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0 and found[1]:
            left = walked(text[1 : 1 + found.start()], names)
            right = text[1 + found.end() : -1]
            if found[1] == "and":
                return int(left != 0 and walked(right, names) != 0)
            if found[1] == "or":
                return int(left != 0 or walked(right, names) != 0)
            operators = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
            compared = {"<": operator.lt, "==": operator.eq}
            return int((operators | compared)[found[1]](left, walked(right, names)))
    raise AssertionError(text)


WORDS = (
    "sq d dtype 'bf16' 0 1 7 9223372036854775807 + - * / // % ( ) [ ] , < == != in not and or if else min max ceil_div ** . 1.5"
)
SOUP = st.lists(st.sampled_from(WORDS.split()), max_size=40).map(" ".join)


@settings(deadline=None)
@given(text=SOUP | st.text(max_size=60), mode=st.sampled_from(Mode))
def test_any_text_gives_a_bounded_value_or_an_error_with_a_text(text: str, mode: Mode) -> None:
    found = outcome(text, mode, NAMES)
    if isinstance(found, str):
        assert found.strip()
    else:
        assert isinstance(found, float) or -(2**63) <= found < 2**63
        assert mode is Mode.FACTS or type(found) is int


@pytest.mark.parametrize(
    "part", ["(", "-", "not ", "min(1,", "1+", "1*", "1 if 1 else ", "d in [", "1<", "'", "aa9", "9", "**", " "]
)
def test_long_texts_are_refused(part: str) -> None:
    for text in (part * (MAX_LENGTH // len(part)), part * 10**6):
        assert isinstance(outcome(text, Mode.INTEGER, NAMES), str)


def test_expressions_of_the_greatest_size_are_evaluated() -> None:
    assert parse("+".join(["1"] * 100)).evaluate({}) == 100
    assert parse("(" * 39 + "1" + ")" * 39).evaluate({}) == 1
