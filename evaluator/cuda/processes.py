"""Candidates' processes as this process sees them: a zygote that forks them, and the exchange of requests and answers."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluator.cuda.messages import Message, receive, send, socket_pair

CONTROL_DEADLINE_S = 20.0
COMPLAINT_BYTES = 4000
KEPT = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_PATH", "CUDA_HOME")
OURS = {"CUDA_CACHE_DISABLE": "1", "CUDA_MODULE_LOADING": "EAGER", "LC_ALL": "C.UTF-8"}
"""No compile cache on disk, which nothing needs; kernels are loaded with their module and not at their first launch."""

Clock = Callable[[], int]
"""A monotonic clock in nanoseconds."""


class ZygoteError(RuntimeError):
    """The zygote doesn't answer or has ended: a fault of the host, never of a candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back: ``fields``, None where nothing came because time was up (``timed_out``) or the process had ended."""

    fields: Mapping[str, Any] | None
    wall_us: float
    timed_out: bool = False


class Zygote:
    """A running zygote; dead once it has raised ZygoteError."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._control, theirs = socket_pair()
        self._control.settimeout(CONTROL_DEADLINE_S)
        self._complaints = os.memfd_create("stderr", os.MFD_CLOEXEC)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "evaluator.cuda.zygote", str(theirs.fileno())],
                env=dict(environment),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )

    def fork(self, clock_ns: Clock) -> "Child":
        """A new process that waits for requests. Raises ZygoteError."""
        ours, theirs = socket_pair()
        try:
            with theirs:
                pid = self._ask({"do": "fork"}, (theirs.fileno(),)).fields["pid"]
        except ZygoteError:
            ours.close()
            raise
        return Child(pid=pid, end=ours, zygote=self, clock_ns=clock_ns)

    def end(self, pid: int) -> int | None:
        """Kill and reap a process forked here; its exit status (negative: a signal), None if it won't die. Raises ZygoteError."""
        status: int | None = self._ask({"do": "end", "pid": pid}).fields["status"]
        return status

    def complaint(self) -> str:
        """The end of what the zygote and its children wrote to stderr."""
        start = max(0, os.fstat(self._complaints).st_size - COMPLAINT_BYTES)
        return os.pread(self._complaints, COMPLAINT_BYTES, start).decode("utf-8", "replace").strip()

    def close(self) -> None:
        """End the zygote and all its children, and reap it. Safe to call twice."""
        if self._process.returncode is not None:
            return
        self._control.close()
        try:
            self._process.wait(CONTROL_DEADLINE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._complaints)

    def _ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> Message:
        try:
            send(self._control, request, descriptors=descriptors)
            answer = receive(self._control)
        except OSError as error:
            raise ZygoteError(f"the zygote doesn't answer ({error}): {self.complaint() or 'no message'}") from error
        if answer is None:
            raise ZygoteError(f"the zygote has ended: {self.complaint() or 'no message'}")
        return answer


@dataclass(slots=True)
class Child:
    """A forked process. ``status`` is set once it is reaped (None before, and where it can't be killed)."""

    pid: int
    end: socket.socket
    zygote: Zygote
    clock_ns: Clock
    status: int | None = None
    ended: bool = field(default=False)

    def ask(self, request: Mapping[str, Any], deadline_s: float, payload: bytes = b"", descriptors: Sequence[int] = ()) -> Answer:
        """Send a request and wait for the answer at most ``deadline_s``; the wall time between is measured here."""
        started = self.clock_ns()
        fields: Mapping[str, Any] | None = None
        timed_out = False
        try:
            self.end.settimeout(deadline_s)
            send(self.end, request, payload, descriptors)
            answer = receive(self.end)
            fields = None if answer is None else answer.fields
        except TimeoutError:
            timed_out = True
        except OSError:  # it ended while we wrote
            pass
        return Answer(fields=fields, wall_us=(self.clock_ns() - started) / 1000, timed_out=timed_out)

    def kill(self) -> None:
        """Kill the process group and reap it. Raises ZygoteError. Safe to call twice."""
        if not self.ended:
            self.ended = True
            self.end.close()
            self.status = self.zygote.end(self.pid)


def environment() -> dict[str, str]:
    """What a zygote gets of this process's environment: the way to our modules and what the driver reads."""
    here = str(Path(__file__).parents[2])
    path = os.pathsep.join(part for part in (here, os.environ.get("PYTHONPATH", "")) if part)
    return {**{name: os.environ[name] for name in KEPT if name in os.environ}, **OURS, "PYTHONPATH": path}
