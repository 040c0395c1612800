"""SEARCH/REPLACE blocks in an answer's body. Form only, nothing is applied."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mutators.fences import FENCE, closes
from mutators.question import Rejected, Rejection

_SEARCH = re.compile(r"\s{0,3}<{5,10} ?SEARCH\b.*", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s{0,3}={5,10}\s*")
_REPLACE = re.compile(r"\s{0,3}>{5,10} ?REPLACE\b.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Lines to find and the lines that take their place; ``line`` is the diff's own idea of where (1-based)."""

    search: tuple[str, ...]
    replace: tuple[str, ...]
    line: int | None = None


def truncated(message: str) -> Rejected:
    """A TRUNCATED rejection that asks for the rest."""
    return Rejected(reason=Rejection.TRUNCATED, message=f"{message} Send the whole answer again.")


def search_blocks(body: str) -> tuple[Block, ...] | Rejected:
    """Every SEARCH/REPLACE block in order; none gives an empty tuple, a damaged one a rejection that says which."""
    blocks: list[Block] = []
    if "<<<<<" not in body and ">>>>>" not in body:
        return ()
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
    opening, closing = (FENCE.fullmatch(lines[0]), FENCE.fullmatch(lines[-1])) if len(lines) >= 2 else (None, None)
    return tuple(lines[1:-1] if opening and closing and closes(closing, opening[2]) else lines)
