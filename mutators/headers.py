"""The statement that opens an answer: a small TOML table between two lines ``+++`` (docs/answers.md)."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mutators.answer_form import EXAMPLE_HYPOTHESIS, HEADER_FORM, without_examples
from mutators.fences import FENCE, closes
from mutators.question import Claim, Header, Rejected, Rejection
from mutators.wrappings import unwrapped

MAX_HYPOTHESIS_CHARS = 2000
MAX_CHANGE = 1000.0
"""A predicted ratio beyond this (or below its inverse) is a slip of the pen, not a prediction."""

_RULE = re.compile(r"\s*\+{3,}\s*")
_KEY = re.compile(r"^\s*(?:hypothesis|claim|prediction)\s*=", re.MULTILINE)
_TOML_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*toml[ \t]*", re.IGNORECASE)
_TRACE_OF_EDIT = re.compile(r"^\s*(?:<{5,10}|@@ |`{3}|~{3}|/\* plan|--- \S)", re.MULTILINE)
_QUOTES = str.maketrans("\u201c\u201d\u201e\u201f\u00ab\u00bb", '""""""')


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An answer taken apart: its header, the text after it, and whether the answerer says that nothing is left to try."""

    header: Header
    body: str
    exhausted: bool = False


def header_of(text: str) -> Header | Rejected:
    """The header of a raw answer, also where the edit below it is unusable; claims are read from here."""
    split = split_answer(text)
    return split if isinstance(split, Rejected) else split.header


def split_answer(text: str) -> Split | Rejected:
    """Header and body of a raw answer, or HEADER_MISSING, HEADER_INVALID, TRUNCATED, AMBIGUOUS, NO_CODE.

    What only stands around an answer (``mutators.wrappings``) and quotations of the prompt's example are dropped.
    """
    plain = unwrapped(text)
    if isinstance(plain, Rejected):
        return plain
    lines = without_examples(plain).split("\n")
    rules = [index for index, line in enumerate(lines) if "+++" in line and _RULE.fullmatch(line)]
    if not rules:
        return _fenced_header(lines)
    if len(rules) == 1:
        return _unclosed(lines, rules[0])
    headers = [pair for pair in pairwise(rules) if _KEY.search("\n".join(lines[pair[0] + 1 : pair[1]]))]
    start, end = headers[0] if headers else (rules[0], rules[1])
    inside = lines[start + 1 : end]
    if any(lines[first + 1 : last] != inside for first, last in headers[1:]):
        where = ", ".join(str(first + 1) for first, _ in headers)
        message = f"the answer holds {len(headers)} headers (lines {where}). Send one answer, with one header."
        return Rejected(reason=Rejection.AMBIGUOUS, message=message)
    return _read("\n".join(inside), "\n".join(_around(lines[:start], lines[end + 1 :])))


def _around(before: list[str], after: list[str]) -> list[str]:
    """What stands above and below the header, without the fence that some answers open above it."""
    opened: tuple[int, str] | None = None
    for index, line in enumerate(before):
        fence = FENCE.fullmatch(line) if "```" in line or "~~~" in line else None
        if fence and opened is None:
            opened = (index, fence[2])
        elif fence and opened and closes(fence, opened[1]):
            opened = None
    if opened is None:
        return [*before, *after]
    at, mark = opened
    ends = [index for index, line in enumerate(after) if (fence := FENCE.fullmatch(line)) and closes(fence, mark)]
    first = next((index for index, line in enumerate(after) if line.strip()), None)
    end = None if not ends else ends[0] if ends[0] == first else ends[-1]
    rest = after if end is None else [*after[:end], *after[end + 1 :]]
    return [*before[:at], *before[at + 1 :], *rest]


def _unclosed(lines: list[str], start: int) -> Rejected:
    if _TRACE_OF_EDIT.search("\n".join(lines[start + 1 :])):
        message = f"the header opens with +++ on line {start + 1} and is never closed. Put a second line +++ below its last key"
        return _invalid(message)
    return Rejected(reason=Rejection.TRUNCATED, message="the answer ends inside its header. Send the whole answer again.")


