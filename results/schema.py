"""The tables of a run's store, and how an older store becomes a newer one.

``events``, ``sources`` and ``prompts`` are the truth and are only added to. Every other table is a projection of them, made by
``results.projections`` and rebuilt from scratch after a migration.
"""

import json
import sqlite3
import zlib
from collections.abc import Callable

TRUTH = (
    """CREATE TABLE events (
        seq INTEGER PRIMARY KEY,
        at REAL NOT NULL,            -- seconds since 1970 by the driver's clock
        kind TEXT NOT NULL,          -- class name in results.events
        payload TEXT NOT NULL,       -- ASCII JSON of the event; a candidate's source is left out
        candidate_id TEXT            -- where the left-out source is found in sources
    )""",
    "CREATE TABLE sources (id TEXT PRIMARY KEY, body BLOB NOT NULL)",  # zlib of the UTF-8 bytes
    "CREATE TRIGGER events_kept BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are only added'); END",
    "CREATE TRIGGER events_fixed BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are only added'); END",
)
PROMPTS = "CREATE TABLE prompts (hash TEXT PRIMARY KEY, body BLOB NOT NULL)"  # zlib of the UTF-8 bytes
PROJECTIONS = {
    "run": """CREATE TABLE run (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        name TEXT NOT NULL, config_hash TEXT NOT NULL, version TEXT NOT NULL,
        task TEXT NOT NULL, task_hash TEXT NOT NULL, scenario_set TEXT NOT NULL, scenarios INTEGER NOT NULL,
        started_at REAL NOT NULL, spent_s REAL NOT NULL DEFAULT 0, best_id TEXT, stopped_by TEXT
    )""",
    "candidates": """CREATE TABLE candidates (
        id TEXT PRIMARY KEY, normal_id TEXT NOT NULL, language TEXT NOT NULL,
        step_number INTEGER,    -- the step that first proposed it; null for one that only came home from elsewhere
        origin TEXT NOT NULL, island INTEGER, parent_id TEXT,
        depth INTEGER NOT NULL, -- edges to the seed it descends from
        seq INTEGER NOT NULL    -- the event that brought it
    )""",
    "posed": """CREATE TABLE posed (
        number INTEGER PRIMARY KEY,  -- of the step; it is open until ``steps`` has it too
        seq INTEGER NOT NULL, at REAL NOT NULL, prompt_hash TEXT NOT NULL
    )""",
    "steps": """CREATE TABLE steps (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL, asked_seq INTEGER NOT NULL, asked_at REAL NOT NULL,
        origin TEXT NOT NULL, island INTEGER NOT NULL, parent_id TEXT, candidate_id TEXT, duplicate_of TEXT,
        question_id TEXT, entry_id TEXT, layer TEXT, moment TEXT, question TEXT,
        answerer TEXT, tokens INTEGER NOT NULL DEFAULT 0, cost_usd REAL NOT NULL DEFAULT 0, answer_s REAL NOT NULL DEFAULT 0,
        hypothesis TEXT, claim TEXT, rejection TEXT,
        status TEXT, accepted INTEGER, gain REAL  -- set when folded; gain = max(0, ln(geomean / parent's geomean)) if accepted
    )""",
    "outcomes": """CREATE TABLE outcomes (
        step_number INTEGER PRIMARY KEY, seq INTEGER NOT NULL, at REAL NOT NULL, candidate_id TEXT NOT NULL,
        verdict TEXT NOT NULL, stage TEXT NOT NULL, message TEXT NOT NULL, wall_s REAL NOT NULL,
        opponent TEXT, scenarios INTEGER, low REAL, geomean REAL, high REAL,
        worst_scenario TEXT, worst_ratio REAL, noise_floor_pct REAL
    )""",
    "finals": """CREATE TABLE finals (
        seq INTEGER PRIMARY KEY, at REAL NOT NULL, candidate_id TEXT NOT NULL,
        verdict TEXT NOT NULL, stage TEXT NOT NULL, message TEXT NOT NULL, wall_s REAL NOT NULL,
        opponent TEXT, scenarios INTEGER, low REAL, geomean REAL, high REAL,
        worst_scenario TEXT, worst_ratio REAL, noise_floor_pct REAL
    )""",
    "elsewhere": """CREATE TABLE elsewhere (
        seq INTEGER PRIMARY KEY, at REAL NOT NULL, candidate_id TEXT NOT NULL,
        verdict TEXT NOT NULL, stage TEXT NOT NULL, message TEXT NOT NULL, wall_s REAL NOT NULL,
        opponent TEXT, scenarios INTEGER, low REAL, geomean REAL, high REAL,
        worst_scenario TEXT, worst_ratio REAL, noise_floor_pct REAL,
        effort TEXT NOT NULL, device TEXT NOT NULL, arch TEXT NOT NULL, driver TEXT, came_from TEXT NOT NULL,
        comparable INTEGER NOT NULL, cheats INTEGER NOT NULL
    )""",
}
INDEXES = (
    "CREATE INDEX candidates_parent ON candidates (parent_id)",
    "CREATE INDEX steps_parent ON steps (parent_id)",
    "CREATE INDEX steps_candidate ON steps (candidate_id)",
    "CREATE INDEX outcomes_candidate ON outcomes (candidate_id)",
    "CREATE INDEX outcomes_low ON outcomes (low)",
    "CREATE INDEX finals_candidate ON finals (candidate_id)",
    "CREATE INDEX elsewhere_candidate ON elsewhere (candidate_id)",
)


