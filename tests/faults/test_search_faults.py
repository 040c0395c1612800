"""Faults in the middle of a search that are nobody's kernel: answerer, evaluator, caches. It stops cleanly and goes on."""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from evaluator.outcome import Outcome, Verdict
from evaluator.request import Evaluator, Request
from evaluator.settings import evaluation_deadline_s, full_settings, quick_settings
from evaluator.simulated import SimulatedEvaluator
from evolve import api
from evolve.executors.base import Done, Executor
from evolve.executors.fault import harness_fault
from evolve.executors.inline import InlineExecutor
from evolve.executors.worker import Worker, WorkerDiedError
from evolve.parts import assemble
from evolve.stopping import StopReason
from population.candidate import Language
from population.novelty import candidate_of
from results.events import RunNoted
from tests.contracts.executor import Scripted, request_of
from tests.evolve.simulation import card, config, essence, shuffled, stored
from tests.faults.mounts import needs_mounts
from tests.faults.timed import timed_config


def test_an_answerer_that_raises_stops_the_run_which_goes_on_later(ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("mutators.answerers.knobs.KnobAnswerer.answer", lambda self, prompt, rng: {}["no answer"])
        ran = ask("run", "sim.toml")
        assert ran.code == 4
        assert "the answerer knobs failed at step 2 (KeyError: 'no answer'). Nothing stored is lost: " in ran.err
        assert "askevolve resume runs/sim" in ran.err
        assert "Traceback" not in ran.err
        assert "the answerer failed" in ask("status", "sim").out
    assert ask("resume", "sim", "--json").document["candidates"] == 12


def test_answers_that_fail_now_and_then_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = api.run(config(), root=tmp_path / "reference", executor=shuffled())
    from mutators.answerers.knobs import KnobAnswerer

    answer, calls = KnobAnswerer.answer, iter(range(1000))

    def unreliable(self, prompt, rng):
        if next(calls) % 5 == 3:
            raise ConnectionError("the server hung up")
        return answer(self, prompt, rng)

    monkeypatch.setattr(KnobAnswerer, "answer", unreliable)
    result, stops = api.run(config(), root=tmp_path, executor=shuffled()), 0
    while result.stopped_by is StopReason.ANSWERER:
        result, stops = api.resume(result.folder, executor=shuffled()), stops + 1
    assert stops >= 3
    assert essence(stored(result.folder)) == essence(stored(reference.folder))


@dataclass
class Faulty:
    """A simulated evaluator that fails as it is told to: so many first evaluations of every candidate, by value or by raising."""

    times: int
    raises: bool = False

    def __post_init__(self) -> None:
        self.built = 0
        self.left: dict[str, int] = {}

    def __call__(self) -> Evaluator:
        self.built += 1
        whole, faulty = SimulatedEvaluator(card(), 5), self

        class Evaluating:
            def evaluate(self, request: Request) -> Outcome:
                left = faulty.left.setdefault(request.candidate.id, faulty.times)
                faulty.left[request.candidate.id] -= 1
                if left > 0 and faulty.raises:
                    raise OSError("No space left on device")
                return harness_fault(request, "a killed child") if left > 0 else whole.evaluate(request)

            def close(self) -> None:
                pass

        return Evaluating()


@pytest.mark.parametrize("faulty", [Faulty(1), Faulty(3, raises=True)])
def test_a_fault_that_passes_leaves_no_trace(tmp_path: Path, faulty: Faulty) -> None:
    reference = api.run(config(), root=tmp_path / "reference", executor=shuffled())
    result = api.run(config(), root=tmp_path, executor=InlineExecutor(faulty))
    assert essence(stored(result.folder)) == essence(stored(reference.folder))
    assert faulty.built > 24


@pytest.mark.parametrize("faulty", [Faulty(2), Faulty(4, raises=True)])
def test_seeds_that_only_the_harness_failed_are_tried_again(tmp_path: Path, faulty: Faulty) -> None:
    first = api.run(config(), root=tmp_path, executor=InlineExecutor(faulty))
    assert (first.stopped_by, first.candidates, first.best) == (StopReason.FAULTS, 0, None)
    assert any(isinstance(event, RunNoted) and "HARNESS_FAULT" in event.text for event in stored(first.folder))
    again = api.resume(first.folder, executor=shuffled())
    assert (again.stopped_by, again.candidates) == (StopReason.CANDIDATES, 24)
    assert api.resume(first.folder, executor=shuffled()).candidates == 24


def test_an_evaluator_that_hangs_is_killed_with_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evolve.executors.worker._GOODBYE_S", 0.1)
    worker = Worker(Scripted(tmp_path), deadline_s=1.0)
    with pytest.raises(WorkerDiedError, match="no answer within 1 s"):
        worker.evaluate(request_of("spawn 7361"))
    assert not [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == ["sleep", "7361"]]


def test_the_deadline_of_an_evaluation_is_generous_and_finite() -> None:
    quick, full = quick_settings(), full_settings()
    assert 900 < evaluation_deadline_s(quick, 1, 1) < evaluation_deadline_s(full, 1, 1) < 6 * 3600
    assert evaluation_deadline_s(quick, 8, 1) < evaluation_deadline_s(quick, 8, 8)
    slower = replace(quick, least_deadline_s=20.0)
    assert evaluation_deadline_s(slower, 1, 1) > evaluation_deadline_s(quick, 1, 1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where compiled kernels go; the host's lock is a private one too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("evaluator.harness.lock_path", lambda: tmp_path / "host.lock")
    return tmp_path / "cache"


INLINE = {"kind": "inline"}
RIGHT = (Verdict.OK, Verdict.AMBIGUOUS)


def evaluated(executor: Executor, request: Request) -> Outcome:
    """The outcome of one request."""
    executor.submit(0, request)
    done: list[Done] = []
    while not done:
        done.extend(executor.collect(0.2))
    return done[0].outcome


def test_a_cache_that_can_not_be_written_blames_nobody(tmp_path: Path, cache: Path) -> None:
    parts = assemble(timed_config(tmp_path, executor=INLINE))
    with closing(parts.executor()) as executor:
        [seed] = parts.seeds()
        cache.write_text("in the way")
        refused = evaluated(executor, Request(candidate=seed))
        assert refused.verdict is Verdict.HARNESS_FAULT
        assert str(cache) in refused.message
        cache.unlink()
        assert evaluated(executor, Request(candidate=seed)).verdict in RIGHT


@needs_mounts
def test_a_full_cache_blames_nobody(tmp_path: Path, cache: Path) -> None:
    parts = assemble(timed_config(tmp_path, executor=INLINE))
    cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", cache], check=True)
    try:
        with closing(parts.executor()) as executor:
            [seed] = parts.seeds()
            refused = evaluated(executor, Request(candidate=seed))
            assert refused.verdict is Verdict.HARNESS_FAULT
            assert "No space left" in refused.message
            subprocess.run(["mount", "-o", "remount,size=64m", cache], check=True)
            assert evaluated(executor, Request(candidate=seed)).verdict in RIGHT
    finally:
        subprocess.run(["umount", cache], check=True)


def test_a_cache_that_is_deleted_between_evaluations_is_made_anew(tmp_path: Path, cache: Path) -> None:
    parts = assemble(timed_config(tmp_path, executor=INLINE))
    with closing(parts.executor()) as executor:
        [seed] = parts.seeds()
        for _ in range(2):
            outcome = evaluated(executor, Request(candidate=seed))
            assert outcome.verdict in RIGHT
            shutil.rmtree(cache)


@pytest.mark.parametrize("chosen", ["", "relative/path"])
def test_without_a_cache_folder_of_ones_own_it_lies_below_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    from evaluator.cache import default_folder

    monkeypatch.setenv("XDG_CACHE_HOME", chosen)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "askevolve" / "builds"
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    with pytest.raises(OSError, match="set HOME, or XDG_CACHE_HOME"):
        default_folder()


class Killer:
    """Kills the first process below this one that looks like what it is told to, as soon as it is there."""

    def __init__(self, looks: Callable[[list[str]], bool]) -> None:
        self.killed = 0
        self._looks = looks
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._hunt)

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _hunt(self) -> None:
        while not self._over.is_set() and not self.killed:
            for process in psutil.Process().children(recursive=True):
                try:
                    line = process.cmdline()
                    if line and self._looks(line):
                        process.send_signal(signal.SIGKILL)
                        self.killed += 1
                        break
                except psutil.NoSuchProcess:
                    continue
            time.sleep(0.002)


@pytest.fixture
def no_descendants() -> Iterator[None]:
    """Everything that the test started has ended afterwards."""
    before = set(psutil.Process().children(recursive=True))
    yield
    assert not set(psutil.Process().children(recursive=True)) - before


@pytest.mark.usefixtures("cache", "no_descendants")
@pytest.mark.parametrize(
    "looks",
    [
        pytest.param(lambda line: line[0].endswith("cc1plus"), id="compiler"),
        pytest.param(lambda line: line[0].endswith("g++") or "g++-" in line[0], id="compiler driver", marks=pytest.mark.slow),
        pytest.param(lambda line: line[0].endswith("/artefact") and len(line) > 2, id="candidate"),
        pytest.param(lambda line: "evaluator.cpu.baseline_child" in line, id="baseline", marks=pytest.mark.slow),
    ],
)
def test_a_killed_child_is_repeated_and_blames_nobody(tmp_path: Path, looks) -> None:
    parts = assemble(timed_config(tmp_path, executor=INLINE))
    [seed] = parts.seeds()
    slow = candidate_of(seed.source.replace("*/\n", "*/\n#include <algorithm>\n#include <regex>\n", 1), Language.CPP)
    with closing(parts.executor()) as executor, Killer(looks) as killer:
        outcome = evaluated(executor, Request(candidate=slow))
    assert killer.killed == 1
    assert outcome.verdict in RIGHT
