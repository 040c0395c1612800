"""Hunks of unified diffs in an answer's body. Form only, nothing is applied."""

import re
from collections.abc import Sequence

from mutators.blocks import Block, truncated
from mutators.fences import DIFF_TAGS, fences
from mutators.question import Rejected

_HUNK = re.compile(r"@@(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*|.*)")


def diff_hunks(body: str) -> tuple[Block, ...] | Rejected:
    """Every hunk in order, fenced or not; line numbers are hints only, counts are ignored. TRUNCATED: a fence never closes."""
    if "@@" not in body and not any(tag in body.lower() for tag in DIFF_TAGS):
        return ()
    lines = body.split("\n")
    marked = [fence for fence in fences(lines) if fence.tag in DIFF_TAGS]
    hunks = [hunk for fence in marked for hunk in _hunks(fence.lines, fenced=True)] if marked else _hunks(lines, fenced=False)
    if hunks and marked and not marked[-1].closed:
        return truncated("the fence around the diff is never closed.")
    return tuple(hunks)


def _hunks(lines: Sequence[str], *, fenced: bool) -> list[Block]:
    """The hunks of one diff; inside a fence lines above the first ``@@`` belong to a hunk too."""
    hunks: list[Block] = []
    part: list[str] = []
    inside, hint = fenced, None
    for index, line in enumerate(lines):
        hunk = _HUNK.fullmatch(line) if line.startswith("@@") else None
        if hunk or _names_files(lines, index) or (inside and line[:1] not in {" ", "+", "-", "\\", ""}):
            hunks += _block(part, hint)
            part, inside = [], bool(hunk) or fenced
            hint = int(hunk[1]) if hunk and hunk[1] else None
        elif inside:
            part.append(line)
    return hunks + _block(part, hint)


def _names_files(lines: Sequence[str], index: int) -> bool:
    """Whether a line is half of the pair ``--- old``, ``+++ new``, not a line of code that was deleted or added."""
    line = lines[index]
    if line.startswith("--- "):
        return index + 1 < len(lines) and lines[index + 1].startswith("+++ ")
    return line.startswith("+++ ") and index > 0 and lines[index - 1].startswith("--- ")


def _block(part: Sequence[str], hint: int | None) -> list[Block]:
    """The block that a hunk's lines amount to; none where no line is added or deleted."""
    old = [line[1:] for line in part if line[:1] not in {"+", "\\"}]
    new = [line[1:] for line in part if line[:1] not in {"-", "\\"}]
    while old and new and not old[-1].strip() and not new[-1].strip():  # blank lines below a hunk are form
        del old[-1], new[-1]
    # a line with a backslash only says that the file has no newline at its end
    changes = any(line[:1] in {"+", "-"} for line in part)
    return [Block(search=tuple(old), replace=tuple(new), line=hint)] if changes else []
