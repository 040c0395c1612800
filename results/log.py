"""Events as rows of the append-only log, and back."""

import json
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from results.codec import plain, rebuild
from results.database import damaged, translated
from results.events import Event, OutcomeMerged, StepAsked, StepMerged
from results.schema import pack, unpack

KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(Event)}
BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event with its place: ``seq`` counts from 1 without gaps, ``at`` is seconds since 1970 by the driver's clock."""

    seq: int
    at: float
    event: Event


def write_event(db: sqlite3.Connection, seq: int, at: float, event: Event) -> None:
    """Add one row inside the caller's transaction; a candidate's source goes into its own table, once."""
    payload = plain(event)
    candidate_id = None
    if isinstance(event, StepAsked | StepMerged | OutcomeMerged) and event.candidate is not None:
        candidate_id = event.candidate.id
        del payload["candidate"]["source"]
        db.execute("INSERT OR IGNORE INTO sources VALUES (?, ?)", (candidate_id, pack(event.candidate.source)))
    text = json.dumps(payload, separators=(",", ":"))
    db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", (seq, at, type(event).__name__, text, candidate_id))


def read_events(folder: Path, db: sqlite3.Connection, since: int = 0) -> Iterator[Recorded]:
    """The events after ``since`` in order, as far as stored when each batch is read. Raises RunDamaged naming the event."""
    query = (
        "SELECT seq, at, kind, payload, body FROM events LEFT JOIN sources ON sources.id = events.candidate_id "
        "WHERE seq > ? ORDER BY seq LIMIT ?"
    )
    while True:
        with translated(folder):
            rows = db.execute(query, (since, BATCH)).fetchall()
        for row in rows:
            since += 1
            if row[0] != since:
                raise damaged(folder, f"event {since} is missing")
            yield read_event(folder, row)
        if len(rows) < BATCH:
            return


def read_prompt(folder: Path, db: sqlite3.Connection, number: int) -> str:
    """The whole prompt of a posed step. Raises KeyError where it was never posed, RunDamaged."""
    query = "SELECT body FROM posed LEFT JOIN prompts ON prompts.hash = posed.prompt_hash WHERE number = ?"
    with translated(folder):
        row = db.execute(query, (number,)).fetchone()
    if row is None:
        raise KeyError(f"step {number} was never posed")
    try:
        return unpack(row[0])
    except (TypeError, ValueError, zlib.error) as error:
        raise damaged(folder, f"the prompt of step {number} can't be read: {error}") from error


def read_event(folder: Path, row: tuple[int, float, str, str, bytes | None]) -> Recorded:
    """The event of one row (seq, at, kind, payload, packed source). Raises RunDamaged."""
    seq, at, kind, text, body = row
    try:
        payload = json.loads(text)
        if body is not None:
            payload["candidate"]["source"] = unpack(body)
        return Recorded(seq=seq, at=at, event=rebuild(KINDS[kind], payload))
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise damaged(folder, f"event {seq} ({kind}) can't be read: {error}") from error