def _fenced_header(lines: list[str]) -> Split | Rejected:
    """A header that came in a fence marked toml instead of between the rules."""
    for start, end in _toml_fences(lines):
        inside = "\n".join(lines[start + 1 : end])
        if _KEY.search(inside):
            return _read(inside, "\n".join([*lines[:start], *lines[end + 1 :]]))
    if not _TRACE_OF_EDIT.search("\n".join(lines)):
        message = f"the answer holds neither a header nor an edit. Open it with\n{HEADER_FORM}\nand put the edit below."
        return Rejected(reason=Rejection.NO_CODE, message=message)
    message = f"the answer has no header. Open it with\n{HEADER_FORM}\nand put the edit below."
    return Rejected(reason=Rejection.HEADER_MISSING, message=message)


def _toml_fences(lines: list[str]) -> Iterator[tuple[int, int]]:
    """First and last line of every closed fence marked toml."""
    start, mark = -1, ""
    for index, line in enumerate(lines):
        if start < 0:
            if opened := _TOML_FENCE.fullmatch(line):
                start, mark = index, opened[1]
        elif line.strip() == mark:
            yield start, index
            start = -1


def _read(text: str, body: str) -> Split | Rejected:
    table = _table(text)
    if isinstance(table, Rejected):
        return table
    prediction = table.pop("prediction", {})
    if isinstance(prediction, dict):  # keys written below [prediction] by habit belong to the header itself
        lifted = {key: prediction.pop(key) for key in ("claim", "hypothesis", "exhausted") if key in prediction}
        table = {**lifted, **table}
    hypothesis = table.get("hypothesis")
    if not isinstance(hypothesis, str) or not hypothesis.strip():
        return _invalid("the header has no hypothesis (one sentence that a measurement can refute)")
    if hypothesis.strip() == EXAMPLE_HYPOTHESIS:
        return _invalid("the hypothesis is the form's own; write yours")
    ratios = _prediction(prediction)
    if isinstance(ratios, Rejected):
        return ratios
    claim = str(table.get("claim", "none")).strip().lower() or "none"
    if claim not in set(Claim):
        return _invalid(f'claim = "{claim[:40]}" is not one of "none", "ceiling", "done"')
    short = " ".join(hypothesis.split())[:MAX_HYPOTHESIS_CHARS]
    header = Header(hypothesis=short, prediction=ratios, claim=Claim(claim))
    return Split(header=header, body=body, exhausted=table.get("exhausted") is True)


def _table(text: str) -> dict[str, Any] | Rejected:
    """The header's TOML; typographic quotes count as plain ones where nothing else makes it TOML."""
    try:
        return tomllib.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # numbers of thousands of digits and deep nesting raise other errors than TOML's
        plain = text.translate(_QUOTES)
        if plain != text and not isinstance(table := _table(plain), Rejected):
            return table
        return _invalid(f"the header is no TOML ({error}). Put texts in double quotes")


def _prediction(value: object) -> Mapping[str, float] | Rejected:
    if not isinstance(value, dict):
        value = {"all": value}
    ratios: dict[str, float] = {}
    for region, expected in value.items():
        ratio = _ratio(expected)
        if ratio is None:
            return _invalid(
                f"prediction {region[:80]} = {repr(expected)[:80]} is no ratio to the parent; write a number such as 1.05"
            )
        ratios[region] = ratio
    return ratios


def _ratio(value: object) -> float | None:
    """A ratio from 1.05, "1.05x" or "+5 %"; None where it is none of these."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([+-]?\d+(?:\.\d+)?)\s*([x%]?)\s*", value)
        if found is None:
            return None
        value = 1 + float(found[1]) / 100 if found[2] == "%" else float(found[1])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 1 / MAX_CHANGE <= value <= MAX_CHANGE else None


def _invalid(what: str) -> Rejected:
    return Rejected(reason=Rejection.HEADER_INVALID, message=f"{what}. The form is\n{HEADER_FORM}")
