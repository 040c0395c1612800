"""Whether bank entries are good questions: no instruction, no ready answer, every name known, a way to settle it."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz

from evaluator.expression import ExpressionError, Mode, parse
from mutators.bank import BACKENDS, Entry
from mutators.facts import FACTS
from mutators.question import Moment

MAX_CHARS, MIN_CHARS, MIN_SETTLE_CHARS, MIN_COMMAND_CHARS = 420, 40, 8, 12
NEAR_DUPLICATE = 82.0

_DEEDS = (
    "add|allocate|apply|avoid|consider|decrease|double|drop|explain|fix|fuse|halve|hoist|implement|increase|inline|insert|"
    "interleave|keep|lower|make|merge|move|optimi[sz]e|paralleli[sz]e|precompute|put|raise|recompute|reduce|remove|reorder|"
    "replace|rewrite|skip|speciali[sz]e|swap|transpose|tune|unroll|vectori[sz]e"
)
_OPENERS = (
    "align|batch|block|break|cache|change|check|choose|compute|convert|copy|count|cut|fold|launch|let|load|look|measure|name|"
    "overlap|pack|pad|pipeline|prefetch|process|profile|run|set|shift|show|shrink|split|start|stop|store|switch|tell|test|"
    "think|tile|turn|walk|write"
)
_ORDERS = (
    "balance|begin|bring|choose|correct|decide|defer|divide|do|enlarge|extend|fill|find|follow|form|give|go|group|hand|hide|issue|lay|"
    "mark|number|order|overtake|prepare|release|relieve|restore|reverse|separate|share|shorten|shrink|spend|treat|turn|visit"
)
_COMMAND = re.compile(rf"(?:[^.;?]*,\s+)?({_DEEDS}|{_OPENERS}|{_ORDERS})\b", re.IGNORECASE)
_IMPERATIVE = re.compile(
    rf"(?:^|[.;?!]\s+|\bplease\s+|\bthen\s+)({_DEEDS}|{_OPENERS})\b|(?:[,:]\s+|\band\s+)({_DEEDS})\b", re.IGNORECASE
)
_INSTRUCTIONS = (
    (re.compile(r"\b(use|try|using|trying)\b", re.IGNORECASE), "says `{}`"),
    (re.compile(r"\breplac\w*\b.*\b(?:with|by)\b", re.IGNORECASE), "says `{}`"),
    (
        re.compile(r"\b(?:you|it|we|one)\s+(?:should|must|need to|needs to|could|might|ought to|can)\b", re.IGNORECASE),
        "says `{}`",
    ),
    (re.compile(r"\b(?:should|ought)\b", re.IGNORECASE), "says `{}`"),
    (
        re.compile(
            r"\b(?:why not|how about|what about|what if you|have you (?:tried|considered)|would it help|let us|let's)\b", re.I
        ),
        "says `{}`",
    ),
    (re.compile(r"\b(?:switch(?:ing)? to|chang(?:e|ing) .* to|instead of \w+ing)\b", re.IGNORECASE), "says `{}`"),
    (re.compile(r"\b(?:is|be|it's) (?:better|faster|best|cheaper) to\b", re.IGNORECASE), "says `{}`"),
)
_ANSWERS = (
    (re.compile(r"`[^`]+`|[;{}]\s*$|\w+\([^)]*\)\s*;|<<<"), "holds code `{}`"),
    (re.compile(r"\b[A-Za-z_]\w*\s*(?:=|->|:=)\s*\w+"), "holds an assignment `{}`"),
    (re.compile(r"(?<![\w.])\d{2,}(?![\w.])"), "holds the number {}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What is wrong with one entry: which rule, and what to write instead."""

    entry_id: str
    source: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.source}: {self.entry_id}: {self.message}"


def lint(bank: Sequence[Entry], symbols: Collection[str] = ()) -> tuple[Complaint, ...]:
    """Every complaint about a bank, in its order; none means that it may be asked from.

    ``symbols`` are further names that facts may hold: the scenario symbols of a task with its own questions.
    """
    names = FACTS.keys() | set(symbols)
    found: list[Complaint] = []
    for index, entry in enumerate(bank):
        found += _entry(entry, names)
        found += _repeated(entry, bank[:index])
    return tuple(found + _gaps(bank))


def _entry(entry: Entry, names: Collection[str]) -> list[Complaint]:
    found = [*_form(entry), *_names(entry, names), *(_command(entry) if entry.command else ())]
    text = re.sub(r"\{[^{}]*\}", "it", entry.text)
    imperative = _IMPERATIVE.search(text)
    if imperative:
        found.append(
            _of(
                entry,
                "instruction",
                f"orders something (`{imperative[1] or imperative[2]}`). Ask what is the case, not for a deed.",
            )
        )
    for pattern, what in _INSTRUCTIONS:
        if hit := pattern.search(text):
            message = f"{what.format(hit[0])}, which is an instruction. Ask what is the case, so that the reader finds the deed."
            found.append(_of(entry, "instruction", message))
    for pattern, what in _ANSWERS:
        if hit := pattern.search(text):
            message = f"{what.format(hit[0])}, which is a ready answer. Take the figure from a fact, or leave it to the reader."
            found.append(_of(entry, "answer", message))
    return found


