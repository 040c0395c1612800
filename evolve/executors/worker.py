"""An evaluator in a process of its own, whose whole process tree dies with it and with whoever holds it.

Three processes: the holder; a guard that waits for the evaluator and then kills what it left behind; the evaluator, which kills
everything below itself when the holder is gone. Guard and evaluator are child subreapers (Linux ``prctl``), so that
processes which a candidate sends into new sessions stay in their trees. Holder and guard may die together, as under Ray.
"""

import contextlib
import ctypes
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection

import psutil

from evaluator.outcome import Outcome
from evaluator.request import Evaluator, Request
from evolve.errors import EnvironmentUnfit

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_GOODBYE_S = 5.0


class WorkerDiedError(Exception):
    """The evaluator's process ended, raised, or was silent for too long in the middle of a request."""


class Worker:
    """Holds an evaluator's process. After WorkerDiedError it is unusable; make another.

    A request that isn't answered within ``deadline_s`` seconds (None: no limit) has met a fault of ours, since the evaluator
    ends what a candidate does in time by itself. ``environment`` adds variables to those of this process.
    """

    def __init__(
        self, build: Callable[[], Evaluator], deadline_s: float | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._deadline_s = deadline_s
        ours, theirs = socket.socketpair()
        life_end, self._lifeline = os.pipe()
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "evolve.executors.worker", str(theirs.fileno()), str(life_end)],
            pass_fds=(theirs.fileno(), life_end),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)} | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # ctrl-C in the terminal reaches the driver only
        )
        theirs.close()
        os.close(life_end)
        self._pipe = Connection(ours.detach())
        self._pipe.send(build)

    def evaluate(self, request: Request) -> Outcome:
        """The outcome. Raises WorkerDiedError, or EnvironmentUnfit where that kept the evaluator from being built, in both
        cases after every process of the evaluator has been killed.
        """
        try:
            self._pipe.send(request)
            if not self._pipe.poll(self._deadline_s):
                self.close()
                raise WorkerDiedError(f"the evaluator gave no answer within {self._deadline_s:g} s and was killed")
            answer = self._pipe.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            self.close()
            raise WorkerDiedError(f"the evaluator's process ended with status {self._guard.returncode}") from None
        if isinstance(answer, Outcome):
            return answer
        self.close()
        if isinstance(answer, EnvironmentUnfit):
            raise answer
        raise WorkerDiedError(str(answer))

    def close(self) -> None:
        """Stop the evaluator and whatever it started. Safe to call twice."""
        if self._pipe.closed:
            return
        self._pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(timeout=_GOODBYE_S)
        os.close(self._lifeline)
        self._guard.wait()


def serve(pipe: Connection) -> None:
    """Evaluate what comes through the pipe until it closes; an exception is sent back as text, EnvironmentUnfit as itself."""
    evaluator: Evaluator | None = None
    try:
        evaluator = pipe.recv()()
        while True:
            pipe.send(evaluator.evaluate(pipe.recv()))
    except (EOFError, ConnectionError):
        pass
    except Exception as error:
        with contextlib.suppress(OSError):
            pipe.send(error if isinstance(error, EnvironmentUnfit) else f"{type(error).__name__}: {error}")
    finally:
        if evaluator is not None:
            evaluator.close()


def become_subreaper() -> None:
    """Make orphans below this process its own children (Linux; elsewhere nothing changes)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_descendants() -> None:
    """SIGKILL and reap every process below this one, round after round: each death may bring orphans into the tree."""
    while children := psutil.Process().children(recursive=True):
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, timeout=_GOODBYE_S)


def _guard(evaluator_pid: int) -> int:
    """The evaluator's exit status (128 + N after signal N), when it and everything below it is gone."""
    _, status = os.waitpid(evaluator_pid, 0)
    kill_descendants()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _die_with_holder(life_end: int) -> None:
    """Block until the holder is gone; then kill everything below and leave at once, whatever the evaluator is doing."""
    os.read(life_end, 1)
    kill_descendants()
    os._exit(1)


def _main(pipe_end: int, life_end: int) -> None:
    become_subreaper()
    if child := os.fork():  # nothing else runs yet, so forking is safe
        os.close(pipe_end)
        os.close(life_end)
        sys.exit(_guard(child))
    os.setsid()
    become_subreaper()
    threading.Thread(target=_die_with_holder, args=(life_end,), daemon=True).start()
    serve(Connection(pipe_end))


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))
