"""A real driver under a real Ray: SIGKILL of it, SIGKILL of Ray, SIGTERM."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from evolve.api import resume, run
from results.events import StepEvaluated
from results.reader import Reader
from tests.evolve.simulation import config, essence, shuffled, stored

ROOT = Path(__file__).parents[2]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.driver", str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    yield process
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()


def wait_for(condition: Callable[[], bool], deadline_s: float = 60.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def evaluated(folder: Path) -> int:
    """How many outcomes are stored."""
    try:
        with Reader.open(folder) as reader:
            return sum(isinstance(recorded.event, StepEvaluated) for recorded in reader.events())
    except Exception:
        return 0


def tree(driver: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(driver.pid).children(recursive=True)


def named(processes: list[psutil.Process], word: str) -> list[psutil.Process]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(word in part for part in process.cmdline()):
                found.append(process)
    return found


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def finish(folder: Path, tmp_path: Path) -> None:
    """Resume to the end and compare with a run that nobody disturbed."""
    result = resume(folder, executor=shuffled())
    assert result.candidates == 24
    reference = run(config(), root=tmp_path / "reference", executor=shuffled())
    assert essence(stored(folder)) == essence(stored(reference.folder))


def test_kill_of_the_driver_leaves_no_evaluator_and_loses_nothing(tmp_path: Path, driver: subprocess.Popen[str]) -> None:
    wait_for(lambda: evaluated(tmp_path / "sim") >= 6)
    below = tree(driver)
    driver.kill()
    driver.wait()
    evaluators = named(below, "evolve.executors.worker")  # Ray's own agents take a while to notice
    assert evaluators
    wait_for(lambda: not any(map(alive, evaluators)))
    finish(tmp_path / "sim", tmp_path)


def test_kill_of_ray_loses_nothing(tmp_path: Path, driver: subprocess.Popen[str]) -> None:
    wait_for(lambda: evaluated(tmp_path / "sim") >= 6)
    below = tree(driver)
    workers = named(below, "evolve.executors.worker")
    [raylet] = named(below, "raylet/raylet")
    raylet.kill()
    wait_for(lambda: not any(map(alive, workers)))
    out, _ = driver.communicate(timeout=60)
    assert out.strip().splitlines()[-1] == "environment", "it would wait for ever for workers that nobody can start"
    finish(tmp_path / "sim", tmp_path)


@pytest.mark.slow
def test_sigterm_drains_and_saves(tmp_path: Path, driver: subprocess.Popen[str]) -> None:
    wait_for(lambda: evaluated(tmp_path / "sim") >= 4)
    os.kill(driver.pid, signal.SIGTERM)
    out, _ = driver.communicate(timeout=60)
    assert out.strip() == "requested"
    assert evaluated(tmp_path / "sim") < 24
    finish(tmp_path / "sim", tmp_path)
