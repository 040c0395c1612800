"""From answers, and from seed kernels, to steps whose candidate is known: edit, recognise."""

from collections.abc import Sequence
from dataclasses import replace

from evolve.state import State
from mutators.edits import Applied, apply
from mutators.headers import header_of
from mutators.question import Answer, Header, Rejected
from population.candidate import Candidate, Origin, Step
from population.novelty import candidate_of
from results.events import StepAsked


def plant(state: State, seeds: Sequence[Candidate]) -> list[StepAsked]:
    """The next steps, one for each seed; a seed that repeats an earlier one of them is a duplicate."""
    planted: list[StepAsked] = []
    first: dict[str, str] = {}
    for number, seed in enumerate(seeds, state.next_number):
        known = first.get(seed.normal_id)
        first.setdefault(seed.normal_id, seed.id)
        island = state.archive.island_of(number)
        step = Step(number=number, origin=Origin.SEED, island=island, parent_id=None, candidate_id=known or seed.id)
        planted.append(StepAsked(step=step, candidate=None if known else seed, duplicate_of=known))
    return planted


def take_in(state: State, answer: Answer) -> StepAsked:
    """The oldest open step with its answer."""
    opened = state.open[len(state.asked)]
    step = opened.posed.step
    if step.parent_id is None:
        raise ValueError(f"step {step.number} was posed without a parent")
    parent = state.candidate(step.parent_id)
    edited = apply(parent.source, answer.text)
    child = None if isinstance(edited, Rejected) else candidate_of(edited.source, parent.language)
    known = None if child is None else state.known_as(child, opened.folded)
    return StepAsked(
        step=replace(step, candidate_id=known or (child.id if child else None)),
        question=opened.posed.question,
        answer=answer,
        header=_header(answer, edited),
        rejected=edited if isinstance(edited, Rejected) else None,
        candidate=None if known else child,
        duplicate_of=known,
    )


def _header(answer: Answer, edited: Applied | Rejected) -> Header | None:
    """What the answer said of itself; a rejected one may still claim a ceiling."""
    if not isinstance(edited, Rejected):
        return edited.header
    found = header_of(answer.text)
    return None if isinstance(found, Rejected) else found
