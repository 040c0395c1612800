"""What comes to a run from outside: answers to its open prompts, who is at work on which, and what people ask.

A small SQLite file of its own beside the store, since the store has one writer: anybody may put something here at any time,
while a driver runs or while none does. The driver takes it over into the store; nothing here is changed by that, so a killed
driver loses nothing.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutators.question import Answer, Layer
from results.codec import CodecError, decode, encode
from results.database import WAIT_S, damaged, transaction, translated
from results.errors import RunTooNew
from results.folder import MAILBOX

LEASE_S = 3600.0
"""How long a prompt belongs to the one who took it, before another may take it."""

VERSION = 1
TABLES = (
    """CREATE TABLE answers (
        step INTEGER PRIMARY KEY, answer TEXT NOT NULL,  -- ASCII JSON of a mutators.question.Answer
        at REAL NOT NULL
    )""",
    "CREATE TABLE leases (step INTEGER PRIMARY KEY, holder TEXT NOT NULL, until REAL NOT NULL)",
    """CREATE TABLE asked (
        number INTEGER PRIMARY KEY, text TEXT NOT NULL, layer TEXT NOT NULL, message INTEGER NOT NULL,
        parent_id TEXT, person TEXT NOT NULL, at REAL NOT NULL
    )""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person asked, or with ``message`` only told; ``parent_id`` names the kernel it is about, None: any."""

    text: str
    layer: Layer
    message: bool
    parent_id: str | None
    person: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who is at work on the prompt of a step, and until when (seconds since 1970) it is theirs alone."""

    step: int
    holder: str
    until: float


class Mailbox:
    """The mailbox of the run in ``folder``; its file is made by the first thing that is put into it.

    Any number of processes and threads may use one at a time. Each call is one transaction, on disk when it returns.
    ``clock`` gives seconds since 1970. Calls raise RunDamaged, RunTooNew, RunUnwritable, RunInUse or StoreFull.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._clock = clock

    def put(self, step: int, answer: Answer) -> bool:
        """Keep an answer; False where that step has one already, which stays."""
        text = encode(answer)
        with self._writing() as db:
            return db.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", (step, text, self._clock())).rowcount == 1

    def answer(self, step: int) -> Answer | None:
        """The answer to a step, None while there is none."""
        rows = self._read("SELECT answer FROM answers WHERE step = ?", (step,))
        try:
            return decode(Answer, rows[0][0]) if rows else None
        except CodecError as error:
            raise damaged(self.folder, f"the answer to step {step} can't be read: {error}", MAILBOX) from error

    def answered(self) -> frozenset[int]:
        """The steps that have an answer here."""
        return frozenset(step for (step,) in self._read("SELECT step FROM answers"))

    def lease(self, steps: Sequence[int], holder: str, lease_s: float = LEASE_S) -> Lease | None:
        """The first of ``steps`` that ``holder`` holds already, else the first that is free, now theirs for ``lease_s``.

        None where all are answered or in other hands.
        """
        now = self._clock()
        with self._writing() as db:
            answered = {step for (step,) in db.execute("SELECT step FROM answers")}
            held = dict(db.execute("SELECT step, holder FROM leases WHERE until > ?", (now,)))
            unanswered = [step for step in steps if step not in answered]
            own = [step for step in unanswered if held.get(step) == holder]
            free = [step for step in unanswered if step not in held]
            if not own and not free:
                return None
            lease = Lease(step=(own or free)[0], holder=holder, until=now + lease_s)
            db.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (lease.step, lease.holder, lease.until))
            return lease

    def leases(self) -> tuple[Lease, ...]:
        """The prompts that are in somebody's hands, by step; those answered meanwhile are not among them."""
        query = "SELECT step, holder, until FROM leases WHERE until > ? AND step NOT IN (SELECT step FROM answers) ORDER BY step"
        return tuple(Lease(step=step, holder=holder, until=until) for step, holder, until in self._read(query, (self._clock(),)))

    def ask(self, asked: Asked) -> None:
        """Keep what a person asks for one of the next steps."""
        row = (_storable(asked.text), asked.layer.value, asked.message, asked.parent_id, _storable(asked.person), self._clock())
        with self._writing() as db:
            db.execute("INSERT INTO asked (text, layer, message, parent_id, person, at) VALUES (?, ?, ?, ?, ?, ?)", row)

    def asked(self) -> tuple[Asked, ...]:
        """Everything that people asked, oldest first, also what was put since."""
        rows = self._read("SELECT text, layer, message, parent_id, person FROM asked ORDER BY number")
        try:
            return tuple(
                Asked(text=text, layer=Layer(layer), message=bool(message), parent_id=parent_id, person=person)
                for text, layer, message, parent_id, person in rows
            )
        except ValueError as error:
            raise damaged(self.folder, str(error), MAILBOX) from error

    def _read(self, query: str, values: tuple[object, ...] = ()) -> list[Any]:
        """The rows of a query, none where nothing was ever put here."""
        path = self.folder / MAILBOX
        if not path.exists():
            return []
        with translated(self.folder, MAILBOX):
            db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=WAIT_S)
            try:
                if not self._version(db):
                    return []
                return db.execute(query, values).fetchall()
            finally:
                db.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A connection inside one transaction; the file and its tables are made where they are missing."""
        with translated(self.folder, MAILBOX):
            db = sqlite3.connect(self.folder / MAILBOX, isolation_level=None, timeout=WAIT_S)
            try:
                db.execute("PRAGMA synchronous = FULL")
                with transaction(db):
                    if not self._version(db):
                        for statement in TABLES:
                            db.execute(statement)
                        db.execute(f"PRAGMA user_version = {VERSION}")
                    yield db
            finally:
                db.close()

    def _version(self, db: sqlite3.Connection) -> int:
        """The version of the tables, 0 where there are none yet (somebody is just making them)."""
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > VERSION:
            raise RunTooNew(
                self.folder, f"A newer version wrote its {MAILBOX}", "Install the newer askevolve to use it; nothing was changed."
            )
        return version


def _storable(text: str) -> str:
    """The text, lone surrogates escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
