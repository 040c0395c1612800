"""Two logs of one search held against each other: how far they tell the same story, and what one has that the other lacks.

What a search decides is a function of what was folded when it asked and of the answers before, so only the order of what was
decided counts; where answers and outcomes stand between is a matter of when they came (docs/run-format.md, "Order").
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from results.events import (
    Event,
    FinalMeasured,
    OutcomeMerged,
    RunStarted,
    StepAsked,
    StepEvaluated,
    StepFolded,
    StepPosed,
)
from results.log import Recorded


@dataclass(slots=True)
class History:
    """A run's log by what its events mean to a search.

    ``decided`` are the events whose order counts, ``asked`` the steps by number, ``outcomes`` the run's own by step; ``others``
    say what a reader should know and decide nothing.
    """

    events: list[Recorded] = field(default_factory=list)
    decided: list[Recorded] = field(default_factory=list)
    asked: list[StepAsked] = field(default_factory=list)
    outcomes: dict[int, StepEvaluated] = field(default_factory=dict)
    others: list[Recorded] = field(default_factory=list)

    def same_step(self, other: "History", number: int) -> bool:
        """Whether both asked the same at a step and had the same outcome, or none."""
        both = number < len(self.asked) and number < len(other.asked) and self.asked[number] == other.asked[number]
        return both and self.outcomes.get(number) == other.outcomes.get(number)

    def posed(self, decided: int) -> Mapping[int, StepPosed]:
        """The steps that were posed among the first ``decided`` events that count, by number."""
        events = [recorded.event for recorded in self.decided[:decided]]
        return {event.step.number: event for event in events if isinstance(event, StepPosed)}


def history_of(recorded: Iterable[Recorded]) -> History:
    """The history that a log tells."""
    history = History()
    for one in recorded:
        history.events.append(one)
        match one.event:
            case StepAsked():
                history.asked.append(one.event)
            case StepEvaluated(step_number=number):
                history.outcomes[number] = one.event
            case _ if _decides(one.event):
                history.decided.append(one)
            case _:
                history.others.append(one)
    return history


def _decides(event: Event) -> bool:
    if isinstance(event, OutcomeMerged):
        return event.outcome.fault is not None and bool(event.outcome.fault.cheats)
    return isinstance(event, RunStarted | StepPosed | StepFolded | FinalMeasured)


def shared_decided(one: History, other: History) -> int:
    """How many of the events that count are the same from the beginning on."""
    count = 0
    for first, second in zip(one.decided, other.decided, strict=False):
        same = first.event == second.event
        if not same or (isinstance(first.event, StepFolded) and not one.same_step(other, first.event.step_number)):
            break
        count += 1
    return count


def shared_asked(one: History, other: History) -> int:
    """How many steps, from the first on, both asked alike."""
    pairs = enumerate(zip(one.asked, other.asked, strict=False))
    return next((number for number, (first, second) in pairs if first != second), min(len(one.asked), len(other.asked)))


def continuation(home: History, other: History) -> list[Recorded] | None:
    """What the other log has and home lacks, in the other's order, where home may simply go on with it.

    None where home has decided, asked or measured anything that the other doesn't know as the same.
    """
    decided, asked = shared_decided(home, other), shared_asked(home, other)
    clash = any(number in other.outcomes and event != other.outcomes[number] for number, event in home.outcomes.items())
    if decided < len(home.decided) or asked < min(len(home.asked), len(other.asked)) or clash:
        return None
    known = {id(recorded) for recorded in other.decided[:decided]}
    there: defaultdict[float, list[Event]] = defaultdict(list)
    for recorded in home.others:
        there[recorded.at].append(recorded.event)
    return [one for one in other.events if id(one) not in known and _lacks(home, there, one)]


def _lacks(home: History, there: Mapping[float, list[Event]], one: Recorded) -> bool:
    """Whether home lacks an event that isn't among the shared ones; events that decide nothing are told apart by their time."""
    match one.event:
        case StepAsked(step=step):
            return step.number >= len(home.asked)
        case StepEvaluated(step_number=number):
            return number not in home.outcomes
        case event:
            return _decides(event) or event not in there.get(one.at, ())
