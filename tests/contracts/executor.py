"""What every executor must do; ``ExecutorContract`` runs against any implementation (see tests/evolve/test_executors.py)."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from evaluator.outcome import Device, Effort, Outcome, Stage, Verdict
from evaluator.request import Evaluator, Request
from evolve.errors import EnvironmentUnfit
from evolve.executors.base import Done, Executor
from population.candidate import Candidate, Language, hash_text

NOWHERE = Device(kind="scripted", name="scripted", arch="", cores=1, peak_tflops=1.0, peak_gbs=1.0)


class ScriptedEvaluator:
    """Does what the candidate's source says: ``sleep SECONDS``, ``spawn SECONDS`` (leaves a process behind), ``exit``,
    ``raise``, ``raise-until ATTEMPT``; ``sick`` fails in a fault of the harness, once, and leaves the place unfit; anything else
    is OK."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def evaluate(self, request: Request) -> Outcome:
        with (self._folder / "log").open("a") as log:
            log.write(f"{request.candidate.source}|{request.attempt}|{os.getpid()}\n")
        word, _, rest = request.candidate.source.partition(" ")
        if word == "sleep":
            time.sleep(float(rest))
        if word == "spawn":
            subprocess.Popen(["sleep", rest], start_new_session=True)
            time.sleep(60)
        if word == "exit":
            os._exit(7)
        if word == "raise" or (word == "raise-until" and request.attempt < int(rest)):
            raise RuntimeError("a bug in the evaluator")
        sick = word == "sick" and request.attempt == 0
        if sick:
            (self._folder / "unfit").touch()
        return Outcome(
            candidate_id=request.candidate.id,
            effort=request.effort,
            verdict=Verdict.HARNESS_FAULT if sick else Verdict.OK,
            stage=Stage.SCORE,
            message=f"attempt {request.attempt}",
            device=NOWHERE,
            task_hash="t",
            harness="h",
            wall_s=0.0,
        )

    def close(self) -> None:
        with (self._folder / "log").open("a") as log:
            log.write(f"closed|0|{os.getpid()}\n")


@dataclass(frozen=True)
class Scripted:
    """Builds a ScriptedEvaluator; pickles as one path. The first one built after a ``sick`` candidate finds its place unfit."""

    folder: Path

    def __call__(self) -> Evaluator:
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "unfit").unlink()
            raise EnvironmentUnfit("this GPU is quarantined: it hangs; run `askevolve doctor`")
        return ScriptedEvaluator(self.folder)

    def log(self) -> list[tuple[str, int, int]]:
        """What was evaluated so far, as (source, attempt, process id)."""
        path = self.folder / "log"
        rows = [line.split("|") for line in path.read_text().splitlines()] if path.exists() else []
        return [(source, int(attempt), int(pid)) for source, attempt, pid in rows]


def request_of(source: str) -> Request:
    """A request whose candidate has this source."""
    key = hash_text(source)
    return Request(candidate=Candidate(id=key, normal_id=key, language=Language.CPP, source=source), effort=Effort.SEARCH)


def collect_all(executor: Executor, count: int, deadline_s: float = 60.0) -> list[Done]:
    """``count`` results, or a failure after ``deadline_s``."""
    done: list[Done] = []
    end = time.monotonic() + deadline_s
    while len(done) < count:
        assert time.monotonic() < end, f"{len(done)} of {count} results after {deadline_s} s"
        done.extend(executor.collect(0.2))
    return done


class ExecutorContract:
    """Subclass it and say in ``make`` how to build the executor under test around an evaluator's builder."""

    def make(self, build: Callable[[], Evaluator]) -> Executor:
        raise NotImplementedError("return the executor under test")

    @pytest.fixture
    def script(self, tmp_path: Path) -> Scripted:
        return Scripted(tmp_path)

    @pytest.fixture
    def executor(self, script: Scripted) -> Iterator[Executor]:
        executor = self.make(script)
        yield executor
        executor.close()

    def test_nothing_submitted_nothing_collected(self, executor: Executor) -> None:
        assert list(executor.collect(0.01)) == []

    def test_every_request_comes_back_once_under_its_number(self, executor: Executor, script: Scripted) -> None:
        sources = {number: f"kernel {number}" for number in (5, 3, 8, -1, 0)}
        for number, source in sources.items():
            executor.submit(number, request_of(source))
        done = collect_all(executor, len(sources))
        assert {item.number: item.outcome.candidate_id for item in done} == {
            number: request_of(source).candidate.id for number, source in sources.items()
        }
        assert list(executor.collect(0.01)) == []
        assert sorted(source for source, _, _ in script.log()) == sorted(sources.values())

    def test_a_failing_worker_is_replaced_and_the_request_repeated(self, executor: Executor, script: Scripted) -> None:
        executor.submit(1, request_of("raise-until 3"))
        executor.submit(2, request_of("good"))
        outcomes = {item.number: item.outcome for item in collect_all(executor, 2)}
        assert outcomes[1].verdict is Verdict.OK
        assert outcomes[1].message == "attempt 3"
        assert outcomes[2].verdict is Verdict.OK
        assert [attempt for source, attempt, _ in script.log() if source == "raise-until 3"] == [0, 1, 2, 3]

    def test_after_three_repetitions_it_is_the_harness_fault(self, executor: Executor, script: Scripted) -> None:
        executor.submit(1, request_of("raise"))
        executor.submit(2, request_of("good"))
        outcomes = {item.number: item.outcome for item in collect_all(executor, 2)}
        assert outcomes[1].verdict is Verdict.HARNESS_FAULT
        assert outcomes[1].candidate_id == request_of("raise").candidate.id
        assert "a bug in the evaluator" in outcomes[1].message
        assert outcomes[2].verdict is Verdict.OK
        assert [attempt for source, attempt, _ in script.log() if source == "raise"] == [0, 1, 2, 3]

    def test_close_drops_the_queue_and_closes_evaluators(self, executor: Executor, script: Scripted) -> None:
        executor.submit(1, request_of("first"))
        collect_all(executor, 1)
        executor.close()
        assert list(executor.collect(0.01)) == []
        assert [source for source, _, _ in script.log()] == ["first", "closed"]
        executor.close()
