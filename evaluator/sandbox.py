"""Runs a compiler on text that nobody vouches for: few readable files, one writable folder, hard limits, no environment.

The child is started by ``posix_spawn`` (safe beside threads) as ``sandbox_entry.py``, which restricts itself through
Landlock and rlimits and then execs the program. The whole process group is killed at the deadline and when its leader ends.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.sandbox_entry import NET_ABI, SCOPE_ABI, landlock_version

ENTRY = Path(__file__).with_name("sandbox_entry.py")
OUTPUT_CAP_BYTES = 1 << 20
TOOLCHAIN = (
    "/usr/bin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/include",
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
)
OUT_OF_MEMORY = (
    b"out of memory allocating",
    b"virtual memory exhausted",
    b"Cannot allocate memory",
    b"std::bad_alloc",
    b"MemoryError",
)


class SandboxError(OSError):
    """The sandbox itself could not be set up: a fault of the host or the caller, never of the candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a child may use: CPU and wall seconds, address space of each process, size of each file it writes."""

    cpu_s: int
    wall_s: float
    memory_bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a child ended. ``returncode`` is negative for a signal, as in ``subprocess``.

    ``stdout`` and ``stderr`` are capped at 1 MiB each. ``limit_hit`` is "wall", "cpu", "memory", "file" or None.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    limit_hit: str | None
    wall_s: float


def landlock_abi() -> int:
    """The kernel's Landlock ABI version, 0 where there is none."""
    return landlock_version() if sys.platform == "linux" else 0


