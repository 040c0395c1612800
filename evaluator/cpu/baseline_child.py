"""The process that runs baselines: imports a task's ``baselines.py`` once, then obeys its parent.

Arguments: control socket, command pipe, record pipe, task folder, cores. Control messages are JSON and may carry files; commands
name slots to run, and the parent's clock runs until the record comes back.
"""

import gc
import json
import mmap
import os
import select
import socket
import sys
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evaluator.backend import Array
from evaluator.baseline import Baseline, Bound
from evaluator.buffers import NUMPY_TYPES
from evaluator.cpu.baseline import COMMAND, RECORD
from evaluator.task import load_baselines

MESSAGE_BYTES = 1 << 16


@dataclass(slots=True)
class _Session:
    """What one side has bound, and why the last run failed."""

    threads: int
    bound: list[Bound] = field(default_factory=list)
    error: str = "nothing failed"


def _map(descriptor: int, protection: int) -> mmap.mmap:
    return mmap.mmap(descriptor, os.fstat(descriptor).st_size, mmap.MAP_SHARED | mmap.MAP_POPULATE, protection)


def _array(block: Mapping[str, Any], files: Mapping[bool, mmap.mmap]) -> Array:
    data = np.frombuffer(files[block["role"] == "input"], np.uint8, block["bytes"], block["start"])
    array: Array = data.view(NUMPY_TYPES[block["dtype"]]).reshape(block["shape"])
    return array


def _bind(baselines: Mapping[str, Baseline], request: Mapping[str, Any], inputs_fd: int, scratch_fd: int) -> list[Bound]:
    """One bound baseline per slot. Raises ValueError with the reason if it can't run."""
    baseline = baselines.get(request["baseline"])
    if baseline is None:
        raise ValueError(f"the task has no baseline of that name; it has {', '.join(baselines)}")
    missing = baseline.available()
    if missing is not None:
        raise ValueError(missing)
    symbols = request["symbols"]
    if not baseline.supports(symbols):
        raise ValueError(f"it doesn't compute the scenario {symbols}")
    files = {True: _map(inputs_fd, mmap.PROT_READ), False: _map(scratch_fd, mmap.PROT_READ | mmap.PROT_WRITE)}
    bound = []
    for slot in range(request["slots"]):
        blocks = [block for block in request["blocks"] if block["slot"] == slot]
        arrays = {role: {b["name"]: _array(b, files) for b in blocks if b["role"] == role} for role in ("input", "output")}
        bound.append(baseline.bind(symbols, arrays["input"], arrays["output"]))
    return bound


def _obey(session: _Session, baselines: Mapping[str, Baseline], control: socket.socket) -> bool:
    """Handle one control message; False when the parent is gone."""
    text, files, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 3)
    if not text:
        return False
    message = json.loads(text)
    error: str | None = None
    try:
        if message["do"] == "bind":
            request = json.loads(os.pread(files[0], os.fstat(files[0]).st_size, 0))
            session.bound = _bind(baselines, request, files[1], files[2])
            _use_threads(session.threads)
        elif message["do"] == "store":
            session.bound[message["slot"]].store()
        elif message["do"] == "explain":
            error = session.error
        else:
            session.bound = []
            gc.collect()
            gc.freeze()  # what outlives a side is modules imported on the way: later collections needn't look at them
    except ValueError as refused:
        error = str(refused)
    except Exception as raised:  # the parent decides what to do about a baseline that fails
        error = f"{type(raised).__name__}: {raised}"
    for descriptor in files:
        os.close(descriptor)
    control.send(json.dumps({"error": error}).encode())
    return True


def _race(session: _Session, command: bytes, records: int) -> None:
    """Run the named slots in order and report."""
    sequence, count, *slots = COMMAND.unpack(command)
    good = True
    try:
        for slot in slots[:count]:
            session.bound[slot].call()
    except Exception:  # as above
        session.error, good = traceback.format_exc(limit=-3), False
    os.write(records, RECORD.pack(sequence, good))


def _use_threads(threads: int) -> None:
    """As many threads as a candidate has, also where torch was only imported by binding."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


def main(arguments: list[str]) -> None:
    """Obey until the parent closes the control socket."""
    control = socket.socket(fileno=int(arguments[0]))
    commands, records, folder = int(arguments[1]), int(arguments[2]), Path(arguments[3])
    cores = [int(core) for core in arguments[4].split(",")]
    os.sched_setaffinity(0, cores)
    warnings.filterwarnings("ignore", message=".*not writable.*")  # inputs are sealed, and nothing here writes them
    baselines = {baseline.name: baseline for baseline in load_baselines(folder)}
    session = _Session(threads=len(cores))
    gc.freeze()
    gc.disable()
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(commands, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if commands in ready:
            command = os.read(commands, COMMAND.size)
            if not command:
                return
            _race(session, command, records)
        elif not _obey(session, baselines, control):
            return


if __name__ == "__main__":
    main(sys.argv[1:])
