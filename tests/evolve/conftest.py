"""Fixtures of the search's tests."""

import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluator.task import Task, load_task
from evolve.api import RunResult, run
from tests.evolve.simulation import TINY_TASK, config

MEMORY = Path("/dev/shm")


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """A folder in memory where there is one: SIGKILL loses nothing that was written, so no disk is needed to test it."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="askevolve-test-") as folder:
        yield Path(folder)


@pytest.fixture
def tiny_task_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test with many runs would spend its time on."""
    monkeypatch.setattr("evolve.parts.load_task", lambda name: _tiny())


@functools.cache
def _tiny() -> Task:
    return load_task(str(TINY_TASK))


@pytest.fixture
def begun(quick_folder: Path) -> RunResult:
    """A run on a machine that evaluates nothing: its seeds wait."""
    return run(config(budget={"candidates": 12}), root=quick_folder / "home", evaluate=False)


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One Ray for all tests that need it: it takes seconds to start."""
    import ray

    ray.init(
        "local", num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="ERROR", object_store_memory=80 * 2**20
    )
    yield
    ray.shutdown()
