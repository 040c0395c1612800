"""From a parent's source and a raw answer to a child's source, or a named rejection (docs/answers.md)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz, process

from mutators.blocks import Block, diff_hunks, search_blocks, truncated, whole_file
from mutators.headers import Split, split_answer
from mutators.question import Claim, Header, Rejected, Rejection

MAX_ANSWER_BYTES = 512 * 1024
MAX_SOURCE_BYTES = 256 * 1024
NEAREST = 3

_MARKER = re.compile(r"\s*(?://|/\*|#)\s*askevolve:\s*(begin|end)\b.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A child's whole source and what its author said about it."""

    header: Header
    source: str


def apply(parent_source: str, answer_text: str) -> Applied | Rejected:
    """The parent with the answer's edit applied.

    Forgiving on form, exact on content: every block must match whole lines of the parent exactly once (white space at line
    ends aside). Line ends of the parent are kept.
    """
    if len(answer_text.encode("utf-8", "surrogatepass")) > MAX_ANSWER_BYTES:
        return _too_large("the answer", MAX_ANSWER_BYTES)
    if "\0" in answer_text:
        return Rejected(reason=Rejection.NO_CODE, message="the answer holds NUL bytes and is no text. Send plain UTF-8 text.")
    split = split_answer(answer_text)
    if isinstance(split, Rejected):
        return split
    parent = parent_source.replace("\r\n", "\n")
    child = _edited(parent, split)
    if isinstance(child, Rejected):
        return child
    refused = _refusal(parent, child)
    if refused is not None:
        return refused
    return Applied(header=split.header, source=child.replace("\n", "\r\n") if "\r\n" in parent_source else child)


def _refusal(parent: str, child: str) -> Rejected | None:
    if child.rstrip("\n") == parent.rstrip("\n"):
        return Rejected(reason=Rejection.NO_CHANGE, message="the edit leaves the parent as it is. Change at least one line.")
    if len(child.encode("utf-8", "surrogatepass")) > MAX_SOURCE_BYTES:
        return _too_large("the edited source", MAX_SOURCE_BYTES)
    kept = _outside(parent)
    if kept and kept != _outside(child):
        message = (
            "the edit changes text outside the lines `// askevolve: begin` and `// askevolve: end`. Keep that text as it is."
        )
        return Rejected(reason=Rejection.OUTSIDE_EDITABLE, message=message)
    return None


def _edited(parent: str, split: Split) -> str | Rejected:
    blocks = search_blocks(split.body)
    if isinstance(blocks, Rejected):
        return blocks
    if not blocks:
        blocks = diff_hunks(split.body)
    if blocks:
        return _replaced(parent, blocks)
    whole = whole_file(split.body)
    if isinstance(whole, Rejected):
        return whole
    if whole is not None:
        return "\n".join(whole).rstrip("\n") + "\n"
    return _no_edit(split)


def _no_edit(split: Split) -> Rejected:
    if split.exhausted:
        message = "nothing is left to try around this parent, says the answer. Choose another parent."
        return Rejected(reason=Rejection.EXHAUSTED, message=message)
    if split.header.claim is not Claim.NONE:
        message = f'the answer claims "{split.header.claim}" and brings no edit.'
        return Rejected(reason=Rejection.CLAIM_ONLY, message=message)
    if re.search(r"<{5,10} ?SEARCH|^@@ ", split.body, re.MULTILINE):
        return truncated("an edit begins and is not complete.")
    if "```" in split.body or "~~~" in split.body:
        message = (
            "the code in the answer is neither a SEARCH/REPLACE block, nor a diff, nor a whole file with its /* plan comment."
        )
        return Rejected(reason=Rejection.NO_CODE, message=f"{message} Send one of these.")
    message = "the answer holds no edit. Put SEARCH/REPLACE blocks, a unified diff or the whole file below the header."
    return Rejected(reason=Rejection.NO_CODE, message=message)


def _replaced(parent: str, blocks: Sequence[Block]) -> str | Rejected:
    """The blocks applied in turn, each to the text that the ones before it left."""
    lines = parent.split("\n")
    for number, block in enumerate(blocks, start=1):
        name = f"block {number} of {len(blocks)}"
        if not any(line.strip() for line in block.search):
            message = f"{name} has nothing to search for. Quote at least one whole line of the parent."
            return Rejected(reason=Rejection.NO_MATCH, message=message)
        found = _places(lines, block.search)
        if len(found) > 1 and block.line is not None and block.line - 1 in found:
            found = [block.line - 1]
        if not found:
            return Rejected(reason=Rejection.NO_MATCH, message=_nearest(lines, block.search, name))
        if len(found) > 1:
            where = ", ".join(str(place + 1) for place in found[:8])
            message = f"{name} matches {len(found)} times (lines {where}). Quote more lines around it, so that it matches once."
            return Rejected(reason=Rejection.AMBIGUOUS, message=message)
        lines[found[0] : found[0] + len(block.search)] = block.replace
    return "\n".join(lines)


def _places(lines: Sequence[str], search: Sequence[str]) -> list[int]:
    """Indices at which the search lines stand: byte by byte, or where that fails without white space at line ends."""
    exact = _runs(lines, search)
    return exact or _runs([line.rstrip() for line in lines], [line.rstrip() for line in search])


def _runs(lines: Sequence[str], search: Sequence[str]) -> list[int]:
    size, first, wanted = len(search), search[0], list(search)
    return [at for at, line in enumerate(lines) if line == first and list(lines[at : at + size]) == wanted]


def _nearest(lines: Sequence[str], search: Sequence[str], name: str) -> str:
    """Which line of the block is not in the parent, and what stands there instead."""
    known = {line.rstrip() for line in lines}
    missing = next((line for line in search if line.strip() and line.rstrip() not in known), None)
    if missing is None:
        return f"{name}: each of its lines is in the parent, but not in this order or not together. Quote them as they stand."
    stripped = " ".join(missing.split())
    for number, line in enumerate(lines, start=1):
        if " ".join(line.split()) == stripped:
            return f"{name}: only the white space differs in line {number} of the parent: {line!r}, not {missing!r}."
    matches = process.extract(missing, [*lines], scorer=fuzz.ratio, limit=NEAREST, score_cutoff=40)
    near = "; ".join(f"line {index + 1}: {line[:160]!r}" for line, _, index in matches)
    return f"{name}: {missing[:160]!r} is nowhere in the parent. Nearest: {near or 'nothing alike'}."


def _outside(source: str) -> tuple[str, ...]:
    """The text that an edit must leave alone, in pieces between editable parts; empty without markers."""
    pieces: list[list[str]] = [[]]
    editable = marked = False
    for line in source.split("\n"):
        marker = _MARKER.fullmatch(line)
        marked = marked or marker is not None
        if marker and marker[1] == "end":
            pieces.append([])
            editable = False
        if not editable:
            pieces[-1].append(line)
        if marker and marker[1] == "begin":
            editable = True
    return tuple("\n".join(piece).rstrip("\n") for piece in pieces) if marked else ()


def _too_large(what: str, limit: int) -> Rejected:
    return Rejected(reason=Rejection.TOO_LARGE, message=f"{what} is over {limit // 1024} KiB. Send a smaller one.")
