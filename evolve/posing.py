"""From the state of a run to its next open step: choose, notice, ask, phrase."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.outcome import Outcome
from evolve.state import State
from mutators.answerers.base import Prompt, Relative
from mutators.arms import Arm, phrased
from mutators.attempts import SWEPT, relative_of
from mutators.bank import Entry
from mutators.facts import facts_of
from mutators.moments import MomentSettings, ancestry, last_from, notice
from mutators.prompt import Inspiration, build_prompt
from mutators.question import Moment, Question
from mutators.questions import backend_of, choose
from mutators.records import MESSAGE
from population.candidate import Candidate, Origin, Step, hash_text
from population.selection import Policy, Selection, by_rank, select
from results.events import StepPosed
from results.mailbox import Asked

OPEN = "open"
"""The verdict, in a parent's history, of a step whose result isn't to be seen yet."""

HUMAN = "human"
"""Name, in place of a bank entry's, of what a person asked."""

SETTLED_BY = "the checks and times of the edit that answers it"
"""How what a person asked is decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """Of whom is asked, what, when, and in which form. ``machine_code``: a kernel's, as text, for the arm that shows it."""

    bank: tuple[Entry, ...]
    moments: MomentSettings
    arm: Arm = Arm.QUESTION
    machine_code: Callable[[Candidate, Outcome], str] | None = None
    policy: Policy = by_rank


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


def pose(state: State, mutation: Mutation, seed: int, asked: Sequence[Asked] = ()) -> tuple[StepPosed, Prompt]:
    """The next step, open, and its prompt. Needs a right candidate in the archive.

    ``asked`` is everything that people ever asked of this run: the first of it that hasn't been put and can be is put now, and
    what they only told goes along.
    """
    number = state.next_number
    random = streams(seed, number)
    island = state.archive.island_of(number)
    selection = select(state.archive, island, random.selection, mutation.policy)
    if selection is None:
        raise LookupError(f"nobody lives on island {island}: no seed is right")
    due = _due(state, asked)
    human = next((one for one in due if not one.message), None)
    wanted = human or next((one for one in due if one.parent_id is not None), None)
    if wanted is not None and wanted.parent_id is not None:
        selection = Selection(parent_id=wanted.parent_id, inspiration_ids=())
    question = _question(state, mutation, island, selection.parent_id, random.question, human)
    told = tuple(one.text for one in due if one.message and one.parent_id in (None, selection.parent_id))
    question = replace(question, told=told)
    prompt = replace(_prompt(state, mutation, number, island, selection, question), models=state.models)
    step = Step(
        number=number,
        origin=Origin.QUESTION if human is None else Origin.HUMAN,
        island=island,
        parent_id=selection.parent_id,
        candidate_id=None,
        inspiration_ids=selection.inspiration_ids,
    )
    return StepPosed(step=step, question=question, prompt_hash=hash_text(prompt.text)), prompt


def prompt_again(state: State, number: int, text: str) -> Prompt:
    """The prompt of an open step as it was posed, given its text."""
    opened = state.open[number]
    parent_id = opened.posed.step.parent_id
    if parent_id is None:
        raise ValueError(f"step {number} was posed without a parent")
    return Prompt(
        step_number=number,
        question=opened.posed.question,
        parent=state.candidate(parent_id),
        knobs=state.knobs(parent_id),
        children=tuple(_children(state, parent_id, number, opened.folded)),
        lineage=tuple(line_of(state, parent_id)),
        text=text,
        models=opened.models,
    )


def _due(state: State, asked: Sequence[Asked]) -> Sequence[Asked]:
    """What people asked or told that hasn't been put yet and whose kernel, where it names one, has a score; oldest first."""
    if not asked:  # what was put so far is as long as the run
        return ()
    due: list[Asked] = []
    put = Counter((*state.question_ids(Origin.HUMAN), *_told(state)))
    for one in asked:
        keys = [key for key in (_human_id(one), one.text if one.message else "") if put[key]]
        if keys:
            put[keys[0]] -= 1
        elif one.parent_id is None or _has_score(state, one.parent_id):
            due.append(one)
    return due


