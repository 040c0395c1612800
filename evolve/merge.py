"""Bringing home what was measured elsewhere: one transaction for each place that it comes from.

Where home has decided nothing that the other log doesn't know, and all is measured on one kind of device, home simply goes on
with the other's events: the run is then the one that a single machine would have made. Where it has, ``evolve.merge_rules`` says
what becomes of each outcome. Nothing is stored before the whole log has been replayed with it.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from evaluator.outcome import Outcome
from evolve.api import stored_config
from evolve.errors import MergeRefused
from evolve.merge_checks import check
from evolve.merge_plan import MERGED_FACT, How, planned
from evolve.merge_rules import Timed
from evolve.merge_sources import Brought, brought_from
from evolve.rules import rules_of
from evolve.state import ReplayError, State
from results.errors import RunError
from results.events import (
    FinalMeasured,
    OutcomeMerged,
    RunNoted,
    StepEvaluated,
    StepPosed,
)
from results.log import Recorded
from results.mailbox import Mailbox
from results.merge_history import history_of
from results.outcome_text import device_text
from results.reader import Reader
from results.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What came home, or with a dry run would come, from one place. ``events`` are those that are stored, oldest first.

    ``answers`` counts those that wait in the other's mailbox for prompts that are open at home, with what people asked there.
    """

    place: str
    name: str
    how: How
    events: Sequence[Recorded]
    answers: int

    @property
    def outcomes(self) -> Sequence[tuple[str, Outcome]]:
        """Each outcome with what became of it: the result of a step, a final, or beside the run's own."""
        return [found for recorded in self.events if (found := _told(recorded)) is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What didn't come home, and why; ``damaged``: it can't be read as a run, whatever it measured."""

    place: str
    reason: str
    damaged: bool


def merge(
    home: Path, places: Sequence[str], *, dry_run: bool = False, clock: Callable[[], float] = time.time
) -> list[Came | Refused]:
    """What became of each place, in order: all that it holds came home, or nothing of it.

    A place is a run by name or folder, or a file of what ``askevolve evaluate --json`` printed; it is only read. Raises
    ``results.errors.RunError`` about ``home``: RunInUse where a driver works on it (not with ``dry_run``, which only reads).
    """
    opened: AbstractContextManager[Store | Reader] = Reader.open(home) if dry_run else Store.open(home)
    with opened as store:
        stored = list(store.events())
        told: list[Came | Refused] = []
        for place in places:
            try:
                came = _take(home, stored, place, store if isinstance(store, Store) else None, clock)
            except (MergeRefused, RunError) as error:
                told.append(Refused(place=place, reason=str(error), damaged=isinstance(error, RunError)))
                continue
            stored += came.events
            told.append(came)
    return told


def _take(home: Path, stored: Sequence[Recorded], place: str, store: Store | None, clock: Callable[[], float]) -> Came:
    """Plan, replay, and where there is a ``store`` store what comes from one place."""
    history = history_of(stored)
    found = brought_from(place, history)
    check(place, found, history)
    if found.folder is not None and found.folder.samefile(home):
        raise MergeRefused(f"{place}: that is the run itself; name the copy, or the file, that comes home to it")
    state = _replayed(stored)
    how, events = planned(history, found, state, clock())
    after = _apply(place, state, events)
    if events:
        events = [*events, (clock(), _note(found.name, how, events))]
    copied = found.folder is not None and found.history.events[0].event == history.events[0].event
    prompts = [found.prompts[event.prompt_hash] for _, event in events if isinstance(event, StepPosed)]
    first = len(stored) + 1
    if store is not None and events:
        store.take_over(events, prompts=prompts)
    return Came(
        place=place,
        name=found.name,
        how=how if events else How.NOTHING,
        events=[Recorded(seq=first + number, at=at, event=event) for number, (at, event) in enumerate(events)],
        answers=_carry_mail(home, found, after, copied=copied, keep=store is not None),
    )


def _replayed(stored: Sequence[Recorded]) -> State:
    config, card = stored_config([recorded.event for recorded in stored])
    state = State(card, rules_of(config))
    for recorded in stored:
        state.apply(recorded.event)
    return state


def _apply(place: str, state: State, events: Sequence[Timed]) -> State:
    """The state after the events. Raises MergeRefused where they don't fit it, so that no log is stored that can't be resumed."""
    try:
        for _, event in events:
            state.apply(event)
    except (ReplayError, KeyError, ValueError) as error:
        raise MergeRefused(
            f"{place}: its log doesn't replay after the run's own ({error}); use the same version of askevolve on both machines, "
            "or copy it again"
        ) from error
    return state


def _note(name: str, how: How, events: Sequence[Timed]) -> RunNoted:
    """What a reader of the run should know about a merge."""
    kinds = Counter(type(event).__name__ for _, event in events)
    told = [event.outcome for _, event in events if isinstance(event, StepEvaluated | FinalMeasured | OutcomeMerged)]
    devices = sorted({device_text(outcome.device) for outcome in told})
    where = f", measured on {' and '.join(devices)}" if devices else ""
    beside = f"{kinds['OutcomeMerged']} of them stand beside the run's own"
    became = "the run goes on with its events" if how is How.GOES_ON else beside
    text = f"merged {name}: {len(told)} outcomes{where}; {became}"
    return RunNoted(text=text, facts={MERGED_FACT: {"from": name, "how": how.value, "devices": devices, "events": dict(kinds)}})


def _carry_mail(home: Path, found: Brought, after: State, *, copied: bool, keep: bool) -> int:
    """How many answers and, in a copy of the run, questions of people wait in the other's mailbox; with ``keep`` they are put
    into the run's own.

    An answer belongs to a prompt: only where both have put the same one, and none is there yet. The mailbox comes after the
    store, so that an answer never waits for a prompt that another log might put differently; what a kill keeps from
    coming, the next merge brings.
    """
    if found.folder is None:
        return 0
    there, here = Mailbox(found.folder), Mailbox(home)
    posed = found.history.posed(len(found.history.decided))
    wanted = [number for number, opened in after.open.items() if posed.get(number) == opened.posed]
    answers = {number: answer for number in sorted(set(wanted) - here.answered()) if (answer := there.answer(number)) is not None}
    asked = [*(Counter(there.asked()) - Counter(here.asked())).elements()] if copied else []
    if keep:
        for number, answer in answers.items():
            here.put(number, answer)
        for one in asked:
            here.ask(one)
    return len(answers) + len(asked)


def _told(recorded: Recorded) -> tuple[str, Outcome] | None:
    match recorded.event:
        case StepEvaluated(step_number=number, outcome=outcome):
            return f"step {number}", outcome
        case FinalMeasured(outcome=outcome):
            return "final", outcome
        case OutcomeMerged(outcome=outcome):
            return "beside", outcome
    return None
