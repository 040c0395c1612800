"""An answerer that runs a program for each prompt: prompt on its standard input, answer on its standard output."""

import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mutators.answerers.base import Prompt
from mutators.answerers.failures import Unanswered
from mutators.question import Answer, Usage

PAUSES_S = (2.0, 10.0)
"""Seconds before the second and third try of a program that failed."""

MAX_OUTPUT_BYTES = 4 * 1024 * 1024
"""Of an output, so much is read; an answer of this length is refused anyway."""

SHOWN_CHARS = 500


class CommandFailed(Unanswered):
    """The program gave no answer in any of its tries; the text says what the last one did, and what to do next."""


class CommandAnswerer:
    """Runs ``program`` (a path or name, then its arguments) for each prompt, in an empty folder of its own and with nothing but
    ``environment``. Safe in several threads.

    An answer is what the program prints if it ends with status 0 within ``time_limit_s`` seconds and prints anything; else it is
    tried again. ``clock`` counts seconds from anywhere.
    """

    name = "command"

    def __init__(
        self,
        program: Sequence[str],
        *,
        time_limit_s: float,
        environment: Mapping[str, str],
        pauses_s: Sequence[float] = PAUSES_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._program = tuple(program)
        self._time_limit_s = time_limit_s
        self._environment = dict(environment)
        self._pauses_s = tuple(pauses_s)
        self._clock = clock
        self._closing = threading.Event()

    def answer(self, prompt: Prompt, rng: np.random.Generator) -> Answer:
        """What the program printed. Raises CommandFailed."""
        began_s = self._clock()
        tries = 0
        for pause_s in (*self._pauses_s, None):
            tries += 1
            try:
                text = self._run(prompt)
            except CommandFailed as error:
                failure = error
            else:
                return Answer(text=text, answerer=self.name, usage=Usage(wall_s=self._clock() - began_s))
            if pause_s is None or self._closing.wait(pause_s):
                break
        raise CommandFailed(f"{failure}; tried {tries} times. Mend [command] program or its surroundings, then resume")

    def close(self) -> None:
        """Try nothing again; programs that run are waited for."""
        self._closing.set()

    def _run(self, prompt: Prompt) -> str:
        with tempfile.TemporaryDirectory(prefix="askevolve-command-") as scratch:
            folder = Path(scratch)
            (folder / "prompt.md").write_text(prompt.text, encoding="utf-8", errors="surrogateescape")
            work, out, err = folder / "work", folder / "out", folder / "err"
            work.mkdir()
            status = self._finished(folder / "prompt.md", work, out, err)
            said = _read(err, MAX_OUTPUT_BYTES).strip()[-SHOWN_CHARS:]
            if status != 0:
                how = "ran into its time limit" if status is None else f"ended with status {status}"
                raise CommandFailed(f"{self._program[0]} {how}" + (f", saying: {said}" if said else ""))
            text = _read(out, MAX_OUTPUT_BYTES)
        if not text.strip():
            raise CommandFailed(f"{self._program[0]} printed nothing" + (f" but: {said}" if said else ""))
        return text

    def _finished(self, prompt: Path, work: Path, out: Path, err: Path) -> int | None:
        """The program's status, None where it ran too long and was killed with all that it had started."""
        with prompt.open("rb") as given, out.open("wb") as printed, err.open("wb") as said:
            try:
                process = subprocess.Popen(
                    self._program, stdin=given, stdout=printed, stderr=said, cwd=work, env=self._environment,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise CommandFailed(f"{self._program[0]} can't be started ({error})") from error
            ended = False
            try:
                ended = _ends_within(process.pid, self._time_limit_s)
            finally:
                os.killpg(process.pid, signal.SIGKILL)  # it isn't reaped yet, so the number is still its own
                status = process.wait()
            return status if ended else None


def _ends_within(pid: int, limit_s: float) -> bool:
    """Whether a child ends in time; it is left for its parent to reap."""
    file = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(file, select.POLLIN)
        return bool(poll.poll(limit_s * 1000))
    finally:
        os.close(file)


def _read(path: Path, most_bytes: int) -> str:
    with path.open("rb") as file:
        return file.read(most_bytes).decode("utf-8", "replace")
