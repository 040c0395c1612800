"""Whether a store is whole and of the schema this program knows, and how an older one is brought there."""

import sqlite3
from pathlib import Path

from results import schema
from results.database import damaged, transaction
from results.errors import RunTooNew
from results.folder import DATABASE
from results.log import read_events
from results.projections import project


def is_current(folder: Path, db: sqlite3.Connection) -> bool:
    """Whether the store has the newest schema (False: an older one). Raises RunTooNew, RunDamaged."""
    version = schema.version_of(db)
    if version > schema.VERSION:
        raise RunTooNew(
            folder,
            f"A newer version wrote this run (schema {version}; this program knows up to {schema.VERSION})",
            "Install the newer askevolve to use it; nothing was changed.",
        )
    if db.execute("SELECT COUNT(*) FROM sqlite_schema WHERE name = 'events'").fetchone()[0] != 1:
        raise damaged(folder, f"{'it has no table of events' if version else 'it is no run store'}")
    return version == schema.VERSION


def upgrade(folder: Path, db: sqlite3.Connection) -> None:
    """Bring the store to the newest schema in one transaction. Raises RunTooNew, RunDamaged (and then changes nothing)."""
    if is_current(folder, db):
        return
    with transaction(db):
        for step in schema.MIGRATIONS[schema.version_of(db) :]:
            step(db)
        schema.create_projections(db)
        for recorded in read_events(folder, db):
            project(db, recorded.seq, recorded.at, recorded.event)
        schema.set_version(db, schema.VERSION)


def check(folder: Path, db: sqlite3.Connection) -> None:
    """Nothing, if the file's pages are sound and no event is missing. Folds the log into the file. Raises RunDamaged."""
    busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    page_bytes = db.execute("PRAGMA page_size").fetchone()[0]
    if not busy and (folder / DATABASE).stat().st_size % page_bytes:  # quick_check takes a torn page for one that ends in zeros
        raise damaged(folder, "its last page is torn")
    finding = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if finding != "ok":
        raise damaged(folder, finding)
    count, last = db.execute("SELECT COUNT(*), COALESCE(MAX(seq), 0) FROM events").fetchone()
    if count != last or db.execute("SELECT COUNT(*) FROM run").fetchone()[0] != 1:
        raise damaged(folder, f"{last} events were written and {count} are there")
