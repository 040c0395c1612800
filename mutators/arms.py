"""The same matter put in three ways, so that the method itself can be tested: as a question, as an order, or as a bare request.

All three arms know the same facts. Pure functions from an entry or question and the facts to text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from mutators.bank import Entry
from mutators.facts import FACTS
from mutators.question import FactValue, Layer, Question
from mutators.questions import shown


class Arm(StrEnum):
    """How a step's matter is put to whoever answers."""

    QUESTION = "question"
    COMMAND = "command"
    TOOLS = "tools"


REQUEST = "Make this kernel faster in as many scenarios as possible, and keep it right in all of them."
"""What the arm with tools is asked at every step."""

REQUEST_SETTLED_BY = "the checks and times of the edit that answers it"
"""How the bare request is decided: a question's own measurement would give its matter away."""

ORDERS: Mapping[Layer, str] = {
    Layer.ALGORITHM: "Change what this kernel computes so that it computes less.",
    Layer.SCHEDULE: "Reorder this kernel's work so that its units wait less for one another.",
    Layer.MEMORY: "Reduce what this kernel moves between memories, or how long it waits for it.",
    Layer.INSTRUCTION: "Reduce the instructions that this kernel issues for the same work, or take cheaper ones.",
    Layer.NUMERICS: "Make this kernel's arithmetic cheaper within what its tolerances allow.",
    Layer.LAUNCH: "Divide this kernel's work so that fewer cores or blocks stand idle.",
    Layer.PLAN: "Change this kernel's plan (launches, workspace, what is computed anew) so that it takes less time.",
    Layer.MEASUREMENT: "Find the scenario that loses most time beyond its bound, and make this kernel faster there.",
}
"""The order about a layer, for questions whose entry brings none of its own."""


def phrased(arm: Arm, question: Question, bank: Sequence[Entry], facts: Mapping[str, FactValue]) -> Question:
    """The question in the form of an arm. Its text changes; its id stays, so that no arm asks a parent the same matter twice, and
    so do entry, layer, moment and facts.

    ``facts`` are all that is known about the parent; only the bare request shows them all, and says nothing of how the question
    would be settled.
    """
    match arm:
        case Arm.QUESTION:
            return question
        case Arm.COMMAND:
            return replace(question, text=command_of(question, bank))
        case Arm.TOOLS:
            return replace(question, text=request_of(facts), settle=REQUEST_SETTLED_BY)


def command_of(question: Question, bank: Sequence[Entry]) -> str:
    """The order about the matter of a question, filled with the very facts of the question.

    Where its entry has no command, or isn't in this bank, it is the order about the question's layer with the same facts.
    """
    entry = next((entry for entry in bank if entry.id == question.entry_id), None)
    if entry is not None and entry.command:
        return entry.fill_command({name: shown(value) for name, value in question.facts.items()})
    known = [_known(name, value) for name, value in question.facts.items()]
    return " ".join([ORDERS[question.layer], *([f"Known here: {'; '.join(known)}."] if known else [])])


def without_command(bank: Sequence[Entry]) -> tuple[str, ...]:
    """Ids of the entries that are put as the order about their layer, in the bank's order."""
    return tuple(entry.id for entry in bank if not entry.command)


def request_of(facts: Mapping[str, FactValue]) -> str:
    """The bare request with every fact and its meaning, in the order of ``FACTS``."""
    known = [f"- {_known(name, facts[name])}" for name in FACTS if name in facts]
    return "\n\n".join([REQUEST, *(["\n".join(["What is known about it:", *known])] if known else [])])


def _known(name: str, value: FactValue) -> str:
    """A fact with its value and, where the bank knows it, its meaning."""
    meaning = FACTS.get(name)
    return f"{name} = {shown(value)}" + (f" ({meaning})" if meaning else "")
