"""From the state of a run to its next step: choose, notice, ask, phrase, answer, edit, recognise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolve.errors import AnswererFailed
from evolve.state import State
from mutators.answerers.base import Answerer, Prompt, Relative
from mutators.attempts import assignment_of, relative_of
from mutators.bank import Entry
from mutators.edits import Applied, apply
from mutators.facts import facts_of
from mutators.headers import header_of
from mutators.moments import MomentSettings, ancestry, last_from, notice
from mutators.prompt import Inspiration, build_prompt
from mutators.question import Answer, Header, Question, Rejected
from mutators.questions import backend_of, choose
from population.candidate import Candidate, Knob, Origin, Step
from population.novelty import candidate_of
from population.selection import Selection, select
from results.events import StepAsked

OPEN = "open"
"""The verdict, in a parent's history, of an attempt whose outcome hasn't been folded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """Who asks and who answers."""

    bank: tuple[Entry, ...]
    answerer: Answerer
    moments: MomentSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The random streams of one step. They depend on the run's seed and the step's number alone, so a replay draws the same."""

    selection: np.random.Generator
    question: np.random.Generator
    answer: np.random.Generator


def streams(seed: int, number: int) -> Streams:
    """The streams of step ``number``."""
    children = np.random.SeedSequence(seed, spawn_key=(number,)).spawn(3)
    selection, question, answer = (np.random.default_rng(child) for child in children)
    return Streams(selection=selection, question=question, answer=answer)


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


def propose(state: State, mutation: Mutation, seed: int) -> StepAsked | None:
    """The next step, asked and answered; None while the answer isn't there. Needs a right candidate in the archive.

    Raises AnswererFailed where the answerer raises.
    """
    number = state.next_number
    random = streams(seed, number)
    island = state.archive.island_of(number)
    selection = select(state.archive, island, random.selection)
    if selection is None:
        raise LookupError(f"nobody lives on island {island}: no seed is right")
    question = _question(state, mutation, island, selection.parent_id, random.question)
    prompt = _prompt(state, number, island, selection, question)
    try:
        answer = mutation.answerer.answer(prompt, random.answer)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise AnswererFailed(f"the answerer {mutation.answerer.name} failed at step {number} ({what})") from error
    if answer is None:
        return None
    edited = apply(prompt.parent.source, answer.text)
    child = None if isinstance(edited, Rejected) else candidate_of(edited.source, prompt.parent.language)
    known = None if child is None else state.known_as(child)
    step = Step(
        number=number,
        origin=Origin.QUESTION,
        island=island,
        parent_id=selection.parent_id,
        candidate_id=known or (child.id if child else None),
        inspiration_ids=selection.inspiration_ids,
    )
    return StepAsked(
        step=step,
        question=question,
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


def _question(state: State, mutation: Mutation, island: int, parent_id: str, rng: np.random.Generator) -> Question:
    history = state.attempts[island]
    moment = notice(history, parent_id, mutation.moments)
    made = state.makers[parent_id]
    facts = facts_of(
        card=state.card,
        parent_id=parent_id,
        outcome=state.outcomes[parent_id],
        knobs=state.knobs(parent_id),
        grandparent=state.outcomes.get(made.parent_id) if made.parent_id else None,
        history=history,
    )
    return choose(
        mutation.bank,
        moment,
        facts,
        state.records,
        state.layers[island],
        backend_of(state.candidate(parent_id).language),
        rng,
        prior=state.prior,
        asked_ids={asked.question.id for asked in state.steps_from(parent_id) if asked.question},
    )


def _prompt(state: State, number: int, island: int, selection: Selection, question: Question) -> Prompt:
    parent_id = selection.parent_id
    last = last_from(state.attempts[island], parent_id)
    lines = reversed(ancestry(state.makers, parent_id))
    return build_prompt(
        step_number=number,
        question=question,
        card=state.card,
        parent=state.candidate(parent_id),
        outcome=state.outcomes[parent_id],
        knobs=state.knobs(parent_id),
        children=_children(state, parent_id),
        lineage=[relative_of(attempt, state.knobs(attempt.candidate_id)) for attempt in lines if attempt.candidate_id],
        inspirations=[_inspiration(state, candidate_id) for candidate_id in selection.inspiration_ids],
        evidence=last.failure.detail if last and last.failure else "",
    )


def _children(state: State, parent_id: str) -> list[Relative]:
    """Every attempt from a parent on any island, oldest first; those still being evaluated too, so that none is repeated."""
    children = []
    for asked in state.steps_from(parent_id):
        candidate_id = asked.step.candidate_id
        knobs = state.knobs(candidate_id) if candidate_id else ()
        attempt = state.attempt(asked.step.number)
        children.append(relative_of(attempt, knobs) if attempt else _open(asked, knobs))
    return children


def _open(asked: StepAsked, knobs: Sequence[Knob]) -> Relative:
    header = asked.header or Header(hypothesis="")
    return Relative(
        number=asked.step.number,
        question=asked.question.text if asked.question else "",
        hypothesis=header.hypothesis,
        prediction=header.prediction,
        verdict=asked.rejected.reason if asked.rejected else OPEN,
        ratio=None,
        knobs=assignment_of(knobs),
    )


def _inspiration(state: State, candidate_id: str) -> Inspiration:
    fitness = state.outcomes[candidate_id].fitness
    if fitness is None:
        raise ValueError(f"{candidate_id} is in the archive without a score")
    return Inspiration(candidate=state.candidate(candidate_id), ratio=fitness.geomean)
