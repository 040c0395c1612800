"""The statement that opens an answer: a small TOML table between two lines ``+++`` (docs/answers.md)."""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from mutators.question import Claim, Header, Rejected, Rejection

MAX_HYPOTHESIS_CHARS = 2000
MAX_CHANGE = 1000.0
"""A predicted ratio beyond this (or below its inverse) is a slip of the pen, not a prediction."""

_RULE = re.compile(r"[ \t]*\+{3,}[ \t]*")
_TOML_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*(?:toml)?[ \t]*", re.IGNORECASE)
_THOUGHT_OPEN = re.compile(r"^[ \t]*<(think|thinking|thought|reasoning)>", re.IGNORECASE | re.MULTILINE)
_FORM = '+++\nhypothesis = "one sentence"\nclaim = "none"\n[prediction]\nall = 1.05\n+++'


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
    """Header and body of a raw answer, or HEADER_MISSING, HEADER_INVALID, TRUNCATED.

    Byte order mark, CRLF and closed reasoning blocks are form and are dropped; a reasoning block that is never closed means
    that the answer itself never came.
    """
    plain = drop_thoughts(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    if isinstance(plain, Rejected):
        return plain
    lines = plain.split("\n")
    rules = [index for index, line in enumerate(lines) if _RULE.fullmatch(line)]
    if len(rules) >= 2:
        start, end = rules[0], rules[1]
        return _read("\n".join(lines[start + 1 : end]), "\n".join([*_before(lines[:start]), *_after(lines, start, end)]))
    if rules:
        return _unclosed(lines, rules[0])
    return _fenced_header(lines)


def drop_thoughts(text: str) -> str | Rejected:
    """The text without ``<think>`` blocks that open a line; TRUNCATED where one is never closed."""
    while opened := _THOUGHT_OPEN.search(text):
        close = re.compile(rf"</{opened[1]}>", re.IGNORECASE).search(text, opened.end())
        if close is None:
            message = f"the answer ends inside <{opened[1]}>: nothing after the reasoning arrived. Send the header and the edit."
            return Rejected(reason=Rejection.TRUNCATED, message=message)
        text = text[: opened.start()] + text[close.end() :]
    stray = re.split(r"^[ \t]*</(?:think|thinking|thought|reasoning)>", text, flags=re.IGNORECASE | re.MULTILINE)
    return stray[-1]


def _before(lines: list[str]) -> list[str]:
    """What stood above the header, without the fence that some answers open around it."""
    return lines[:-1] if lines and _TOML_FENCE.fullmatch(lines[-1]) else lines


def _after(lines: list[str], start: int, end: int) -> list[str]:
    rest = lines[end + 1 :]
    fence = _TOML_FENCE.fullmatch(lines[start - 1]) if start else None
    return rest[1:] if fence and rest and rest[0].strip() == fence[1] else rest


def _unclosed(lines: list[str], start: int) -> Rejected:
    rest = "\n".join(lines[start + 1 :])
    if "<<<<<" in rest or "```" in rest or "/* plan" in rest or "\n@@" in rest:
        message = "the header opens with +++ on line {} and is never closed. Put a second line +++ between it and the edit."
        return Rejected(reason=Rejection.HEADER_INVALID, message=message.format(start + 1))
    return Rejected(reason=Rejection.TRUNCATED, message="the answer ends inside its header. Send the whole answer again.")


def _fenced_header(lines: list[str]) -> Split | Rejected:
    """A header that came in a fence marked toml instead of between the rules."""
    for start, line in enumerate(lines):
        fence = _TOML_FENCE.fullmatch(line)
        if fence is None or "toml" not in line.lower():
            continue
        for end in range(start + 1, len(lines)):
            if lines[end].strip() == fence[1]:
                inside = "\n".join(lines[start + 1 : end])
                if re.search(r"^\s*hypothesis\s*=", inside, re.MULTILINE):
                    return _read(inside, "\n".join([*lines[:start], *lines[end + 1 :]]))
                break
    message = f"the answer has no header. Open it with\n{_FORM}\nand put the edit below."
    return Rejected(reason=Rejection.HEADER_MISSING, message=message)


def _read(text: str, body: str) -> Split | Rejected:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return _invalid(f"the header is no TOML ({error})")
    prediction = table.pop("prediction", {})
    if isinstance(prediction, dict):  # keys written below [prediction] by habit belong to the header itself
        lifted = {key: prediction.pop(key) for key in ("claim", "hypothesis", "exhausted") if key in prediction}
        table = {**lifted, **table}
    hypothesis = table.get("hypothesis")
    if not isinstance(hypothesis, str) or not hypothesis.strip():
        return _invalid("the header has no hypothesis (one sentence that a measurement can refute)")
    ratios = _prediction(prediction)
    if isinstance(ratios, Rejected):
        return ratios
    claim = str(table.get("claim", "none")).strip().lower() or "none"
    if claim not in set(Claim):
        return _invalid(f'claim = "{claim[:40]}" is not one of "none", "ceiling", "done"')
    short = " ".join(hypothesis.split())[:MAX_HYPOTHESIS_CHARS]
    header = Header(hypothesis=short, prediction=ratios, claim=Claim(claim))
    return Split(header=header, body=body, exhausted=table.get("exhausted") is True)


def _prediction(value: object) -> Mapping[str, float] | Rejected:
    if not isinstance(value, dict):
        value = {"all": value}
    ratios: dict[str, float] = {}
    for region, expected in value.items():
        ratio = _ratio(expected)
        if ratio is None:
            return _invalid(f"prediction {region} = {expected!r} is no ratio to the parent; write a number such as 1.05")
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
    return float(value) if math.isfinite(value) and 1 / MAX_CHANGE <= value <= MAX_CHANGE else None


def _invalid(what: str) -> Rejected:
    return Rejected(reason=Rejection.HEADER_INVALID, message=f"{what}. The form is\n{_FORM}")
