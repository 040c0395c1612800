"""Connections to a run's SQLite file, and SQLite's complaints in the run's own words."""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from results.errors import RunDamaged, RunInUse, RunUnwritable, StoreFull
from results.folder import DATABASE

WAIT_S = 10.0
"""How long a statement waits for another process before it gives up."""

WRITE_FAILURES = {
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_DIR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}


@contextmanager
def translated(folder: Path, name: str = DATABASE) -> Iterator[None]:
    """Within it, errors of SQLite and of the file system become RunDamaged, RunInUse, RunUnwritable or StoreFull.

    ``name`` is the file in the run's folder that they are about.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        kind = code & 0xFF
        if kind == sqlite3.SQLITE_FULL or code in WRITE_FAILURES:
            raise StoreFull(
                folder,
                f"The run's {_called(name)} could not grow: {error}",
                "Everything stored before is safe. Free disk space or quota, then `askevolve resume` the run.",
            ) from error
        if kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
            raise RunUnwritable(
                folder,
                f"The run's {_called(name)} can't be opened for writing: {error}",
                "Check the rights of the folder and of the files in it.",
            ) from error
        if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise RunInUse(
                folder,
                f"Another program holds the run's {_called(name)}: {error}",
                "Close it (a database browser, say) and try again.",
            ) from error
        raise damaged(folder, str(error), name) from error
    except UnicodeDecodeError as error:  # SQLite quotes names from the file in its messages
        raise damaged(folder, str(error), name) from error
    except OSError as error:
        raise RunUnwritable(
            folder, f"The run's folder can't be used: {error.strerror or error}", "Check its rights and the free disk space."
        ) from error


def _called(name: str) -> str:
    return "store" if name == DATABASE else name


def damaged(folder: Path, detail: str, name: str = DATABASE) -> RunDamaged:
    """The error for a store, or another file of the run, that can't be read as a whole."""
    return RunDamaged(
        folder,
        f"The run's {_called(name)} is damaged: {detail}",
        f"Restore {name} from a copy, or keep what `sqlite3 {name} .recover` finds; other runs aren't affected.",
    )


def connect_writer(path: Path) -> sqlite3.Connection:
    """A connection to a store's file for the one writer, in WAL mode, with manual transactions.

    ``synchronous = FULL`` waits for the disk at each commit: a result costs seconds of device time, a wait milliseconds,
    and budgets stay exact even when the machine loses power.
    """
    db = sqlite3.connect(path, isolation_level=None, timeout=WAIT_S)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
    except sqlite3.Error:
        db.close()
        raise
    return db


def connect_reader(folder: Path) -> sqlite3.Connection:
    """A read-only connection to a live or finished run, on a read-only file system too."""
    path = (folder / DATABASE).absolute()
    db = _try_connect(f"{path.as_uri()}?mode=ro")
    if db is None and not _log_size(folder):
        db = _try_connect(f"{path.as_uri()}?mode=ro&immutable=1")
    return db or connect_copy(folder)


def connect_copy(folder: Path) -> sqlite3.Connection:
    """A connection to a private copy in memory, for stores that can't be read where they are or must be migrated first."""
    with tempfile.TemporaryDirectory(prefix="askevolve-") as scratch:
        for name in (DATABASE, f"{DATABASE}-wal"):
            if (folder / name).exists():
                shutil.copyfile(folder / name, Path(scratch) / name)
        copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        disk = sqlite3.connect(Path(scratch) / DATABASE)
        try:
            disk.backup(copy)
        except sqlite3.Error:
            copy.close()
            raise
        finally:
            disk.close()
    return copy


def _log_size(folder: Path) -> int:
    log = folder / f"{DATABASE}-wal"
    return log.stat().st_size if log.exists() else 0


def _try_connect(uri: str) -> sqlite3.Connection | None:
    """A connection that has read something, or None where the file can't be opened this way."""
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=WAIT_S, check_same_thread=False)
    try:
        db.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError as error:
        db.close()
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            return None
        raise
    except sqlite3.Error:
        db.close()
        raise
    return db


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Within it, all statements take effect together at the end, or none where anything is raised."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
