"""Recognising a source that is already known, before it costs an evaluation: exactly, by normal form, or nearly.

The normal form drops comments and white space outside the plan. It must never make two different programs equal, so nothing is
dropped where a program can see its own layout or where the scanner meets what it doesn't know; such a source equals only itself.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rapidfuzz import fuzz

from population.candidate import Candidate, Language, hash_text

RAW = r'(?:u8|[uUL])?R"(?P<delimiter>[^\s()\\"]{0,16})\([\s\S]*?\)(?P=delimiter)"\w*'
TEXT = r'(?:u8|[uUL])?"(?:\\[\s\S]|[^"\\\n])*"\w*'
CHARACTER = r"(?:u8|[uUL])?'(?:\\[\s\S]|[^'\\\n])+'\w*"
COMMENT = r"//[^\n]*|/\*[\s\S]*?\*/"
DIRECTIVE = rf"^[ \t]*\#(?:{COMMENT}|{TEXT}|{CHARACTER}|[^\n])*"
WORD = r"[^\W\d]\w*|\.?\d(?:[eEpP][+-]|'\w|[\w.])*"
DIGRAPH = "%:|<:|<%|:>|%>"
SIGN = (
    r"##|<<=|>>=|<=>|->\*|\.\.\.|::|->|\.\*|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]="
    rf"|(?!{DIGRAPH})[-+*/%&|^~!=<>?:;,.(){{}}\[\]]"
)
PLAIN = r"[A-Za-z_]\w*(?![\w\"'])|[(){}\[\],;]"  # most of any source, tried first for speed
PIECE = re.compile(
    rf"(?P<plain>{PLAIN})|(?P<directive>{DIRECTIVE})|(?P<comment>{COMMENT})|(?P<piece>{RAW}|{TEXT}|{CHARACTER}|{WORD}|{SIGN})|(?P<odd>\S)",
    re.MULTILINE | re.ASCII,
)
QUICK = r"[-+*&|^~!=<>?](?=[\s\w(])|\d+(?![\w.'])"  # most of the rest
USUAL = re.compile(rf"{PLAIN}|{QUICK}|{DIRECTIVE}|{COMMENT}|{TEXT}|{CHARACTER}|{WORD}|{SIGN}|\S", re.MULTILINE | re.ASCII)
AMBIGUOUS = re.compile(rf'R"|{DIGRAPH}')
"""What the text of a piece doesn't tell: raw literals, and signs that stand for others."""
ODD = re.compile(rf"(?!{PLAIN}|{WORD}|{SIGN})\S", re.ASCII)
PLAN = re.compile(r"/\*\s*plan\b[\s\S]*?\*/")
SPLICE = re.compile(r"\\\r?\n")
LAYOUT_SEEN = re.compile(r"__LINE__|__builtin_(?:LINE|COLUMN)|source_location|\?\?/|\\[ \t\f\v]+\r?\n")
TOKENISED = {"define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "pragma"}


class Likeness(StrEnum):
    """In what way a source is known."""

    EXACT = "exact"
    NORMALISED = "normalised"
    NEAR = "near"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A known candidate that a source repeats; ``similarity`` in [0, 1] is 1 unless the likeness is ``near``."""

    candidate_id: str
    likeness: Likeness
    similarity: float = 1.0


def candidate_of(source: str, language: Language) -> Candidate:
    """The candidate that a source is: its identity by exact bytes and by normal form."""
    return Candidate(id=hash_text(source), normal_id=hash_text(normal_form(source)), language=language, source=source)


def normal_form(source: str) -> str:
    """The source with comments and white space outside the plan dropped, or the source itself where that could matter.

    Tokens are parted by one space, preprocessor lines by line ends; text, character and raw literals stay as they are.
    """
    spliced = SPLICE.search(source) is not None
    if LAYOUT_SEEN.search(source) or (spliced and ('R"' in source or any(map(SPLICE.search, PLAN.findall(source))))):
        return source
    text = SPLICE.sub("", source) if spliced else source
    try:
        return " ".join(_usual_pieces(text) or _pieces(text))
    except _LayoutMattersError:
        return source


class _LayoutMattersError(Exception):
    """The scanner can't tell what layout means here."""


def _usual_pieces(text: str) -> Sequence[str]:
    """The same as ``_pieces``, twice as fast, of a text in which each piece's own letters tell what it is; else nothing."""
    if AMBIGUOUS.search(text):
        return ()
    found = USUAL.findall(text)
    distinct = set(found)
    if {"#", "##"} & distinct or any(len(piece) == 1 and ODD.match(piece) for piece in distinct):
        return ()
    normal = {piece: "" for piece in distinct if piece[:2] in ("//", "/*") and not PLAN.match(piece)}
    normal |= {piece: "".join(_pieces(piece)) for piece in distinct if piece[0] in " \t#"}
    return [piece for piece in map(normal.get, found, found) if piece] if normal else found


def _pieces(text: str) -> Iterator[str]:
    for match in PIECE.finditer(text):
        kind, piece = match.lastgroup, match[0]
        if kind in ("plain", "piece"):
            yield piece
        elif kind == "comment":
            if PLAN.match(piece):
                yield piece
        elif kind == "directive":
            yield f"\n{_directive(piece.strip())}\n"
        else:
            raise _LayoutMattersError


def _directive(line: str) -> str:
    """A preprocessor line in normal form. ``#define F(x)`` stays apart from ``#define F (x)``."""
    name = re.match(r"#\s*(\w*)", line, re.ASCII)
    if name is None or name[1] not in TOKENISED:
        return line
    matches = [match for match in PIECE.finditer(line, 1) if match.lastgroup != "comment"]
    if any(match.lastgroup not in ("plain", "piece") for match in matches):  # a single # makes text of an argument's layout
        raise _LayoutMattersError
    words = [match[0] for match in matches]
    if name[1] == "define" and len(words) > 2 and words[2] == "(" and matches[1].end() == matches[2].start():
        words[1:3] = [f"{words[1]}("]
    return "#" + " ".join(words)


class Known:
    """The sources that a run has seen, by identity. Filled in the order of asking; the first of equals is the one named."""

    def __init__(self, candidates: Iterable[Candidate] = ()) -> None:
        self._by_id: dict[str, Candidate] = {}
        self._by_normal_id: dict[str, str] = {}
        for candidate in candidates:
            self.add(candidate)

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, candidate: Candidate) -> None:
        """Remember a candidate; one that is known already changes nothing."""
        self._by_id.setdefault(candidate.id, candidate)
        self._by_normal_id.setdefault(candidate.normal_id, candidate.id)

    def get(self, candidate_id: str) -> Candidate | None:
        """The candidate of this id, None if it was never added."""
        return self._by_id.get(candidate_id)

    def duplicate(self, candidate: Candidate) -> Match | None:
        """The known candidate with the same bytes, else the first with the same normal form, else None."""
        if candidate.id in self._by_id:
            return Match(candidate_id=candidate.id, likeness=Likeness.EXACT)
        first = self._by_normal_id.get(candidate.normal_id)
        return None if first is None else Match(candidate_id=first, likeness=Likeness.NORMALISED)


def near_duplicate(candidate: Candidate, others: Iterable[Candidate], cutoff: float) -> Match | None:
    """The most similar of ``others`` whose code is at least ``cutoff`` (in [0, 1]) like the candidate's, None if there is none.

    Similarity is that of the normalised token sequences: 1 - insertions and deletions / total length. Only candidates with the
    same plan are compared, since a turned knob is meant to be a small change. Of equals the first counts.
    """
    plan, tokens = _plan_text(candidate), normal_form(candidate.source).split()
    best: Match | None = None
    for other in others:
        if _plan_text(other) != plan:
            continue
        similarity = fuzz.ratio(tokens, normal_form(other.source).split(), score_cutoff=100 * cutoff) / 100
        if similarity >= cutoff and (best is None or similarity > best.similarity):
            best = Match(candidate_id=other.id, likeness=Likeness.NEAR, similarity=similarity)
    return best


def _plan_text(candidate: Candidate) -> str:
    plan = PLAN.search(candidate.source)
    return plan[0] if plan else ""
