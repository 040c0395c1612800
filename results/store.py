"""The only writer of a run: events go in, in order, and are durable when ``append`` returns."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from population.candidate import hash_text
from results import schema
from results.database import connect_writer, transaction, translated
from results.errors import RunExists, RunMissing
from results.events import Event, RunStarted
from results.folder import DATABASE, holds_run
from results.lock import WriterLock
from results.log import Recorded, read_events, read_prompt, write_event
from results.projections import project
from results.upgrade import check, upgrade


class Store:
    """A run's store, open for writing. One process at a time; any number of ``results.reader.Reader`` beside it.

    Make one with ``create`` or ``open``; it is a context manager. ``clock`` gives seconds since 1970.
    """

    def __init__(self, folder: Path, db: sqlite3.Connection, lock: WriterLock, clock: Callable[[], float]) -> None:
        self.folder = folder
        self._db = db
        self._lock = lock
        self._clock = clock
        self._file = _identity(folder)

    @classmethod
    def create(cls, folder: Path, started: RunStarted, clock: Callable[[], float] = time.time) -> Self:
        """A new store in ``folder`` (made if need be) whose first event is ``started``.

        Raises RunExists, RunInUse, RunUnwritable, StoreFull, or CodecError for a configuration that has no JSON form.
        """
        with translated(folder), ExitStack() as undo:
            folder.mkdir(parents=True, exist_ok=True)
            lock = WriterLock(folder)
            undo.callback(lock.release)
            if holds_run(folder):
                raise RunExists(folder, "A run is already there", "Go on with `askevolve resume`, or choose another name.")
            _start(folder, started, clock())
            db = connect_writer(folder / DATABASE)
            undo.pop_all()
            return cls(folder, db, lock, clock)

    @classmethod
    def open(cls, folder: Path, clock: Callable[[], float] = time.time) -> Self:
        """The store of an earlier run, checked and brought to the newest schema, ready for more events.

        Raises RunMissing, RunInUse, RunDamaged, RunTooNew, RunUnwritable, StoreFull.
        """
        if not holds_run(folder):
            raise RunMissing(
                folder, "There is no run to go on with", "Start one with `askevolve run CONFIG`, or see `askevolve list`."
            )
        with translated(folder), ExitStack() as undo:
            lock = WriterLock(folder)
            undo.callback(lock.release)
            db = connect_writer(folder / DATABASE)
            undo.callback(db.close)
            upgrade(folder, db)
            check(folder, db)
            undo.pop_all()
            return cls(folder, db, lock, clock)

    def append(self, *events: Event, prompts: Sequence[str] = ()) -> int:
        """Sequence number of the last event. All of them or none are stored, and are on disk on return.

        ``prompts`` are the texts that StepPosed among the events name by their hash.

        Raises StoreFull (a later append works once there is room), RunMissing where the store was moved, deleted or replaced
        since it was opened (SQLite would go on writing where nobody finds it), CodecError naming a field that can't be stored,
        or ValueError for an event that contradicts the run (a step posed, asked, evaluated or folded twice).
        """
        return self._append(((None, event) for event in events), prompts)

    def take_over(self, events: Sequence[tuple[float, Event]], prompts: Sequence[str] = ()) -> int:
        """As ``append``, for events of another log: each with the time it has there, in seconds since 1970."""
        return self._append(events, prompts)

    def _append(self, events: Iterable[tuple[float | None, Event]], prompts: Sequence[str]) -> int:
        if _identity(self.folder) != self._file:
            raise RunMissing(
                self.folder,
                "The run's store went away while it was written: moved, deleted or replaced",
                "Go on with `askevolve resume` where it lies now; what was stored before is in it.",
            )
        with translated(self.folder), transaction(self._db):
            for prompt in prompts:
                self._db.execute("INSERT OR IGNORE INTO prompts VALUES (?, ?)", (hash_text(prompt), schema.pack(prompt)))
            last: int = self._db.execute("SELECT COALESCE(MAX(seq), 0) FROM events").fetchone()[0]
            for at, event in events:
                last += 1
                _write(self._db, last, self._clock() if at is None else at, event)
        return last

    def events(self, since: int = 0) -> Iterator[Recorded]:
        """What is stored after sequence number ``since``, oldest first. Raises RunDamaged."""
        return read_events(self.folder, self._db, since)

    def prompt(self, number: int) -> str:
        """The whole prompt of a posed step. Raises KeyError where it was never posed, RunDamaged."""
        return read_prompt(self.folder, self._db, number)

    def close(self) -> None:
        """Fold the log into the file and let another process write."""
        self._db.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _identity(folder: Path) -> tuple[int, int] | None:
    """Device and inode of the store's file, None where there is none."""
    try:
        found = (folder / DATABASE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _start(folder: Path, started: RunStarted, at: float) -> None:
    """Write the file aside and give it its name when the first event is in it: a crash leaves a whole store or none."""
    aside = folder / f"{DATABASE}.new"
    for leftover in folder.glob(f"{aside.name}*"):
        leftover.unlink()
    db = connect_writer(aside)
    try:
        with transaction(db):
            schema.create_tables(db)
            _write(db, 1, at, started)
    finally:
        db.close()
    aside.replace(folder / DATABASE)
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _write(db: sqlite3.Connection, seq: int, at: float, event: Event) -> None:
    write_event(db, seq, at, event)
    project(db, seq, at, event)
