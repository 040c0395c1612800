"""A lock for the whole host: compiling shares it, timing on the CPU has it alone. Each GPU has one of its own.

Held through ``flock``, so the kernel releases it when its holder dies. A second file is a turnstile that everybody passes on
the way in: a timer waits in it, so that a stream of compilers can't starve it. Notes beside the lock say who holds it, for
messages only.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Clock = Callable[[], float]
"""Seconds that never run backwards, such as ``time.monotonic``."""


class LockTimeoutError(TimeoutError):
    """A lock wasn't free in time; the text says who holds it."""


def lock_path() -> Path:
    """Where this user's host lock lies: one per user and host, whatever run or folder asks."""
    return Path(tempfile.gettempdir()) / f"askevolve-{os.getuid()}.lock"


@contextmanager
def timing_lock(path: Path, wait_s: float, purpose: str, clock: Clock = time.monotonic) -> Iterator[None]:
    """Hold the lock alone. Raises LockTimeoutError after ``wait_s`` seconds."""
    with _held(path, fcntl.LOCK_EX, clock() + wait_s, purpose, clock):
        yield


@contextmanager
def compile_lock(path: Path, wait_s: float, purpose: str, clock: Clock = time.monotonic) -> Iterator[None]:
    """Hold the lock together with other compilers. Raises LockTimeoutError after ``wait_s`` seconds."""
    with _held(path, fcntl.LOCK_SH, clock() + wait_s, purpose, clock):
        yield


@contextmanager
def _held(path: Path, kind: int, deadline: float, purpose: str, clock: Clock) -> Iterator[None]:
    file = _open(path)
    turnstile = _open(path.with_suffix(".turnstile"))
    note = path.with_suffix(f".{os.getpid()}-{file}")
    try:
        _acquire(turnstile, fcntl.LOCK_EX, path, deadline, clock)
        _acquire(file, kind, path, deadline, clock)
        fcntl.flock(turnstile, fcntl.LOCK_UN)
        note.write_text(f"process {os.getpid()}, {purpose}")
        yield
    finally:
        note.unlink(missing_ok=True)
        os.close(turnstile)
        os.close(file)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _acquire(file: int, kind: int, path: Path, deadline: float, clock: Clock) -> None:
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock() >= deadline:
                raise LockTimeoutError(
                    f"the lock {path} was not free in time; held by {_holders(path)}. "
                    "Wait for that process or stop it, then try again."
                ) from None
            time.sleep(0.005)
        else:
            return


def _holders(path: Path) -> str:
    """The living processes that noted themselves beside the lock; notes of dead ones are cleared away."""
    found = []
    for note in sorted(path.parent.glob(f"{path.stem}.[0-9]*-[0-9]*")):
        pid = int(note.suffix[1:].partition("-")[0])
        if Path(f"/proc/{pid}").exists():
            found.append(note.read_text())
        else:
            note.unlink(missing_ok=True)
    return "; ".join(found) or "a process that left no note"
