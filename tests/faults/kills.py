"""Kills what belongs to a run with real timings, again and again, and looks whether the run holds.

``python -m tests.faults.kills FOLDER KIND KILLS SEED`` does so until so many processes were killed, in as many runs as that
takes, and prints one JSON document: kills by role, runs, drivers started, evaluations that ended in a fault of the harness.
"""

import collections
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from evaluator.outcome import Verdict
from results.codec import encode
from results.events import Event, FinalMeasured, StepAsked, StepEvaluated, StepFolded
from results.folder import holds_run
from results.reader import Reader

ROOT = Path(__file__).parents[2]
CANDIDATES = 12
ROLES: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "compiler": lambda line: line[0].endswith(("cc1plus", "g++", "/as", "/ld", "collect2", "-g++-12", "-g++-13", "-g++-14")),
    "candidate": lambda line: line[0].endswith("/artefact"),
    "baseline": lambda line: "evaluator.cpu.baseline_child" in line,
    "evaluator": lambda line: "evolve.executors.worker" in line,
    "actor": lambda line: line[0].startswith("ray::_Actor"),
    "raylet": lambda line: line[0].endswith("raylet/raylet"),
    "gcs": lambda line: line[0].endswith("gcs_server"),
}
NO_BLAME = {Verdict.OK, Verdict.AMBIGUOUS, Verdict.SLOWER, Verdict.HARNESS_FAULT}
"""What an evaluation of a right kernel may come to, whatever is killed."""


@dataclass(slots=True)
class Killing:
    """One run, its drivers one after the other, and every process that was ever seen below them."""

    folder: Path
    kind: str
    environment: Mapping[str, str]
    candidates: int = CANDIDATES
    drivers: int = 0
    kills: collections.Counter[str] = field(default_factory=collections.Counter)
    seen: set[psutil.Process] = field(default_factory=set)

    @property
    def run(self) -> Path:
        """The run's folder."""
        return self.folder / "runs" / "timed"

    def drive(self, role: str | None, wait_s: float) -> bool:
        """Start a driver, kill the first process of a role that is seen ``wait_s`` after its start; whether the run ended."""
        before = self.stored()
        self.drivers += 1
        command = [sys.executable, "-m", "tests.faults.timed", str(self.folder), self.kind, str(self.candidates)]
        driver = subprocess.Popen(
            command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._watch(driver, role, time.monotonic() + wait_s)
        said, _ = driver.communicate(timeout=120)
        self.check_nothing_lost(before, self.stored())
        return driver.returncode == 0 and said.split()[-1] == "candidates"

    def _watch(self, driver: "subprocess.Popen[str]", role: str | None, not_before: float) -> None:
        """Note the driver's processes until it ends; kill once."""
        give_up = time.monotonic() + 300
        while driver.poll() is None:
            assert time.monotonic() < give_up, f"{self.kind}: hangs after {role} was killed"
            with contextlib.suppress(psutil.NoSuchProcess):
                tree = psutil.Process(driver.pid).children(recursive=True)
                self.seen.update(tree)
                if role is not None and time.monotonic() >= not_before and self._kill(role, driver.pid, tree):
                    role = None
            time.sleep(0.01)

    def _kill(self, role: str, driver: int, tree: Sequence[psutil.Process]) -> bool:
        victims = [psutil.Process(driver)] if role == "driver" else [process for process in tree if has_role(process, role)]
        for victim in victims[-1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
                self.kills[role] += 1
                return True
        return False

    def stored(self) -> list[Event]:
        """All events of the run, none before it begins."""
        if not holds_run(self.run):
            return []
        with Reader.open(self.run) as reader:
            return [recorded.event for recorded in reader.events()]

    def check_nothing_lost(self, before: Sequence[Event], after: Sequence[Event]) -> None:
        """What was stored is still the beginning of what is stored."""
        assert list(map(encode, after[: len(before)])) == list(map(encode, before))

    def check_end(self) -> int:
        """Each step once, the budget exact, nobody blamed, nothing left behind; returns how many evaluations ended in faults."""
        events = self.stored()
        asked = [event.step.number for event in events if isinstance(event, StepAsked)]
        outcomes = {event.step_number: event.outcome for event in events if isinstance(event, StepEvaluated)}
        folded = [event.step_number for event in events if isinstance(event, StepFolded)]
        new = [event.step.number for event in events if isinstance(event, StepAsked) and event.candidate is not None]
        assert asked == folded == list(range(len(asked)))
        assert sum(isinstance(event, StepEvaluated) for event in events) == len(outcomes)
        assert sorted(outcomes) == new
        finals = [event.outcome for event in events if isinstance(event, FinalMeasured)]
        assert {outcome.verdict for outcome in (*outcomes.values(), *finals)} <= NO_BLAME
        faults = sum(outcome.verdict is Verdict.HARNESS_FAULT for outcome in outcomes.values())
        assert len(outcomes) - faults == self.candidates
        self.check_nobody_left()
        return faults

    def check_nobody_left(self, within_s: float = 90.0) -> None:
        """Every process ever seen has ended; Ray's own agents take a while to notice."""
        end = time.monotonic() + within_s
        while left := [process for process in self.seen if alive(process)]:
            assert time.monotonic() < end, f"left behind: {[process.cmdline()[:3] for process in left]}"
            time.sleep(0.1)


def has_role(process: psutil.Process, role: str) -> bool:
    """Whether a process looks like what a role names."""
    with contextlib.suppress(psutil.NoSuchProcess):
        line = process.cmdline()
        return bool(line) and ROLES[role](line)
    return False


def alive(process: psutil.Process) -> bool:
    """Whether a process runs; a zombie doesn't."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def environment_in(folder: Path) -> dict[str, str]:
    """An environment whose caches and host lock lie in a folder, so that it compiles and other runs don't matter."""
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    return {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder / "tmp"), "RAY_TMPDIR": "/tmp"}


def main(folder: Path, kind: str, kills: int, seed: int) -> None:
    """Kill so many processes, in as many runs as that takes; each run is driven to its end and checked."""
    choice = random.Random(seed)
    roles = ["driver", "driver", "compiler", "candidate", "candidate", "baseline"]
    roles += ["evaluator", "actor", "raylet", "gcs"] if kind == "ray" else []
    total: collections.Counter[str] = collections.Counter()
    faults = drivers = runs = 0
    while total.total() < kills:
        killing = Killing(folder / str(runs), kind, environment_in(folder / str(runs)))
        while not killing.drive(choice.choice(roles), choice.uniform(0.5, 10.0 if kind == "ray" else 5.0)):
            pass
        faults += killing.check_end()
        total += killing.kills
        drivers += killing.drivers
        runs += 1
        print(f"{runs} runs, {drivers} drivers, {dict(total)}", file=sys.stderr, flush=True)
    print(json.dumps({"kind": kind, "kills": total, "runs": runs, "drivers": drivers, "faults": faults}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
