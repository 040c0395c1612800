"""How anybody outside takes part in a run: take a prompt, hand in an answer, ask a question. For people, programs and agents.

Nothing here needs the run's driver: it may be running or not.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.outcome import Fault
from evaluator.plan.parse import parse_plan
from evolve.stopping import GOES_ON, StopReason
from mutators.edits import apply
from mutators.headers import header_of
from mutators.question import Answer, Header, Layer, Question, Rejected, Rejection
from population.candidate import Candidate, short_id
from population.novelty import candidate_of
from results.events import CONFIG_FACT, ENDING, StepPosed
from results.mailbox import Asked, Lease, Mailbox
from results.reader import Reader
from results.rows import RunInfo

SAID_ON_PURPOSE = frozenset({Rejection.CLAIM_ONLY, Rejection.EXHAUSTED})
"""Rejections that an answer asks for itself: it claims something and brings no edit."""

LARGER = {
    StopReason.CANDIDATES: "candidates",
    StopReason.HOURS: "hours",
    StopReason.TOKENS: "tokens",
    StopReason.USD: "usd",
    StopReason.GPU_HOURS: "gpu_hours",
}
"""What of the budget would have to be larger for a run to go on."""


MOST_OF_A_QUESTION = 20_000


class AnswerRefused(Exception):  # noqa: N818  (says what is the matter)
    """An answer or question that can't be taken; the text says why, and what to do. ``rejected``: why the edit is none.

    ``mendable``: another text would be taken for the same step.
    """

    def __init__(self, message: str, rejected: Rejected | None = None, *, mendable: bool = False) -> None:
        super().__init__(message)
        self.rejected = rejected
        self.mendable = mendable


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPrompt:
    """A prompt that waits for its answer; ``text`` is the whole of it, exactly as it was put. ``lease``: who is at work on it."""

    step: int
    question: Question
    parent_id: str
    text: str
    lease: Lease | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedIn:
    """An answer that was kept. ``header`` is what it says of itself, ``rejected`` why it makes no candidate all the same."""

    step: int
    header: Header | None
    rejected: Rejected | None
    candidate_id: str | None


def take_prompt(folder: Path, name: str) -> OpenPrompt | None:
    """The prompt that ``name`` is at work on, else the first that is free, now leased to them.

    None where there is none, also where prompts are open but the run is over or about to end.
    """
    with Reader.open(folder) as reader:
        if _ended_by(reader) is not None:
            return None
        posed = {one.step.number: one for one in reader.open_steps()}
        lease = Mailbox(folder).lease(sorted(posed), name) if posed else None
        return _prompt(reader, posed[lease.step], lease) if lease else None


def show_prompt(folder: Path, step: int) -> OpenPrompt:
    """An open prompt as it stands, its lease left alone. Raises AnswerRefused where the step isn't open."""
    with Reader.open(folder) as reader:
        posed = _open_step(reader, step)
        lease = next((one for one in Mailbox(folder).leases() if one.step == step), None)
        return _prompt(reader, posed, lease)


def why_none(folder: Path) -> str:
    """Why there is no prompt to take, and what to do."""
    if over := why_over(folder):
        return over
    with Reader.open(folder) as reader:
        info, posed = reader.info(), reader.open_steps()
    mailbox = Mailbox(folder)
    held = {lease.step: lease.holder for lease in mailbox.leases()}
    done = mailbox.answered()
    working = [f"step {one.step.number} by {held[one.step.number]}" for one in posed if one.step.number in held]
    handed_in = sum(one.step.number in done for one in posed)
    if working:
        return f"every open prompt is being answered ({', '.join(working)}); look again later"
    if not info.live:
        answers = f"{handed_in} answers wait to be taken in" if handed_in else "no prompt is open"
        return f"{answers}, and no driver runs; go on: askevolve resume {folder}"
    what = "the driver evaluates what was answered" if info.steps > _seeds(info) else "the driver evaluates the seeds first"
    return f"no prompt is open now; {what}, look again in a while"


def _seeds(info: RunInfo) -> int:
    """How many seeds the run began from."""
    population = info.config["population"]
    return len(population["seeds"]) if isinstance(population, Mapping) else 0


def why_over(folder: Path) -> str | None:
    """Why nobody need answer any more, and what would go on; None while the run goes on or may be resumed as it is."""
    with Reader.open(folder) as reader:
        reason, live = _ended_by(reader), reader.info().live
    if reason is None:
        return None
    said = f"the run is about to end ({reason}): its best is verified now" if live else f"the run is over ({reason})"
    if key := LARGER.get(reason):
        return f"{said}; a larger budget goes on: askevolve resume {shlex.quote(str(folder))} --set budget.{key}=N"
    return said