def _form(entry: Entry) -> list[Complaint]:
    found = []
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entry.id):
        found.append(_of(entry, "id", "the id is no lower-case words joined by hyphens."))
    if not entry.text.rstrip().endswith("?"):
        found.append(_of(entry, "question", "the text doesn't end in a question mark. End it with what is asked."))
    if len(entry.text) > MAX_CHARS:
        found.append(_of(entry, "length", f"the text has {len(entry.text)} characters. Keep one thought in {MAX_CHARS}."))
    if len(entry.text) < MIN_CHARS:
        found.append(
            _of(entry, "length", f"the text has {len(entry.text)} characters. Name one hypothesis; {MIN_CHARS} at least.")
        )
    if len(entry.settle.strip()) < MIN_SETTLE_CHARS:
        found.append(_of(entry, "settle", "nothing says how the harness would settle it. Name the measurement in `settle`."))
    return found


def _names(entry: Entry, names: Collection[str]) -> list[Complaint]:
    found = []
    for slot in entry.slots:
        if slot not in names:
            found.append(
                _of(entry, "slot", f"no fact is called {slot!r}. Slots come from mutators.facts.FACTS{_near(slot, names)}.")
            )
    if re.sub(r"\{[a-z_]\w*\}", "", entry.text).count("{"):
        found.append(_of(entry, "slot", "a brace doesn't belong to a slot. A slot is {name}, nothing else in the braces."))
    if not entry.when:
        return found
    try:
        unknown = sorted(parse(entry.when, Mode.FACTS).names - set(names))
    except ExpressionError as error:
        return [*found, _of(entry, "when", f"the precondition can't be read: {error}.")]
    for name in unknown:
        found.append(_of(entry, "when", f"no fact is called {name!r}, so it would never be asked{_near(name, names)}."))
    return found


def _command(entry: Entry) -> list[Complaint]:
    """An order about the same matter: it begins with a deed, asks nothing, and knows no more than the question."""
    found = []
    if "?" in entry.command or not _COMMAND.match(entry.command):
        found.append(_of(entry, "command", "the command is no order. Begin it with the deed, and ask nothing in it."))
    if more := sorted(set(entry.command_slots) - set(entry.slots)):
        message = f"the command names {', '.join(more)}, which the question doesn't. Both must carry the same facts."
        found.append(_of(entry, "command", message))
    if left_out := sorted(set(entry.slots) - set(entry.command_slots)):
        message = f"the command leaves out {', '.join(left_out)}, which the question names. Both must carry the same facts."
        found.append(_of(entry, "command", message))
    if not MIN_COMMAND_CHARS <= len(entry.command) <= MAX_CHARS:
        message = f"the command has {len(entry.command)} characters. Write {MIN_COMMAND_CHARS} to {MAX_CHARS}."
        found.append(_of(entry, "command", message))
    return found


def _near(name: str, names: Collection[str]) -> str:
    best = max(sorted(names), key=lambda known: fuzz.ratio(name, known), default="")
    return f"; did you mean {best!r}?" if best and fuzz.ratio(name, best) >= 60 else ""


def _repeated(entry: Entry, earlier: Sequence[Entry]) -> list[Complaint]:
    found = []
    for other in earlier:
        if other.id == entry.id:
            found.append(_of(entry, "duplicate", f"the id is taken (in {other.source}). Give it another."))
        elif fuzz.token_sort_ratio(other.text, entry.text) >= NEAR_DUPLICATE:
            found.append(_of(entry, "duplicate", f"asks nearly what {other.id} asks. Keep the better one."))
    return found


def _gaps(bank: Sequence[Entry]) -> list[Complaint]:
    """Moments that some backend has no unconditional question for."""
    free = {
        (moment, backend)
        for entry in bank
        if not entry.slots and not entry.when
        for moment in entry.moments
        for backend in entry.backends
    }
    return [
        Complaint(
            entry_id="(whole bank)",
            source="bank",
            rule="gap",
            message=f"no question without slots and precondition for {moment.value} on {backend}. Add one.",
        )
        for moment in Moment
        for backend in BACKENDS
        if (moment, backend) not in free
    ]


def _of(entry: Entry, rule: str, message: str) -> Complaint:
    return Complaint(entry_id=entry.id, source=entry.source, rule=rule, message=message)
