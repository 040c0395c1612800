"""The read-only side of a run, for terminals, pages and exports: live, finished, crashed or on a read-only disk."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, get_args, get_type_hints

from evaluator.outcome import Effort, Outcome, Verdict
from population.candidate import Candidate
from results import queries
from results.database import connect_copy, connect_reader, damaged, translated
from results.errors import IdAmbiguous, IdUnknown, RunMissing
from results.events import FinalMeasured, OutcomeMerged, RunNoted, RunStarted, StepAsked, StepEvaluated, StepMerged, StepPosed
from results.folder import holds_run
from results.lock import is_locked
from results.log import Recorded, read_event, read_events, read_prompt
from results.rows import CandidateRow, DeviceRow, FunnelRow, QuestionRow, RunInfo, StepRow
from results.upgrade import is_current, upgrade

R = TypeVar("R")


class Reader:
    """A run, open for reading. Sees what is stored at the moment of each call; never changes or blocks the run.

    Any thread may use it, one at a time.

    Make one with ``open``; it is a context manager.
    """

    def __init__(self, folder: Path, db: sqlite3.Connection) -> None:
        self.folder = folder
        self._db = db

    @classmethod
    def open(cls, folder: Path) -> Self:
        """A reader of the run in ``folder``; an older schema is read through an upgraded copy in memory.

        Raises RunMissing, RunDamaged, RunTooNew, RunUnwritable (not readable by this user).
        """
        if not holds_run(folder):
            raise RunMissing(folder, "There is no run to read", "See `askevolve list`, or start one with `askevolve run CONFIG`.")
        with translated(folder):
            db = connect_reader(folder)
            try:
                if not is_current(folder, db):
                    db.close()
                    db = connect_copy(folder)
                    upgrade(folder, db)
            except BaseException:
                db.close()
                raise
        return cls(folder, db)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def connection(self) -> sqlite3.Connection:
        """The read-only connection, for ``results.frames`` and for queries of one's own."""
        return self._db

    def events(self, since: int = 0) -> Iterator[Recorded]:
        """What is stored after sequence number ``since``, oldest first. Raises RunDamaged."""
        return read_events(self.folder, self._db, since)

    def info(self) -> RunInfo:
        """The run at a glance."""
        figures = self._row(queries.INFO)
        started = self._event_at(1)
        if not isinstance(started, RunStarted):
            raise damaged(self.folder, "its first event is not the start of a run")
        return RunInfo(
            **figures,
            folder=self.folder,
            config=started.config,
            card=started.card,
            live=is_locked(self.folder),
        )

    def full_id(self, prefix: str) -> str:
        """The id of the one candidate whose id begins with ``prefix``. Raises IdUnknown, IdAmbiguous."""
        bounds = {"low": prefix.lower(), "high": prefix.lower() + "\U0010ffff"}
        matches = [
            row["id"] for row in self._rows("SELECT id FROM candidates WHERE id >= :low AND id < :high ORDER BY id", bounds)
        ]
        if prefix.lower() in matches:
            return prefix.lower()
        if not matches:
            raise IdUnknown(self.folder, f"No candidate's id begins with {prefix!r}", "`askevolve status` shows the best ones.")
        if len(matches) > 1:
            raise IdAmbiguous(self.folder, prefix, matches)
        return str(matches[0])

    def candidate(self, prefix: str) -> Candidate:
        """The candidate whose id begins with ``prefix``, with its source. Raises IdUnknown, IdAmbiguous."""
        event = self._event_at(self._row("SELECT seq FROM candidates WHERE id = ?", (self.full_id(prefix),))["seq"])
        if not isinstance(event, StepAsked | StepMerged | OutcomeMerged) or event.candidate is None:
            raise damaged(self.folder, f"the source of {prefix} is missing")
        return event.candidate

    def candidates(self, *, order: str = "number", limit: int = -1, offset: int = 0) -> tuple[CandidateRow, ...]:
        """The run's own candidates in the order of asking (``order="number"``) or best first (``"fitness"``); -1: all of them."""
        if order == "fitness" and limit >= 0 and offset == 0:
            leading = self._values(CandidateRow, queries.LEADING, (limit,))
            if len(leading) == limit:
                return leading
        query = f"{queries.CANDIDATES} WHERE {queries.OWN} ORDER BY {queries.ORDERS[order]} LIMIT ? OFFSET ?"
        return self._values(CandidateRow, query, (limit, offset))

    def row(self, prefix: str) -> CandidateRow:
        """The figures of one candidate. Raises IdUnknown, IdAmbiguous."""
        return self._values(CandidateRow, f"{queries.CANDIDATES} WHERE c.id = ?", (self.full_id(prefix),))[0]

    def best(self) -> CandidateRow | None:
        """The best candidate so far by the search's own word, None before there is one. Never one that a final refuted."""
        rows = self._values(CandidateRow, f"{queries.CANDIDATES} WHERE c.id = ({queries.BEST})")
        return rows[0] if rows else None

    def headline(self) -> CandidateRow | None:
        """The candidate to show first: the verified one with the highest lower bound in its final, else ``best``.

        A final that was made on another device than the run's own counts where the run's own device verified none.
        """
        rows = self._values(CandidateRow, f"{queries.CANDIDATES} WHERE c.id = ({queries.VERIFIED})")
        return rows[0] if rows else self.best()

    def outcome(self, candidate_id: str) -> Outcome | None:
        """The last outcome of the search for this candidate, None before it is evaluated."""
        event = self._last("outcomes", candidate_id)
        return event.outcome if isinstance(event, StepEvaluated) else None

    def final(self, candidate_id: str) -> Outcome | None:
        """The last final of this candidate, None where none was run."""
        event = self._last("finals", candidate_id)
        return event.outcome if isinstance(event, FinalMeasured) else None

    def verifying(self, candidate_id: str) -> Outcome | None:
        """The final by which to believe a candidate: the run's own, unless only one that was made elsewhere found it right."""
        own = self.final(candidate_id)
        if own is not None and own.verdict is Verdict.OK:
            return own
        found = sorted(self.elsewhere(candidate_id), key=lambda one: one.comparable)
        right = [one.outcome for one in found if one.outcome.effort is Effort.FINAL and one.outcome.verdict is Verdict.OK]
        return right[-1] if right else own

    def elsewhere(self, candidate_id: str) -> tuple[OutcomeMerged, ...]:
        """The outcomes of a candidate that were measured elsewhere, in the order in which they came home."""
        rows = self._rows("SELECT seq FROM elsewhere WHERE candidate_id = ? ORDER BY seq", (candidate_id,))
        events = [self._event_at(row["seq"]) for row in rows]
        return tuple(event for event in events if isinstance(event, OutcomeMerged))

    def devices_elsewhere(self) -> tuple[DeviceRow, ...]:
        """What came home from each kind of device, the one with most outcomes first."""
        return self._values(DeviceRow, queries.DEVICES)

    def made_by(self, candidate_id: str) -> StepAsked | None:
        """The step that first proposed a candidate, here or elsewhere; None for one evaluated as a file. Raises IdUnknown."""
        event = self._event_at(self._row("SELECT seq FROM candidates WHERE id = ?", (self.full_id(candidate_id),))["seq"])
        return event if isinstance(event, StepAsked) else event.asked if isinstance(event, StepMerged) else None

    def steps(self, since: int = 0) -> tuple[StepRow, ...]:
        """Steps from number ``since`` on, in the order of asking."""
        return self._values(StepRow, f"{queries.STEPS} WHERE s.number >= ? ORDER BY s.number", (since,))

    def steps_in(self, numbers: Sequence[int]) -> tuple[StepRow, ...]:
        """The steps with these numbers, in the order of asking; those never asked are left out."""
        query = f"{queries.STEPS} WHERE s.number IN (SELECT value FROM json_each(?)) ORDER BY s.number"
        return self._values(StepRow, query, (json.dumps(list(numbers)),))

    def step(self, number: int) -> StepAsked:
        """One proposal with the whole question and answer. Raises IndexError where it was never asked."""
        rows = self._rows("SELECT asked_seq FROM steps WHERE number = ?", (number,))
        event = self._event_at(rows[0]["asked_seq"]) if rows else None
        if not isinstance(event, StepAsked):
            raise IndexError(f"step {number} was never asked")
        return event

    def open_steps(self) -> tuple[StepPosed, ...]:
        """Steps that were posed and whose answer hasn't been taken in, in the order of asking."""
        rows = self._rows(f"SELECT seq FROM ({queries.OPEN}) ORDER BY number")
        events = [self._event_at(row["seq"]) for row in rows]
        return tuple(event for event in events if isinstance(event, StepPosed))

    def latest_notes(self) -> tuple[RunNoted, ...]:
        """What was noted since the last step was posed or a driver stopped, oldest first."""
        later = "(SELECT COALESCE(MAX(seq), 0) FROM events WHERE kind IN ('StepPosed', 'RunStopped'))"
        rows = self._rows(f"SELECT seq FROM events WHERE kind = 'RunNoted' AND seq > {later} ORDER BY seq")
        events = [self._event_at(row["seq"]) for row in rows]
        return tuple(event for event in events if isinstance(event, RunNoted))

    def prompt(self, number: int) -> str:
        """The whole prompt of a posed step, exactly as it was put. Raises KeyError where it was never posed, RunDamaged."""
        return read_prompt(self.folder, self._db, number)

    def children(self, candidate_id: str) -> tuple[StepRow, ...]:
        """Every step that started from this candidate, failures and repeated proposals included."""
        return self._values(StepRow, f"{queries.STEPS} WHERE s.parent_id = ? ORDER BY s.number", (candidate_id,))

    def ancestors(self, candidate_id: str) -> tuple[CandidateRow, ...]:
        """Parent, grandparent and so on to the seed, along the steps that first proposed each."""
        return self._values(CandidateRow, queries.ANCESTORS, (candidate_id,))

    def funnel(self) -> tuple[FunnelRow, ...]:
        """Steps by where and how they ended, in the order of the stages, most frequent first within one."""
        rows = self._values(FunnelRow, queries.FUNNEL)
        return tuple(sorted(rows, key=lambda row: (queries.STAGES.get(row.stage, 0), -row.steps, row.word)))

    def questions(self) -> tuple[QuestionRow, ...]:
        """The record of each question of the bank, most asked first."""
        return self._values(QuestionRow, queries.questions("s.entry_id"))

    def layers(self) -> tuple[QuestionRow, ...]:
        """The same record, summed over each layer."""
        return self._values(QuestionRow, queries.questions("s.layer"))

    def _last(self, table: str, candidate_id: str) -> object:
        seq = self._row(f"SELECT MAX(seq) AS seq FROM {table} WHERE candidate_id = ?", (candidate_id,))["seq"]
        return None if seq is None else self._event_at(seq)

    def _event_at(self, seq: int) -> object:
        query = (
            "SELECT seq, at, kind, payload, body FROM events LEFT JOIN sources ON sources.id = events.candidate_id WHERE seq = ?"
        )
        with translated(self.folder):
            row = self._db.execute(query, (seq,)).fetchone()
        if row is None:
            raise damaged(self.folder, f"event {seq} is missing")
        return read_event(self.folder, row).event

    def _rows(self, query: str, values: Any = ()) -> list[dict[str, Any]]:
        with translated(self.folder):
            cursor = self._db.execute(query, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]

    def _row(self, query: str, values: Any = ()) -> dict[str, Any]:
        rows = self._rows(query, values)
        if not rows:
            raise damaged(self.folder, "a row is missing in its tables")
        return rows[0]

    def _values(self, kind: type[R], query: str, values: Any = ()) -> tuple[R, ...]:
        convert = {name: option for name, hint in get_type_hints(kind).items() if (option := _converter(hint))}
        try:
            return tuple(
                kind(**{name: _converted(convert.get(name), value) for name, value in row.items()})
                for row in self._rows(query, values)
            )
        except ValueError as error:
            raise damaged(self.folder, f"a table holds what it can't: {error}") from error


def _converter(hint: Any) -> type | None:
    """What a field needs that SQLite has no type for: an enumeration or bool."""
    kinds = (hint, *get_args(hint))
    return next((kind for kind in kinds if isinstance(kind, type) and (kind is bool or issubclass(kind, StrEnum))), None)


def _converted(kind: type | None, value: Any) -> Any:
    return value if kind is None or value is None else kind(value)
