"""The process of a baseline on the GPU, beside the candidate's: it times itself by events, since it is ours."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.messages import socket_pair
from evaluator.warm import CONTROL_DEADLINE_S, WarmPool, exchange, python_environment

COMPLAINT_BYTES = 4000
GRACE_S = 2.0
FORGET_S = 5.0


@dataclass(slots=True)
class BaselineProcess:
    """Implements ``evaluator.warm.WarmProcess``. ``complaints`` is a file that takes what the process writes to stderr."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    complaints: int
    _ended: str | None = None

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def ask(self, message: Mapping[str, object], files: Sequence[int] = ()) -> Mapping[str, Any] | str:
        """See ``evaluator.warm.WarmProcess``."""
        return self._exchange(message, files, CONTROL_DEADLINE_S)

    def run(self, slots: Sequence[int], deadline_s: float) -> float | str:
        """See ``evaluator.warm.WarmProcess``. Device time: the sum over the slots of the time between their two events."""
        answer = self._exchange({"do": "run", "slots": list(slots)}, (), deadline_s)
        return f"The baseline failed: {answer}" if isinstance(answer, str) else float(answer["elapsed_us"])

    def end(self) -> None:
        """See ``evaluator.warm.WarmProcess``."""
        self._end(0.0)

    def _exchange(self, message: Mapping[str, object], files: Sequence[int], deadline_s: float) -> Mapping[str, Any] | str:
        if self._ended is not None:
            return self._ended
        try:
            answer = exchange(self.control, message, files, deadline_s)
        except TimeoutError:
            self._end(0.0)
            return f"no answer within {deadline_s:g} s"
        return self._end(GRACE_S) if answer is None else answer

    def _end(self, grace_s: float) -> str:
        """Kill the group (after ``grace_s`` for a process that is ending by itself) and reap it; its last words.

        A process that a hung driver keeps alive is left to it after a few seconds.
        """
        if self._ended is None:
            self.control.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_s)
            if self.process.poll() is None:
                os.killpg(self.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(FORGET_S)
            start = max(0, os.fstat(self.complaints).st_size - COMPLAINT_BYTES)
            complaint = os.pread(self.complaints, COMPLAINT_BYTES, start).decode("utf-8", "replace").strip()
            os.close(self.complaints)
            self._ended = f"the baseline's process ended: {complaint[-1000:]}"
        return self._ended


def warm_pool(ordinal: int) -> WarmPool[BaselineProcess]:
    """Processes on the GPU with that number."""
    return WarmPool(lambda folder: spawn("evaluator.cuda.baseline_child", str(folder), str(ordinal)))


def spawn(module: str, *arguments: str) -> BaselineProcess:
    """A new Python process that runs ``module`` with its end of the control socket as first argument. Raises OSError."""
    ours, theirs = socket_pair()
    complaints = os.memfd_create("stderr", os.MFD_CLOEXEC)
    try:
        process = subprocess.Popen(
            (sys.executable, "-m", module, str(theirs.fileno()), *arguments),
            env=python_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        os.close(complaints)
        raise
    finally:
        theirs.close()
    return BaselineProcess(process, ours, complaints)
