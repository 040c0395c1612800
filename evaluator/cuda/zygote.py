"""The warm parent of candidates' processes: has imported all they need, holds no context, forks one when asked.

Run as ``python -m evaluator.cuda.zygote SOCKET``. Requests: {"do": "fork"} with one end of a socket pair -> {"pid"};
{"do": "end", "pid"} kills that process group and reaps -> {"status"}. It ends, and its children with it, when its socket closes.

CUDA can't be initialised in a process whose ancestor had initialised it, or had used NVRTC, before the fork; so nothing here may.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import socket
import sys
import traceback
from typing import Any

from evaluator.cuda.child import serve
from evaluator.cuda.messages import Message, receive, send

PR_SET_PDEATHSIG = 1
REAP_MS = 10_000
_libc = ctypes.CDLL(None, use_errno=True)


class Nursery:
    """The processes forked here and not reaped yet."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._pids: set[int] = set()

    def obey(self, request: Message) -> dict[str, Any]:
        """The answer to one request."""
        if request.fields["do"] == "fork":
            return {"pid": self._fork(request.descriptors[0])}
        return {"status": self._end(request.fields["pid"])}

    def end_all(self) -> None:
        """Kill and reap all that are left."""
        for pid in tuple(self._pids):
            self._end(pid)

    def _fork(self, descriptor: int) -> int:
        zygote = os.getpid()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self._control.close()
                become_child(zygote)
                with socket.socket(fileno=descriptor) as end:
                    serve(end)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        with contextlib.suppress(OSError):  # the child does the same; whoever is first
            os.setpgid(pid, pid)
        os.close(descriptor)
        self._pids.add(pid)
        return pid

    def _end(self, pid: int) -> int | None:
        """The wait status of a killed process, None if it doesn't die (a driver call that never returns)."""
        if pid not in self._pids:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        handle = os.pidfd_open(pid)
        try:
            ready, _, _ = select.select([handle], [], [], REAP_MS / 1000)
        finally:
            os.close(handle)
        if not ready:
            return None
        self._pids.discard(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def become_child(parent: int) -> None:
    """Lead a process group, die with the parent, leave no core. Called right after the fork."""
    os.setpgid(0, 0)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    """Serve requests until the socket named by the first argument closes."""
    with socket.socket(fileno=int(sys.argv[1])) as control:
        control.set_inheritable(False)
        nursery = Nursery(control)
        try:
            while (request := receive(control)) is not None:
                send(control, nursery.obey(request))
        finally:
            nursery.end_all()


if __name__ == "__main__":
    main()
