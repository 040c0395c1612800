"""Merges that are killed: children that die before a chosen write, or between the store and the mailbox.

``python -m tests.faults.merging HOME OTHER`` forks children that die before the first, the second, the middle and the last write,
after the last, and before the mailbox, each on a copy of HOME; it looks at what each left, and merges again. Prints one JSON
document: how many children were killed, and how many of them had stored everything.
"""

import json
import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path

from evolve.merge import merge
from results import store as stores
from results.codec import encode
from results.events import Event
from results.mailbox import Mailbox
from results.reader import Reader
from results.store import Store
from tests.evolve.merging import came


def main(home: Path, other: Path) -> None:
    """Kill merges; one that is to die after its end isn't killed."""
    before = stored(home)
    whole = shutil.copytree(home, home.parent / "whole")
    came(whole, other)
    full = stored(whole)
    killed = kept = 0
    writes = len(full) - len(before)
    for instant in (0, 1, writes // 2, writes - 1, writes, writes + 1, writes + 2):
        folder = shutil.copytree(home, home.parent / str(instant))
        if not dies(folder, other, instant):
            continue
        killed += 1
        left = stored(folder)
        assert left in (before, full[: len(left)]), f"a part of the merge was stored at instant {instant}"
        assert len(left) in (len(before), len(full)), f"a part of the merge was stored at instant {instant}"
        kept += len(left) == len(full)
        came(folder, other)
        assert stored(folder) == full
        assert Mailbox(folder).answered() == Mailbox(whole).answered()
    print(json.dumps({"killed": killed, "kept": kept}))


def stored(folder: Path) -> list[str]:
    """A run's events as text."""
    with Reader.open(folder) as reader:
        return [encode(recorded.event) for recorded in reader.events()]


def dies(folder: Path, other: Path, instant: int) -> bool:
    """Whether a merge in a child died before its write number ``instant``, commit and mailbox included."""
    child = os.fork()
    if child == 0:
        try:
            _die_before(instant)
            merge(folder, [str(other)])
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _die_before(instant: int) -> None:
    left = instant

    def counted() -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    write, take_over, put = stores._write, Store.take_over, Mailbox.put

    def deadly_write(db: sqlite3.Connection, seq: int, at: float, event: Event) -> None:
        counted()
        write(db, seq, at, event)

    def deadly_end(self: Store, *args: object, **kwargs: object) -> int:
        last = take_over(self, *args, **kwargs)  # type: ignore[arg-type]
        counted()
        return last

    def deadly_put(self: Mailbox, *args: object) -> bool:
        counted()
        return put(self, *args)  # type: ignore[arg-type]

    stores._write = deadly_write  # type: ignore[assignment]
    Store.take_over = deadly_end  # type: ignore[method-assign]
    Mailbox.put = deadly_put  # type: ignore[method-assign]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
