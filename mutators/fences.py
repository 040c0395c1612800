"""Fenced parts of a text, by the rules of CommonMark with two indulgences for code (docs/answers.md)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

DIFF_TAGS = frozenset({"diff", "patch", "udiff"})
DRAWING_LINES = 60
"""A fence drawn inside a comment of code is looked for over so many lines."""

FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})([^`]*)")
_CODE = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//|/\*')


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fenced part of an answer: the first word of its info string in lower case, and its lines."""

    tag: str
    lines: tuple[str, ...]
    closed: bool = True


def fences(lines: Sequence[str]) -> tuple[Fence, ...]:
    """The fenced parts in order. A fence may be indented at will (as in a list), and its lines lose that indentation; marks
    that a ``/*`` comment draws don't close.
    """
    found: list[Fence] = []
    mark = tag = indent = ""
    inside: list[str] = []
    commented, drawn_until = False, -1
    for index, line in enumerate(lines):
        fence = FENCE.fullmatch(line) if "```" in line or "~~~" in line else None
        if not mark:
            if fence:
                indent, mark, tag, inside, commented = fence[1], fence[2], _tag(fence[3]), [], False
            continue
        if fence and closes(fence, mark) and index > drawn_until:
            drawn_until = _drawing_end(lines, index, mark) if commented and tag not in DIFF_TAGS else -1
            if drawn_until < 0:
                found.append(Fence(tag=tag, lines=tuple(inside)))
                mark = ""
                continue
        inside.append(line.removeprefix(indent))
        commented = in_comment_after(line, commented)
    if mark:
        found.append(Fence(tag=tag, lines=tuple(inside), closed=False))
    return tuple(found)


def _drawing_end(lines: Sequence[str], start: int, mark: str) -> int:
    """Where the comment around line ``start`` ends, if the marks from there on are drawn in pairs inside it; else -1."""
    marks = 0
    for index in range(start, min(start + DRAWING_LINES, len(lines))):
        if "*/" in lines[index]:
            return index if marks % 2 == 0 else -1
        fence = FENCE.fullmatch(lines[index]) if "```" in lines[index] or "~~~" in lines[index] else None
        if fence and not closes(fence, mark):
            return -1
        marks += fence is not None
    return -1


def closes(fence: re.Match[str], mark: str) -> bool:
    """Whether a line that matched ``FENCE`` closes the fence that ``mark`` opened."""
    return fence[2][0] == mark[0] and len(fence[2]) >= len(mark) and not fence[3].strip()


def in_comment_after(line: str, commented: bool) -> bool:
    """Whether a ``/*`` comment of C++ is open at the end of the line, given whether one was at its start."""
    if "/*" not in line and "*/" not in line:
        return commented
    at = 0
    while True:
        if commented:
            end = line.find("*/", at)
            if end < 0:
                return True
            at, commented = end + 2, False
        token = _CODE.search(line, at)
        if token is None or token[0] == "//":
            return False
        at, commented = token.end(), token[0] == "/*"


def _tag(info: str) -> str:
    """The language of an info string: of ``cpp:src/k.cpp``, ``{.cpp}``, ``C++ title=x`` and ``kernel.cpp`` alike."""
    words = info.split()
    word = words[0].lower().strip("{.}").partition(":")[0] if words else ""
    return word.rpartition(".")[2]
