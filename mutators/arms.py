"""The same matter put in three ways, so that the method itself can be tested: as a question, as an order, or as a bare request.

All three arms know the same facts. Pure functions from an entry or question and the facts to text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from mutators.bank import Entry
from mutators.facts import FACTS
from mutators.question import FactValue, Question
from mutators.questions import shown
from population.candidate import hash_text


class Arm(StrEnum):
    """How a step's matter is put to whoever answers."""

    QUESTION = "question"
    COMMAND = "command"
    TOOLS = "tools"


REQUEST = "Make this kernel faster in as many scenarios as possible, and keep it right in all of them."
"""What the arm with tools is asked at every step."""


def phrased(
    arm: Arm, question: Question, bank: Sequence[Entry], facts: Mapping[str, FactValue], tools: Sequence[str]
) -> Question:
    """The question in the form of an arm: its text and id change, its entry, layer, moment and facts stay.

    ``facts`` are all that is known about the parent, ``tools`` name what the answerer may call (with one line on each); only the
    arm with tools shows them. A question of a person, or one whose entry has no command, has no other form than its own text:
    LookupError says so.
    """
    match arm:
        case Arm.QUESTION:
            return question
        case Arm.COMMAND:
            return _with_text(question, command_of(question, bank))
        case Arm.TOOLS:
            return _with_text(question, request_of(facts, tools))


def command_of(question: Question, bank: Sequence[Entry]) -> str:
    """The order about the matter of a question, filled with the very facts of the question. LookupError where there is none."""
    entry = next((entry for entry in bank if entry.id == question.entry_id), None)
    if entry is None or not entry.command:
        raise LookupError(f"{question.entry_id} has no command; add `command` to its entry, or leave it out of the comparison")
    return entry.fill_command({name: shown(value) for name, value in question.facts.items()})


def request_of(facts: Mapping[str, FactValue], tools: Sequence[str]) -> str:
    """The bare request with every fact and its meaning, in the order of ``FACTS``, and the tools at hand."""
    known = [f"- {name} = {shown(facts[name])}  ({meaning})" for name, meaning in FACTS.items() if name in facts]
    named = [f"- {tool}" for tool in tools]
    sections = [REQUEST]
    if known:
        sections.append("\n".join(["What is known about it:", *known]))
    if named:
        sections.append("\n".join(["Tools at hand:", *named]))
    return "\n\n".join(sections)


def _with_text(question: Question, text: str) -> Question:
    return replace(question, text=text, id=hash_text(f"{question.entry_id}\n{text}"))
