"""The lock that makes a process the one writer of a run's folder."""

import fcntl
import os
import socket
import time
from pathlib import Path

from results.errors import RunInUse
from results.folder import LOCK

TRIES = 10
PAUSE_S = 0.02


class WriterLock:
    """Held from construction to ``release``, and given back by the kernel when the process dies, however it dies.

    Raises RunInUse where another process holds it. Processes forked from the holder don't keep it.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._acquire(folder)
        except BaseException:
            os.close(self._file)
            raise
        os.register_at_fork(after_in_child=self.release)

    def _acquire(self, folder: Path) -> None:
        for left in reversed(range(TRIES)):  # a reader that looks whether the run is live holds the lock for a moment
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if left == 0:
                    holder = os.pread(self._file, 200, 0).decode("utf-8", "replace").strip() or "an unknown process"
                    raise RunInUse(
                        folder,
                        f"Another process writes to this run: {holder}",
                        "Wait for it, or stop it with `askevolve stop`; to look at the run use `askevolve status`.",
                    ) from None
                time.sleep(PAUSE_S)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process write."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def is_locked(folder: Path) -> bool:
    """Whether a process is writing to the run now."""
    try:
        file = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
