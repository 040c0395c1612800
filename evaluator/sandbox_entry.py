"""The first program in a sandbox: gives up rights and limits itself, then becomes the program it was asked to run.

Run as a script by ``evaluator.sandbox`` with ``python -I -S`` so that nothing happens between fork and exec in a parent with
threads. Standard library only. A failure is written to the status descriptor, which otherwise closes at exec.

System call numbers, structures and access rights: Linux ``include/uapi/linux/landlock.h`` and
``Documentation/userspace-api/landlock.rst``; each right carries the ABI that brought it.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import stat
import sys
from collections.abc import Iterable
from typing import Any

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH = 1
GET_VERSION = 1
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READABLE = EXECUTE | READ_FILE | READ_DIR
ABI_OF_RIGHTS = ((1, (1 << 13) - 1), (2, 1 << 13), (3, TRUNCATE), (5, IOCTL_DEV))
NET_ABI, BIND_AND_CONNECT_TCP = 4, 0b11
SCOPE_ABI, ABSTRACT_SOCKETS_AND_SIGNALS = 6, 0b11

libc = ctypes.CDLL(None, use_errno=True)


class RulesetAttributes(ctypes.Structure):
    """``struct landlock_ruleset_attr``."""

    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class PathBeneathAttributes(ctypes.Structure):
    """``struct landlock_path_beneath_attr``."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def landlock_version() -> int:
    """The kernel's Landlock ABI, 0 where it has none or a container runtime refuses the call."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(GET_VERSION))))


def checked(result: int, what: str) -> int:
    """``result`` of a system call, or OSError with ``what`` when it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def restrict_files(abi: int, readable: Iterable[str], writable: Iterable[str]) -> None:
    """Deny every file but ``readable`` (read, execute) and ``writable`` (everything), and TCP.

    The process must have "no new privileges" set. Paths that don't exist are skipped.
    """
    handled = sum(rights for since, rights in ABI_OF_RIGHTS if abi >= since)
    attributes = RulesetAttributes(
        handled,
        BIND_AND_CONNECT_TCP if abi >= NET_ABI else 0,
        ABSTRACT_SOCKETS_AND_SIGNALS if abi >= SCOPE_ABI else 0,
    )
    size = 8 if abi < NET_ABI else 16 if abi < SCOPE_ABI else 24
    ruleset = checked(
        libc.syscall(CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint(0)), "landlock ruleset"
    )
    for paths, rights in ((readable, READABLE), (writable, handled)):
        for path in paths:
            add_path(ruleset, path, rights & handled)
    checked(libc.syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0)), "landlock restrict")
    os.close(ruleset)


def add_path(ruleset: int, path: str, rights: int) -> None:
    """Allow ``rights`` at and beneath ``path``."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= FILE_RIGHTS
    attributes = PathBeneathAttributes(rights, descriptor)
    arguments = (ctypes.c_int(ruleset), ctypes.c_int(RULE_PATH_BENEATH), ctypes.byref(attributes), ctypes.c_uint(0))
    checked(libc.syscall(ADD_RULE, *arguments), f"landlock rule for {path}")
    os.close(descriptor)


def close_others(keep: Iterable[int]) -> None:
    """Close every descriptor from 3 up that isn't in ``keep``: a parent may hold some that would survive exec."""
    kept = {0, 1, 2, *keep}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):  # the listing's own descriptor is closed already
                os.close(int(name))


def limit(settings: dict[str, Any]) -> None:
    """Set the resource limits; the hard CPU limit is a second above the soft one, whose signal is easier to recognise."""
    wanted = {
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_CPU: (settings["cpu_s"], settings["cpu_s"] + 1),
        resource.RLIMIT_FSIZE: (settings["file_bytes"], settings["file_bytes"]),
        resource.RLIMIT_NPROC: (settings["processes"], settings["processes"]),
        resource.RLIMIT_AS: (settings["memory_bytes"], settings["memory_bytes"]),
    }
    for kind, pair in wanted.items():
        ceiling = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, pair if ceiling == resource.RLIM_INFINITY else (min(pair[0], ceiling), min(pair[1], ceiling)))


def main() -> None:
    """Read the settings from the first argument, restrict this process, and exec."""
    settings = json.loads(sys.argv[1])
    status = settings["status_fd"]
    try:
        os.set_inheritable(status, False)
        close_others([status, *settings["keep_fds"]])
        checked(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "parent death signal")
        checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(settings["writable"])
        abi = landlock_version()
        if abi:
            restrict_files(abi, settings["readable"], [settings["writable"], "/dev/null"])
        limit(settings)
        os.execve(settings["argv"][0], settings["argv"], settings["environment"])
    except (OSError, ValueError) as error:
        os.write(status, str(error).encode("utf-8", "replace"))
        os._exit(126)


if __name__ == "__main__":
    main()
