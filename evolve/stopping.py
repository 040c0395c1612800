"""Why a run stops, and who may ask it to."""

import contextlib
import os
import signal
import threading
from enum import StrEnum
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from results.folder import clear_stop, stop_requested


class StopReason(StrEnum):
    """Why a driver stopped."""

    GOAL = "goal"
    CANDIDATES = "candidates"
    HOURS = "hours"
    TOKENS = "tokens"
    """What is left doesn't pay for another call to a model."""
    USD = "usd"
    GPU_HOURS = "gpu_hours"
    EXHAUSTED = "exhausted"
    """So many steps in a row brought no new candidate, or no seed is right."""
    REQUESTED = "requested"
    WAITING = "waiting"
    """Nothing is left to do until an answer comes."""
    EVALUATION = "evaluation"
    """Nothing is left to do here until what is open has been evaluated, on another machine."""
    FAULTS = "faults"
    """Several evaluations in a row ended in faults of the harness, or those of the seeds."""
    ENVIRONMENT = "environment"
    """No worker is left that may evaluate: a GPU in quarantine, a dead Ray. The run's last note says which."""
    ANSWERER = "answerer"
    """The answerer failed."""


GOES_ON = frozenset(
    {
        StopReason.REQUESTED,
        StopReason.WAITING,
        StopReason.EVALUATION,
        StopReason.FAULTS,
        StopReason.ENVIRONMENT,
        StopReason.ANSWERER,
    }
)
"""Reasons after which `resume` goes on where it stopped; after the others the run is finished."""


NOTICE = b"stopping: evaluations under way are finished and saved first; ctrl-C again quits at once\n"


class StopRequest:
    """True once somebody asked the run to stop: SIGTERM, ctrl-C, or the STOP file in its folder.

    As a context manager it listens to signals (in the main thread only; elsewhere the file alone counts) and forgets an old
    STOP file. The first signal is confirmed on stderr, a second one raises KeyboardInterrupt.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.signalled = False
        """Whether a signal asked for it."""
        self._before: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self.signalled or stop_requested(self._folder)

    def __enter__(self) -> Self:
        clear_stop(self._folder)
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hear) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        clear_stop(self._folder)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.signalled:
            raise KeyboardInterrupt
        self.signalled = True
        with contextlib.suppress(OSError):  # straight to the terminal: a handler may interrupt a buffered write
            os.write(2, NOTICE)
