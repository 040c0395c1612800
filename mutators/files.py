"""Whole files in an answer's body, fenced or bare. A file is known by its plan comment with code below it."""

import re
from collections.abc import Sequence

from mutators.blocks import truncated
from mutators.fences import fences, in_comment_after
from mutators.question import Rejected

_LAST_LINE = re.compile(
    r".*([};]|\*/)\s*(//.*)?|\s*//.*|\s*#\s*(if|ifdef|ifndef|else|elif|endif|define|undef|pragma|include)\b.*"
)


def whole_files(body: str) -> tuple[tuple[str, ...], ...] | Rejected:
    """The lines of every whole file in order; TRUNCATED where the last one, or a fence that may hold one, never ends."""
    lines = body.split("\n")
    parts = [part for part in fences(lines) if part.closed or any(line.strip() for line in part.lines)]
    files = [part for part in parts if _is_file(part.lines)]
    if files and _comment_is_open(files[-1].lines):
        return truncated("the file ends inside a comment.")
    if files:
        return tuple(part.lines for part in files) if files[-1].closed else truncated("the code fence is never closed.")
    planned = any(_plan_line(part.lines) is not None for part in parts)
    bare = () if planned else _bare_file(lines)
    if not bare and any(not part.closed for part in parts):
        return truncated("the code fence is never closed.")
    return bare


def _plan_line(lines: Sequence[str]) -> int | None:
    return next((index for index, line in enumerate(lines) if line.lstrip().startswith("/* plan")), None)


def _is_file(lines: Sequence[str]) -> bool:
    """Whether code stands below a plan comment."""
    start = _plan_line(lines)
    return start is not None and "{" in "\n".join(lines[start:]).partition("*/")[2]


def _comment_is_open(lines: Sequence[str]) -> bool:
    commented = False
    for line in lines:
        commented = in_comment_after(line, commented)
    return commented


def _bare_file(lines: Sequence[str]) -> tuple[tuple[str, ...], ...] | Rejected:
    """A file that came without a fence: from its plan to the last line that can end C++ code."""
    plans = [index for index, line in enumerate(lines) if line.startswith("/* plan")]
    if not plans:
        return ()
    start = plans[-1]
    while start and lines[start - 1].startswith("//"):
        start -= 1
    end = len(lines)
    while end > start and not _LAST_LINE.fullmatch(lines[end - 1]):
        end -= 1
    found = lines[start:end]
    if _comment_is_open(lines[start : end + 1]) or sum(line.count("{") - line.count("}") for line in found) > 0:
        return truncated("the file ends before its last brace is closed; a code fence around it would show where it ends.")
    return (tuple(found),) if _is_file(found) else ()