def hand_in(folder: Path, step: int, answer: Answer, *, insist: bool = False) -> HandedIn:
    """Keep an answer to an open prompt; the run's driver takes it in within a second, or the next one when it starts.

    Raises AnswerRefused, and keeps nothing, where the step isn't open or has an answer already, and, unless the answerer
    insists, where the answer would make no new candidate or its plan can't be valid.
    """
    mailbox = Mailbox(folder)
    with Reader.open(folder) as reader:
        posed = _open_step(reader, step)
        if step in mailbox.answered():
            raise AnswerRefused(f"step {step} has an answer already, and the first counts")
        parent = reader.candidate(posed.step.parent_id or "")
        edited = apply(parent.source, answer.text)
        rejected = edited if isinstance(edited, Rejected) else None
        child = None if isinstance(edited, Rejected) else candidate_of(edited.source, parent.language)
        known = _known_as(reader, child) if child else None
        plan = parse_plan(child.source, child.language, reader.info().card) if child else None
    if rejected is not None and rejected.reason not in SAID_ON_PURPOSE and not insist:
        raise AnswerRefused(f"{rejected.reason.value}: {rejected.message}", rejected, mendable=True)
    if isinstance(plan, Fault) and not insist:
        raise AnswerRefused(f"{plan.verdict}: {plan.message}", mendable=True)
    if known is not None and not insist:
        raise AnswerRefused(
            f"this is the kernel {short_id(known)}, which the run has already; `askevolve show {folder} {short_id(known)}` says "
            "what became of it. Change something else",
            mendable=True,
        )
    if not mailbox.put(step, answer):
        raise AnswerRefused(f"step {step} has an answer already, and the first counts")
    header = edited.header if not isinstance(edited, Rejected) else _header(answer.text)
    return HandedIn(step=step, header=header, rejected=rejected, candidate_id=known or (child.id if child else None))


def ask_run(folder: Path, text: str, *, person: str, layer: Layer, message: bool = False, parent: str | None = None) -> Asked:
    """Have a question, or with ``message`` a mere remark, put to one of the next steps; ``parent``: to this candidate.

    Raises AnswerRefused for a parent without a score, and IdUnknown or IdAmbiguous for an id that names none.
    """
    if not text.strip():
        raise AnswerRefused("the question is empty; write it after the run's name, in quotes")
    if len(text) > MOST_OF_A_QUESTION or (not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text)):
        raise AnswerRefused(f"a question or message is UTF-8 text of at most {MOST_OF_A_QUESTION:,} characters")
    with Reader.open(folder) as reader:
        row = reader.row(parent) if parent is not None else None
        if row is not None and row.geomean is None:
            raise AnswerRefused(f"{short_id(row.id)} has no score ({row.verdict or 'not evaluated yet'}); ask about one that has")
    asked = Asked(text=text.strip(), layer=layer, message=message, parent_id=row.id if row else None, person=person)
    Mailbox(folder).ask(asked)
    return asked


def _ended_by(reader: Reader) -> StopReason | None:
    """Why a run is over, or about to be; None while it goes on or may be resumed as it is."""
    info = reader.info()
    if not info.live and info.stopped_by is not None:
        return None if info.stopped_by in GOES_ON else StopReason(info.stopped_by)
    notes = [note.facts for note in reader.latest_notes() if {ENDING, CONFIG_FACT} & note.facts.keys()]
    return StopReason(str(notes[-1][ENDING])) if notes and ENDING in notes[-1] else None


def _open_step(reader: Reader, step: int) -> StepPosed:
    posed = reader.open_steps()
    for one in posed:
        if one.step.number == step:
            return one
    taken = 0 <= step < reader.info().steps
    why = "has its answer, which was taken in" if taken else "isn't open"
    raise AnswerRefused(f"step {step} {why}; {_listed(posed)}")


def _listed(posed: Sequence[StepPosed]) -> str:
    numbers = ", ".join(str(one.step.number) for one in posed)
    return f"open are: {numbers}" if numbers else "none is open now"


def _prompt(reader: Reader, posed: StepPosed, lease: Lease | None) -> OpenPrompt:
    number = posed.step.number
    return OpenPrompt(
        step=number, question=posed.question, parent_id=posed.step.parent_id or "", text=reader.prompt(number), lease=lease
    )


def _known_as(reader: Reader, child: Candidate) -> str | None:
    """The candidate of the run that this one repeats, None also where only the harness failed that one."""
    for row in reader.candidates():
        if row.normal_id == child.normal_id or row.id == child.id:
            return None if row.verdict == "HARNESS_FAULT" else row.id
    return None


def _header(text: str) -> Header | None:
    found = header_of(text)
    return None if isinstance(found, Rejected) else found
