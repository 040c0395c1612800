"""Differences between two sources: as lines to read, and as operations that make the new one from the old."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

CONTEXT = 3


def diff_lines(old: str, new: str) -> list[dict[str, Any]]:
    """Lines with ``kind`` (same, gone, new, gap), their numbers in both sources from 1 (None where not there), and text."""
    before, after = old.split("\n"), new.split("\n")
    lines: list[dict[str, Any]] = []
    for group in _matcher(before, after).get_grouped_opcodes(CONTEXT):
        first = group[0]
        lines.append({"kind": "gap", "old": first[1] + 1, "new": first[3] + 1, "text": ""})
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [
                    {"kind": "same", "old": i1 + k + 1, "new": j1 + k + 1, "text": text} for k, text in enumerate(before[i1:i2])
                ]
                continue
            lines += [{"kind": "gone", "old": i1 + k + 1, "new": None, "text": text} for k, text in enumerate(before[i1:i2])]
            lines += [{"kind": "new", "old": None, "new": j1 + k + 1, "text": text} for k, text in enumerate(after[j1:j2])]
    return lines


def delta(old: str, new: str) -> list[list[Any]]:
    """Operations on lines that make ``new`` from ``old``: ``[first, last]`` keeps old lines first..last-1, ``["text", ...]``
    puts these; ``patched`` undoes it.
    """
    before, after = old.split("\n"), new.split("\n")
    head = _alike(before, after)
    tail = _alike(before[head:][::-1], after[head:][::-1])
    middle = after[head : len(after) - tail]
    found: list[list[Any]] = [[0, head]]
    for tag, i1, i2, j1, j2 in _matcher(before[head : len(before) - tail], middle).get_opcodes():
        if tag == "equal":
            found.append([head + i1, head + i2])
        elif j2 > j1:
            found.append(middle[j1:j2])
    found.append([len(before) - tail, len(before)])
    return [one for one in found if not isinstance(one[0], int) or one[1] > one[0]]


def _alike(before: Sequence[str], after: Sequence[str]) -> int:
    """How many lines at the beginning are the same."""
    differs = (k for k, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
    return next(differs, min(len(before), len(after)))


def patched(old: str, operations: Sequence[Sequence[Any]]) -> str:
    """The source that ``delta`` described."""
    before = old.split("\n")
    lines: list[str] = []
    for operation in operations:
        lines += before[operation[0] : operation[1]] if isinstance(operation[0], int) else operation
    return "\n".join(lines)


def _matcher(before: Sequence[str], after: Sequence[str]) -> SequenceMatcher[str]:
    return SequenceMatcher(None, before, after, autojunk=len(before) > 2000)
