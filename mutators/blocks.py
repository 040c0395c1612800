"""What an answer's body holds: SEARCH/REPLACE blocks, diff hunks, fenced or bare whole files. Form only, nothing is applied."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mutators.question import Rejected, Rejection

CODE_TAGS = frozenset({"", "cuda", "cu", "cuh", "cpp", "c++", "cxx", "cc", "c", "h", "hpp"})

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)")
_SEARCH = re.compile(r"\s{0,3}<{5,10} ?SEARCH:?\s*", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s{0,3}={5,10}\s*")
_REPLACE = re.compile(r"\s{0,3}>{5,10} ?REPLACE\s*", re.IGNORECASE)
_HUNK = re.compile(r"@@(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*|.*)")
_FILE_HEADER = re.compile(r"(diff --git |index [0-9a-f]+\.\.|--- |\+\+\+ |new file mode |old mode |new mode )")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Lines to find and the lines that take their place; ``line`` is the diff's own idea of where (1-based)."""

    search: tuple[str, ...]
    replace: tuple[str, ...]
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fenced part of the answer: the first word of its info string in lower case, and its lines."""

    tag: str
    lines: tuple[str, ...]
    closed: bool = True


def truncated(message: str) -> Rejected:
    """A TRUNCATED rejection that asks for the rest."""
    return Rejected(reason=Rejection.TRUNCATED, message=f"{message} Send the whole answer again.")


def search_blocks(body: str) -> tuple[Block, ...] | Rejected:
    """Every SEARCH/REPLACE block in order; none gives an empty tuple, a damaged one a rejection that says which."""
    blocks: list[Block] = []
    lines = iter(enumerate(body.split("\n"), start=1))
    for number, line in lines:
        if _REPLACE.fullmatch(line):
            return truncated(f"line {number} of the answer closes a block that was never opened.")
        if _SEARCH.fullmatch(line):
            block = _one_block(lines, len(blocks) + 1)
            if isinstance(block, Rejected):
                return block
            blocks.append(block)
    return tuple(blocks)


def _one_block(lines: Iterator[tuple[int, str]], count: int) -> Block | Rejected:
    search: list[str] = []
    replace: list[str] | None = None
    for _, line in lines:
        if _SEARCH.fullmatch(line):
            return truncated(f"block {count} is not closed by a line >>>>>>> REPLACE before the next one opens.")
        if _REPLACE.fullmatch(line):
            if replace is None:
                return truncated(f"block {count} has no line ======= between SEARCH and REPLACE.")
            return Block(search=_unfenced(search), replace=_unfenced(replace))
        if _SEPARATOR.fullmatch(line):
            if replace is not None:
                message = f"block {count} holds two lines =======, so where SEARCH ends is unclear. Split it around that line."
                return Rejected(reason=Rejection.AMBIGUOUS, message=message)
            replace = []
            continue
        (search if replace is None else replace).append(line)
    return truncated(f"block {count} is not closed by a line >>>>>>> REPLACE.")


def _unfenced(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines without a code fence that wraps all of them."""
    if len(lines) >= 2 and _FENCE.fullmatch(lines[0]) and lines[-1].strip() == lines[0].strip()[:3]:
        return tuple(lines[1:-1])
    return tuple(lines)


def fences(body: str) -> tuple[Fence, ...]:
    """Fenced blocks by the rules of CommonMark; a closing mark inside an open ``/*`` comment doesn't close."""
    found: list[Fence] = []
    mark, tag = "", ""
    inside: list[str] = []
    for line in body.split("\n"):
        fence = _FENCE.fullmatch(line)
        if not mark:
            if fence:
                words = fence[2].split()
                mark, tag, inside = fence[1], (words[0].lower().strip("{.}") if words else ""), []
            continue
        closes = fence and fence[1][0] == mark[0] and len(fence[1]) >= len(mark) and not fence[2].strip()
        if closes and not _in_comment(inside):
            found.append(Fence(tag=tag, lines=tuple(inside)))
            mark = ""
        else:
            inside.append(line)
    if mark:
        found.append(Fence(tag=tag, lines=tuple(inside), closed=False))
    return tuple(found)


def _in_comment(lines: Sequence[str]) -> bool:
    text = "\n".join(lines)
    return text.rfind("/*") > text.rfind("*/")


def diff_hunks(body: str) -> tuple[Block, ...]:
    """Hunks of a unified diff, fenced or not; line numbers are hints only, counts are ignored."""
    marked = [fence.lines for fence in fences(body) if fence.tag in {"diff", "patch"}]
    text = [line for lines in marked for line in lines] if marked else body.split("\n")
    hunks: list[Block] = []
    old: list[str] = []
    new: list[str] = []
    inside, line_hint = bool(marked), None

    def close() -> None:
        while old and new and not old[-1].strip() and not new[-1].strip():  # blank lines below a hunk are form
            del old[-1], new[-1]
        if old != new:
            hunks.append(Block(search=tuple(old), replace=tuple(new), line=line_hint))
        old.clear()
        new.clear()

    for line in text:
        hunk = _HUNK.fullmatch(line)
        if hunk or _FILE_HEADER.match(line):
            close()
            inside = bool(hunk) or bool(marked)
            line_hint = int(hunk[1]) if hunk and hunk[1] else None
        elif inside:
            if line.startswith("\\"):  # "\ No newline at end of file"
                continue
            if line[:1] not in {" ", "+", "-", ""}:
                close()
                inside = bool(marked)
                continue
            if line[:1] != "+":
                old.append(line[1:])
            if line[:1] != "-":
                new.append(line[1:])
    close()
    return tuple(hunks)


def whole_file(body: str) -> tuple[str, ...] | Rejected | None:
    """The lines of the last whole file in the answer (a file holds its plan), None where there is none."""
    parts = [part for part in fences(body) if part.tag in CODE_TAGS]
    for part in reversed(parts):
        if any(line.lstrip().startswith("/* plan") for line in part.lines):
            return part.lines if part.closed else truncated("the code fence is never closed.")
    if any(not part.closed for part in parts):
        return truncated("the code fence is never closed.")
    return None if parts else _bare_file(body.split("\n"))


def _bare_file(lines: Sequence[str]) -> tuple[str, ...] | Rejected | None:
    """A file that came without a fence: from its plan to the last line that can end C++ code."""
    plans = [index for index, line in enumerate(lines) if line.startswith("/* plan")]
    if not plans:
        return None
    start = plans[-1]
    while start and lines[start - 1].startswith("//"):
        start -= 1
    end = len(lines)
    while end > start and not re.search(r"([};]|\*/)\s*(//.*)?$|^\s*(#|//)", lines[end - 1]):
        end -= 1
    found = lines[start:end]
    code = "\n".join(found)
    if code.count("{") > code.count("}") or _in_comment(found):
        return truncated("the file ends before its last brace is closed.")
    return tuple(found)
