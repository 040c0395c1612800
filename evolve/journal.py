"""The one way by which events enter a run: stored first, then folded into the state, then shown to observers."""

import contextlib
import queue
from collections.abc import Callable, Iterator, Sequence

from evolve.state import State
from results.events import Event, RunNoted, StepFolded, TimeSpent
from results.store import Store

HEARTBEAT_S = 10.0
"""While nothing happens, time spent is stored this often: so much of it a killed driver may lose."""

_WORTH_STORING_S = 1.0


class Journal:
    """Writes a run. ``clock`` counts seconds from anywhere; observers can't change the search."""

    def __init__(
        self, store: Store, state: State, clock: Callable[[], float], observers: Sequence[Callable[[Event], None]] = ()
    ) -> None:
        self._store = store
        self._state = state
        self._clock = clock
        self._observers = observers
        self._since = clock()
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()

    @property
    def unstored_s(self) -> float:
        """Seconds since time was last stored."""
        return self._clock() - self._since

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """Time that isn't spent: nothing is in hand."""
        began = self._clock()
        try:
            yield
        finally:
            self._since += self._clock() - began

    def note(self, text: str) -> None:
        """Have a text stored as a note, with the events that are written next. From any thread."""
        self._heard.put(text)

    def write(self, *events: Event, prompts: Sequence[str] = ()) -> None:
        """Store events in one transaction, then take them into the state. Time spent so far goes with them.

        ``prompts`` are the texts of steps that are posed.
        """
        events = (*self._notes(), *events, *self._time(_WORTH_STORING_S))
        if events:
            self._store.append(*events, prompts=prompts)
        for event in events:
            self._state.apply(event)
        self._show(events)

    def fold(self) -> None:
        """Fold the next step and store what became of it."""
        event: StepFolded = self._state.fold()
        self._store.append(event)
        self._show((event,))

    def prompt(self, number: int) -> str:
        """The text of a step's prompt, as it was posed."""
        return self._store.prompt(number)

    def heartbeat(self) -> None:
        """Store notes, and the time spent if it is worth an event."""
        if not self._heard.empty() or self.unstored_s >= HEARTBEAT_S:
            self.write()

    def close(self, last: Event) -> None:
        """Write a driver's last event with all the time that is left to store."""
        self.write(*self._time(0.0), last)

    def _notes(self) -> Sequence[RunNoted]:
        notes = []
        with contextlib.suppress(queue.Empty):
            while True:
                notes.append(RunNoted(text=self._heard.get_nowait()))
        return notes

    def _time(self, at_least_s: float) -> Sequence[TimeSpent]:
        if self.unstored_s <= at_least_s:
            return ()
        spent, self._since = self.unstored_s, self._clock()
        return (TimeSpent(wall_s=spent),)

    def _show(self, events: Sequence[Event]) -> None:
        for observer in self._observers:
            for event in events:
                observer(event)