def _told(state: State) -> Iterator[str]:
    """Every text that was told along with a question so far, open steps included."""
    for number in range(state.next_number):
        question = state.question(number)
        yield from question.told if question else ()


def _has_score(state: State, candidate_id: str) -> bool:
    outcome = state.outcomes.get(candidate_id)
    return outcome is not None and outcome.fitness is not None and candidate_id not in state.quarantined


def _human_id(asked: Asked) -> str:
    """The question's id; a message had one of its own when it was still a step."""
    return hash_text(f"{MESSAGE if asked.message else HUMAN}\n{asked.parent_id or ''}\n{asked.text}")


def _question(
    state: State, mutation: Mutation, island: int, parent_id: str, rng: np.random.Generator, human: Asked | None
) -> Question:
    history = state.attempts[island]
    moment = notice(history, parent_id, mutation.moments)
    if human is not None:
        return _put(human, moment)
    made = state.makers[parent_id]
    facts = facts_of(
        card=state.card,
        parent_id=parent_id,
        outcome=state.outcomes[parent_id],
        knobs=state.knobs(parent_id),
        grandparent=state.outcomes.get(made.parent_id) if made.parent_id else None,
        history=history,
    )
    chosen = choose(
        mutation.bank,
        moment,
        facts,
        state.records,
        state.layers[island],
        backend_of(state.candidate(parent_id).language),
        rng,
        prior=state.prior,
        asked_ids={question.id for number in state.steps_from(parent_id) if (question := state.question(number))},
    )
    return phrased(mutation.arm, chosen, mutation.bank, facts)


def _put(human: Asked, moment: Moment) -> Question:
    """What a person asked, as a question."""
    return Question(
        id=_human_id(human),
        entry_id=HUMAN,
        layer=human.layer,
        moment=moment,
        text=human.text,
        settle=SETTLED_BY,
    )


def _prompt(state: State, mutation: Mutation, number: int, island: int, selection: Selection, question: Question) -> Prompt:
    parent_id = selection.parent_id
    parent, outcome = state.candidate(parent_id), state.outcomes[parent_id]
    last = last_from(state.attempts[island], parent_id)
    return build_prompt(
        step_number=number,
        question=question,
        card=state.card,
        parent=parent,
        outcome=outcome,
        knobs=state.knobs(parent_id),
        children=_children(state, parent_id, number, state.folded),
        lineage=line_of(state, parent_id),
        inspirations=[_inspiration(state, candidate_id) for candidate_id in selection.inspiration_ids],
        evidence=last.failure.detail if last and last.failure else "",
        machine_code=mutation.machine_code(parent, outcome) if mutation.machine_code else "",
    )


def line_of(state: State, parent_id: str) -> list[Relative]:
    """A candidate's own line, oldest first, itself included."""
    line = reversed(ancestry(state.makers, parent_id))
    return [relative_of(attempt, state.knobs(attempt.candidate_id)) for attempt in line if attempt.candidate_id]


def _children(state: State, parent_id: str, number: int, folded: int) -> list[Relative]:
    """Every step from a parent before step ``number``, on any island, oldest first.

    Of those that weren't among the ``folded`` steps only the question is told, since their answers may come in any order.
    """
    earlier = [child for child in state.steps_from(parent_id) if child < number]
    return [_folded(state, child) if child < folded else _open(state, child) for child in earlier]


def _folded(state: State, number: int) -> Relative:
    attempt = state.attempt(number)
    return relative_of(attempt, state.knobs(attempt.candidate_id) if attempt.candidate_id else ())


def _open(state: State, number: int) -> Relative:
    question = state.question(number)
    text = question.text if question else SWEPT
    return Relative(number=number, question=text, hypothesis="", prediction={}, verdict=OPEN, ratio=None, knobs={})


def _inspiration(state: State, candidate_id: str) -> Inspiration:
    fitness = state.outcomes[candidate_id].fitness
    if fitness is None:
        raise ValueError(f"{candidate_id} is in the archive without a score")
    return Inspiration(candidate=state.candidate(candidate_id), ratio=fitness.geomean)
