"""From a parent's source and a raw answer to a child's source, or a named rejection (docs/answers.md)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rapidfuzz import fuzz, process

from mutators.blocks import Block, search_blocks, truncated
from mutators.diffs import diff_hunks
from mutators.files import whole_files
from mutators.headers import Split, split_answer
from mutators.question import Claim, Header, Rejected, Rejection

MAX_ANSWER_BYTES = 512 * 1024
MAX_SOURCE_BYTES = 256 * 1024
NEAREST = 3

_LEFT_OUT = re.compile(
    r"\s*(?:\.{3}|\u2026)\s*|"
    r"\s*(?://+|/\*+|\*|#)\s*(?:\.{3}|\u2026)\s*(?:\*/)?\s*|"
    r"(?=.*(?:\.{3}|\u2026))"
    r"(?=.*\b(?:rest|remain\w*|existing|unchanged|omitted|elided|as before|as above|previous code|same code)\b)"
    r"\s*(?://+|/\*+|#).*",
    re.IGNORECASE,
)
"""A line that stands for code which the answer leaves out."""

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
    child = _edited(parent_source, split)
    if isinstance(child, Rejected):
        return child
    refused = _refusal(parent_source, child)
    return Applied(header=split.header, source=child) if refused is None else refused


def _refusal(parent_source: str, child_source: str) -> Rejected | None:
    parent, child = parent_source.replace("\r\n", "\n"), child_source.replace("\r\n", "\n")
    if child.rstrip("\n") == parent.rstrip("\n"):
        return Rejected(reason=Rejection.NO_CHANGE, message="the edit leaves the parent as it is. Change at least one line.")
    if len(child_source.encode("utf-8", "surrogatepass")) > MAX_SOURCE_BYTES:
        return _too_large("the edited source", MAX_SOURCE_BYTES)
    kept, found = _outside(parent), _outside(child)
    if kept and kept != found:
        message = "the edit changes text outside the lines `// askevolve: begin` and `// askevolve: end`"
        return Rejected(reason=Rejection.OUTSIDE_EDITABLE, message=f"{message}. Keep that text as it is: {_lost(kept, found)}")
    known = set(parent.split("\n"))
    left_out = next((line for line in child.split("\n") if line not in known and _LEFT_OUT.fullmatch(line)), None)
    if left_out is not None:
        return truncated(f"the code leaves lines out: {left_out.strip()[:160]!r} stands for them. Write every line.")
    return None


def _edited(parent_source: str, split: Split) -> str | Rejected:
    blocks = search_blocks(split.body)
    if isinstance(blocks, Rejected):
        return blocks
    blocks = blocks or diff_hunks(split.body)
    if isinstance(blocks, Rejected):
        return blocks
    if blocks:
        return _replaced(parent_source, blocks)
    files = whole_files(split.body)
    if isinstance(files, Rejected):
        return files
    sources = ["\n".join(lines).rstrip("\n") + "\n" for lines in files]
    if not sources:
        return _no_edit(split)
    plain = parent_source.replace("\r\n", "\n").rstrip("\n") + "\n"
    child = next((source for source in reversed(sources) if source != plain), plain)  # some quote the parent below their file
    return child.replace("\n", "\r\n") if "\r\n" in parent_source else child


def _no_edit(split: Split) -> Rejected:
    if split.exhausted:
        message = "nothing is left to try around this parent, says the answer. Choose another parent."
        return Rejected(reason=Rejection.EXHAUSTED, message=message)
    if split.header.claim is not Claim.NONE:
        message = f'the answer claims "{split.header.claim}" and brings no edit.'
        return Rejected(reason=Rejection.CLAIM_ONLY, message=message)
    if re.search(r"^@@ ", split.body, re.MULTILINE):
        return truncated("an edit begins and is not complete.")
    if re.search(r"^<{5,10}", split.body, re.MULTILINE):
        message = "the answer's blocks don't open with <<<<<<< SEARCH and close with >>>>>>> REPLACE. Write these lines."
        return Rejected(reason=Rejection.NO_CODE, message=message)
    if "```" in split.body or "~~~" in split.body or "/* plan" in split.body:
        message = (
            "the code in the answer is neither a SEARCH/REPLACE block, nor a diff, nor a whole file with its /* plan comment."
        )
        return Rejected(reason=Rejection.NO_CODE, message=f"{message} Send one of these.")
    message = "the answer holds no edit. Put SEARCH/REPLACE blocks, a unified diff or the whole file below the header."
    return Rejected(reason=Rejection.NO_CODE, message=message)


def _replaced(parent_source: str, blocks: Sequence[Block]) -> str | Rejected:
    """The blocks applied in turn, each to the text that the ones before it left. Lines keep the line ends of the place."""
    lines = parent_source.split("\n")
    bare = [line.rstrip() for line in lines]
    original = list(bare)
    for number, block in enumerate(blocks, start=1):
        name = f"block {number} of {len(blocks)}"
        if not any(line.strip() for line in block.search):
            message = f"{name} has nothing to search for. Quote at least one whole line of the parent."
            return Rejected(reason=Rejection.NO_MATCH, message=message)
        found = _places(lines, bare, block.search)
        if len(found) > 1 and block.line is not None and block.line - 1 in found:
            found = [block.line - 1]
        if not found:
            gone = number > 1 and _runs(original, [line.rstrip() for line in block.search])
            why = f"{name}: an earlier block changed these lines. Quote them as it left them, or make one block of both."
            message = why if gone else _nearest(lines, block.search, name)
            return Rejected(reason=Rejection.NO_MATCH, message=message)
        if len(found) > 1:
            where = ", ".join(str(place + 1) for place in found[:8])
            message = f"{name} matches {len(found)} times (lines {where}). Quote more lines around it, so that it matches once."
            return Rejected(reason=Rejection.AMBIGUOUS, message=message)
        start, end = found[0], found[0] + len(block.search)
        line_end = "\r" if lines[start].endswith("\r") else ""
        lines[start:end] = [line + line_end for line in block.replace]
        bare[start:end] = [line.rstrip() for line in block.replace]
    return "\n".join(lines)


def _places(lines: Sequence[str], bare: Sequence[str], search: Sequence[str]) -> Sequence[int]:
    """Indices at which the search lines stand; where white space at line ends decides between several, the exact one."""
    found = _runs(bare, [line.rstrip() for line in search])
    if len(found) < 2:
        return found
    wanted = list(search)
    exact = [at for at in found if [line.removesuffix("\r") for line in lines[at : at + len(wanted)]] == wanted]
    return exact or found


def _runs(lines: Sequence[str], wanted: Sequence[str]) -> Sequence[int]:
    """Every index at which the wanted lines stand together."""
    found: list[int] = []
    at = -1
    while True:
        try:
            at = lines.index(wanted[0], at + 1)
        except ValueError:
            return found
        if list(lines[at : at + len(wanted)]) == list(wanted):
            found.append(at)


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
        marker = _MARKER.fullmatch(line) if "askevolve:" in line else None
        marked = marked or marker is not None
        if marker and marker[1] == "end":
            pieces.append([])
            editable = False
        if not editable:
            pieces[-1].append(line)
        if marker and marker[1] == "begin":
            editable = True
    return tuple("\n".join(piece).rstrip("\n") for piece in pieces) if marked else ()


def _lost(kept: Sequence[str], found: Sequence[str]) -> str:
    """The first line that was to be kept and differs."""
    old, new = "\n".join(kept).split("\n"), "\n".join(found).split("\n")
    for before, after in zip_longest(old, new, fillvalue=""):
        if before != after:
            return f"{before[:160]!r} has become {after[:160]!r}."
    return "a marker was moved."


def _too_large(what: str, limit: int) -> Rejected:
    return Rejected(reason=Rejection.TOO_LARGE, message=f"{what} is over {limit // 1024} KiB. Send a smaller one.")