def create_tables(db: sqlite3.Connection) -> None:
    """Make every table of the newest version inside the caller's transaction."""
    for statement in (*TRUTH, PROMPTS):
        db.execute(statement)
    create_projections(db)
    set_version(db, VERSION)


def create_projections(db: sqlite3.Connection) -> None:
    """Drop the projections that are there and make them empty."""
    for name, statement in PROJECTIONS.items():
        db.execute(f"DROP TABLE IF EXISTS {name}")
        db.execute(statement)
    for statement in INDEXES:
        db.execute(statement)


def version_of(db: sqlite3.Connection) -> int:
    """The schema version that the file states."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def set_version(db: sqlite3.Connection, version: int) -> None:
    """State the schema version, as part of the caller's transaction."""
    db.execute(f"PRAGMA user_version = {version:d}")


def pack(source: str) -> bytes:
    """A source or prompt as stored: zlib of its UTF-8 bytes, lone surrogates kept."""
    return zlib.compress(source.encode("utf-8", "surrogatepass"))


def unpack(body: bytes) -> str:
    """The text that ``pack`` stored. Raises zlib.error where the bytes are damaged."""
    return zlib.decompress(body).decode("utf-8", "surrogatepass")


def _from_0(db: sqlite3.Connection) -> None:
    """Version 0 kept each candidate's source inside its event: move the sources out."""
    rows = db.execute("SELECT seq, at, kind, payload FROM events ORDER BY seq").fetchall()
    db.execute("DROP TABLE events")
    for statement in TRUTH:
        db.execute(statement)
    for seq, at, kind, text in rows:
        payload = json.loads(text)
        candidate = payload.get("candidate")
        if candidate is not None:
            db.execute("INSERT OR IGNORE INTO sources VALUES (?, ?)", (candidate["id"], pack(candidate.pop("source"))))
        row = (seq, at, kind, json.dumps(payload, separators=(",", ":")), candidate and candidate["id"])
        db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", row)


def _from_1(db: sqlite3.Connection) -> None:
    """Version 1 knew no open steps, and kept no prompts."""
    db.execute(PROMPTS)


def _from_2(db: sqlite3.Connection) -> None:
    """Version 2 knew nothing that was measured elsewhere; its truth is version 3's."""


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (_from_0, _from_1, _from_2)
"""Step i takes the truth of version i to version i + 1, inside one transaction; the projections are rebuilt afterwards."""

VERSION = len(MIGRATIONS)
