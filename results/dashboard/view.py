"""A run as a server keeps it open: one reader, the cached columns, and facts that are computed once for each state."""

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.dashboard.columns import Columns
from results.dashboard.outlook import Outlook, nothing_known
from results.errors import RunMissing
from results.folder import DATABASE, MAILBOX, holds_run
from results.lock import is_locked
from results.reader import Reader

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What facts are made from: a reader, the columns in the same state, and what the search says of its goal and budgets."""

    reader: Reader
    columns: Columns
    outlook: Callable[[Reader, Columns], Outlook]


class RunView:
    """A run that is open for as long as the server runs. Safe to use from any thread; the run's writer is never held up.

    ``outlook`` tells what the columns don't know: goal, budgets, workers. The store is opened again when its files changed, so
    that a run that was replaced, or is read through a copy, is seen as it is now. Columns are read apart from facts: what is
    new comes to the pages while facts of a long run, which take longer, are still made.
    """

    def __init__(self, folder: Path, outlook: Callable[[Reader, Columns], Outlook] = nothing_known) -> None:
        self.folder = folder
        self._outlook = outlook
        self._columns_lock = threading.Lock()
        self._columns = Columns()
        self._seen: object = None
        self._newer: Reader | None = None
        self._facts_lock = threading.RLock()
        self._sight: Sight | None = None
        self._memory: dict[str, tuple[object, Facts]] = {}

    @contextmanager
    def sight(self) -> Iterator[Sight]:
        """Reader and columns as the run is now, for this thread alone while inside. Raises RunError."""
        with self._facts_lock:
            with self._fresh() as columns:
                if self._newer is not None:
                    if self._sight is not None:
                        self._sight.reader.close()
                    self._sight = Sight(reader=self._newer, columns=columns.still(), outlook=self._outlook)
                    self._newer = None
            assert self._sight is not None
            yield self._sight

    def seq(self) -> int:
        """The last sequence number stored."""
        with self._fresh() as columns:
            return columns.seq

    def wire(self, since: int) -> bytes:
        """The columns' rows that are new or changed after event ``since``, as bytes."""
        with self._fresh() as columns:
            return columns.wire(since)

    @contextmanager
    def _fresh(self) -> Iterator[Columns]:
        """The columns with all that is stored now; a reader of that state waits for whoever makes facts next."""
        with self._columns_lock:
            found = _signature(self.folder, DATABASE)
            if found != self._seen:
                reader = Reader.open(self.folder)
                try:
                    self._columns.refresh(reader)
                except BaseException:
                    reader.close()
                    raise
                if self._newer is not None:
                    self._newer.close()
                self._newer, self._seen = reader, found
            yield self._columns

    def facts(self, name: str, make: Callable[[Sight], Facts]) -> Facts:
        """What ``make`` says, computed once for each state of the run, its driver (there or not) and its mailbox."""
        with self.sight() as sight:
            state = (sight.columns.seq, is_locked(self.folder), _signature(self.folder, MAILBOX))
            if name not in self._memory or self._memory[name][0] != state:
                self._memory[name] = state, make(sight)
            return self._memory[name][1]

    def close(self) -> None:
        """Let go of the store."""
        with self._facts_lock, self._columns_lock:
            for reader in (self._newer, self._sight.reader if self._sight is not None else None):
                if reader is not None:
                    reader.close()
            self._newer, self._sight, self._seen = None, None, None


class Views:
    """The runs that a server shows: the one in ``folder``, or all those below it, each opened when it is first looked at."""

    def __init__(self, folder: Path, outlook: Callable[[Reader, Columns], Outlook] = nothing_known) -> None:
        self.folder = folder
        self.single = holds_run(folder)
        self._outlook = outlook
        self._open: dict[str, RunView] = {}
        self._lock = threading.Lock()

    def view(self, name: str = "") -> RunView:
        """The run of this name, or the only one. Raises RunMissing."""
        folder = self.folder / name
        if name.startswith(".") or not holds_run(folder):
            raise RunMissing(folder, "There is no run of this name", "The list of runs says which there are.")
        with self._lock:
            return self._open.setdefault(name, RunView(folder, self._outlook))

    def close(self) -> None:
        """Let go of every store."""
        for view in self._open.values():
            view.close()


def as_json(value: object) -> bytes:
    """ASCII JSON of facts; numbers that aren't finite become null, as JSON has no word for them."""
    return json.dumps(finite(value), separators=(",", ":")).encode()


def finite(value: Any) -> Any:
    """The value with null in place of NaN and infinities, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def _signature(folder: Path, database: str) -> object:
    """Changes whenever something may have been stored in the database: its files with their sizes and times."""
    found: list[tuple[int, int, int] | None] = []
    for name in (database, f"{database}-wal"):
        try:
            stat = (folder / name).stat()
        except OSError:
            found.append(None)
        else:
            found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return tuple(found)
