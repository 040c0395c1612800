"""A process of ours on the other end of two pipes: commands go down one, records come up the other, the clock stays here."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Clock = Callable[[], int]
"""A monotonic clock in nanoseconds."""


MOST_SLOTS = 251
COMPLAINT_BYTES = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for a command: at most one record, nothing if the process ended or ``timed_out``."""

    record: bytes
    elapsed_us: float
    timed_out: bool = False


@dataclass(slots=True)
class Child:
    """A running process in a session of its own. After ``end``: its exit ``status`` and the end of what it wrote to stderr."""

    process: subprocess.Popen[bytes]
    commands: int
    records: int
    complaints: int
    record_bytes: int
    clock_ns: Clock
    status: int | None = None
    complaint: str = ""
    _poll: select.poll = field(default_factory=select.poll)
    _threads: tuple[str, ...] = ()

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def exchange(self, command: bytes, deadline_s: float) -> Answer:
        """Send a command (may be empty) and wait for one record; the time between is the measured one."""
        limit_ms = max(1, int(deadline_s * 1000))
        started = self.clock_ns()
        if command:
            with contextlib.suppress(BrokenPipeError):
                os.write(self.commands, command)
        ready = self._poll.poll(limit_ms)
        record = os.read(self.records, self.record_bytes) if ready else b""
        elapsed_us = (self.clock_ns() - started) / 1000
        return Answer(record=record, elapsed_us=elapsed_us, timed_out=not ready)

    def unread(self) -> bool:
        """True if a record lies in the pipe that nobody asked for, or the process has ended."""
        return bool(self._poll.poll(0))

    def cpu_ns(self) -> int:
        """CPU time of all threads. Exact for sleeping threads; a running one may be behind by a scheduler tick."""
        total = 0
        for path in self._thread_files("schedstat"):
            with contextlib.suppress(OSError, ValueError):
                total += int(_read(path).split()[0])
        return total

    def settle(self, most_us: float) -> None:
        """Wait until every thread sleeps, at most so long."""
        give_up = self.clock_ns() + int(most_us * 1000)
        while not self._asleep() and self.clock_ns() < give_up:
            time.sleep(0)

    def _asleep(self) -> bool:
        states = []
        for path in self._thread_files("stat"):
            with contextlib.suppress(OSError):
                states.append(_read(path).rpartition(b")")[2].split()[0])
        return not any(state == b"R" for state in states)

    def remember_threads(self) -> None:
        """Keep the list of threads as it is now, which saves time where no thread can be added."""
        self._threads = tuple(os.listdir(f"/proc/{self.pid}/task"))

    def _thread_files(self, name: str) -> list[str]:
        threads: Sequence[str] = self._threads
        if not threads:
            with contextlib.suppress(OSError):
                threads = os.listdir(f"/proc/{self.pid}/task")
        return [f"/proc/{self.pid}/task/{thread}/{name}" for thread in threads]

    def end(self, grace_s: float = 0.0) -> int:
        """Kill the group (after ``grace_s`` for a process that is ending by itself), reap it; returns its exit status."""
        if self.status is not None:
            return self.status
        with contextlib.suppress(subprocess.TimeoutExpired):
            if grace_s > 0:
                self.process.wait(grace_s)
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self.status = self.process.wait()
        os.close(self.commands)
        os.close(self.records)
        start = max(0, os.fstat(self.complaints).st_size - COMPLAINT_BYTES)
        self.complaint = os.pread(self.complaints, COMPLAINT_BYTES, start).decode("utf-8", "replace").strip()
        os.close(self.complaints)
        return self.status


def slot_fields(slots: Sequence[int], available: int) -> list[int]:
    """Count and padded list of slots as commands carry them. Raises ValueError for a slot that a side doesn't have."""
    if not 1 <= len(slots) <= MOST_SLOTS or not all(0 <= slot < available for slot in slots):
        raise ValueError(f"slots {list(slots)}: a run takes 1 to {MOST_SLOTS} slots, each below {available}")
    return [len(slots), *slots, *([0] * (MOST_SLOTS - len(slots)))]


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1024)
    finally:
        os.close(descriptor)


def spawn(
    argv_of: Callable[[int, int], Sequence[str]],
    *,
    keep_fds: Sequence[int],
    environment: Mapping[str, str],
    record_bytes: int,
    clock_ns: Clock,
) -> Child:
    """Start a process with two fresh pipes. ``argv_of(command_fd, record_fd)`` gives its arguments.

    Must be called from a thread that outlives the child: the child asks the kernel to be killed with its parent's thread.
    """
    command_read, command_write = os.pipe()
    record_read, record_write = os.pipe()
    complaints = os.memfd_create("stderr", os.MFD_CLOEXEC)
    try:
        process = subprocess.Popen(
            argv_of(command_read, record_write),
            env=dict(environment),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            pass_fds=(command_read, record_write, *keep_fds),
            start_new_session=True,
        )
    except BaseException:
        os.close(command_write)
        os.close(record_read)
        os.close(complaints)
        raise
    finally:
        os.close(command_read)
        os.close(record_write)
    child = Child(process, command_write, record_read, complaints, record_bytes, clock_ns)
    child._poll.register(record_read, select.POLLIN)
    return child