def limits_missing() -> tuple[str, ...]:
    """The protections of a sandboxed compile that this host can't enforce, in words for people; empty when all hold."""
    abi = landlock_abi()
    missing = []
    if abi == 0:
        missing.append("file access while compiling: no Landlock here, so a source could include any file you can read")
    if abi < NET_ABI:
        missing.append(f"network while compiling: Landlock ABI {abi}, TCP rules need {NET_ABI}")
    if abi < SCOPE_ABI:
        missing.append(f"signals while compiling: Landlock ABI {abi}, scopes need {SCOPE_ABI}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        missing.append("process count while compiling: not enforced for root")
    return tuple(missing)


def toolchain_paths() -> tuple[Path, ...]:
    """The folders that g++ and binutils need to read; none holds anything personal."""
    return tuple(Path(path) for path in TOOLCHAIN if Path(path).exists())


def run_sandboxed(
    argv: Sequence[str],
    *,
    readable: Sequence[Path],
    writable: Path,
    limits: Limits,
    stdin: bytes = b"",
    keep_fds: Sequence[int] = (),
) -> Finished:
    """Run ``argv`` (an absolute path first) in ``writable`` and return how it ended.

    It may read and execute what lies in ``readable``, write only in ``writable`` (also its TMPDIR), and keeps ``keep_fds`` under
    the same numbers. Raises SandboxError if it could not be started under these restrictions.
    """
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        pipes = {name: _pipe(stack) for name in ("stdout", "stderr", "status")}
        source = os.memfd_create("stdin")
        stack.callback(os.close, source)
        with open(source, "wb", closefd=False) as file:
            file.write(stdin)
        os.lseek(source, 0, os.SEEK_SET)
        fds = {0: source, 1: pipes["stdout"].write, 2: pipes["stderr"].write}
        settings = _settings(argv, readable, writable, limits, keep_fds) | {"status_fd": pipes["status"].write}
        pid = _spawn(settings, fds, keep=(pipes["status"].write, *keep_fds))
        for pipe in pipes.values():
            pipe.close_write()
        watch = _Watch(pid=pid, reads={pipe.read: bytearray() for pipe in pipes.values()})
        in_time = watch.until_end(started + limits.wall_s)
        status, usage_s = watch.end()
        output = {name: bytes(watch.reads[pipe.read]) for name, pipe in pipes.items()}
    if output["status"]:
        raise SandboxError(f"can't start {argv[0]} in the sandbox: {output['status'].decode('utf-8', 'replace')}")
    returncode = os.waitstatus_to_exitcode(status)
    hit = (
        "wall"
        if not in_time
        else None
        if returncode == 0
        else _limit_hit(returncode, usage_s, output["stderr"], writable, limits)
    )
    return Finished(
        returncode=returncode,
        stdout=output["stdout"],
        stderr=output["stderr"],
        limit_hit=hit,
        wall_s=time.monotonic() - started,
    )


@dataclass(slots=True)
class _Pipe:
    read: int
    write: int
    open_write: bool = True

    def close_write(self) -> None:
        if self.open_write:
            os.close(self.write)
            self.open_write = False


def _pipe(stack: contextlib.ExitStack) -> _Pipe:
    pipe = _Pipe(*os.pipe())
    stack.callback(os.close, pipe.read)
    stack.callback(pipe.close_write)
    os.set_blocking(pipe.read, False)
    return pipe


def _settings(
    argv: Sequence[str], readable: Sequence[Path], writable: Path, limits: Limits, keep_fds: Sequence[int]
) -> dict[str, object]:
    folder = str(writable.resolve())
    return {
        "argv": list(argv),
        "readable": [str(path) for path in readable],
        "writable": folder,
        "environment": {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TMPDIR": folder},
        "keep_fds": list(keep_fds),
        "cpu_s": limits.cpu_s,
        "memory_bytes": limits.memory_bytes,
        "file_bytes": limits.file_bytes,
        "processes": _processes_now() + 256,
    }


def _processes_now() -> int:
    """Tasks on this host, from /proc/loadavg ("0.20 0.18 0.12 1/80 11206"): RLIMIT_NPROC counts all of a user's tasks."""
    return int(Path("/proc/loadavg").read_text().split()[3].split("/")[1])


def _spawn(settings: Mapping[str, object], fds: Mapping[int, int], keep: Sequence[int]) -> int:
    """Start the entry script as leader of a new session; returns its pid."""
    actions: list[tuple[int, int, int]] = [(os.POSIX_SPAWN_DUP2, number, number) for number in keep]
    actions += [(os.POSIX_SPAWN_DUP2, source, target) for target, source in fds.items()]
    argv = [sys.executable, "-I", "-S", str(ENTRY), json.dumps(settings)]
    return os.posix_spawn(
        sys.executable, argv, {"LC_ALL": "C.UTF-8"}, file_actions=actions, setsid=True, setsigmask=[], setsigdef=[signal.SIGINT]
    )


@dataclass(slots=True)
class _Watch:
    """Collects what a child prints until it ends or its time is up."""

    pid: int
    reads: dict[int, bytearray]
    closed: set[int] = field(default_factory=set)

    def until_end(self, deadline_s: float) -> bool:
        """Drain the pipes until the leader ends; False if the deadline came first."""
        poll = select.poll()
        leader = os.pidfd_open(self.pid)
        poll.register(leader, select.POLLIN)
        for descriptor in self.reads:
            poll.register(descriptor, select.POLLIN)
        try:
            while (left_s := deadline_s - time.monotonic()) > 0:
                ready = {descriptor for descriptor, _ in poll.poll(min(left_s, 1.0) * 1000)}
                for descriptor in ready - {leader}:
                    if not self._drain(descriptor):
                        poll.unregister(descriptor)
                if leader in ready:
                    return True
            return False
        finally:
            os.close(leader)

    def end(self) -> tuple[int, float]:
        """Kill the whole group, reap the leader, take what is left in the pipes; returns wait status and CPU seconds."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        _, status, usage = os.wait4(self.pid, 0)
        for descriptor in set(self.reads) - self.closed:
            self._drain(descriptor)
        return status, usage.ru_utime + usage.ru_stime

    def _drain(self, descriptor: int) -> bool:
        """Read all that is there, keeping at most OUTPUT_CAP_BYTES; False at the end of the stream."""
        kept = self.reads[descriptor]
        try:
            while data := os.read(descriptor, 1 << 16):
                kept += data[: OUTPUT_CAP_BYTES - len(kept)]
        except BlockingIOError:
            return True
        self.closed.add(descriptor)
        return False


def _limit_hit(returncode: int, cpu_s: float, stderr: bytes, writable: Path, limits: Limits) -> str | None:
    """Which limit a failed child ran into: g++ reports those of its own children only in words, so usage and files count too."""
    if returncode == -signal.SIGXCPU or cpu_s >= limits.cpu_s or b"CPU time limit exceeded" in stderr:
        return "cpu"
    if returncode == -signal.SIGXFSZ or any(
        path.stat().st_size >= limits.file_bytes for path in writable.rglob("*") if path.is_file() and not path.is_symlink()
    ):
        return "file"
    return "memory" if any(words in stderr for words in OUT_OF_MEMORY) else None
