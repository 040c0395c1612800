import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from evolve.api import run
from results.events import StepAsked, StepEvaluated
from tests.evolve.simulation import config, essence, shuffled, stored

ROOT = Path(__file__).parents[2]
MEMORY = Path("/dev/shm")
KILLS = 100


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """A folder in memory where there is one: SIGKILL loses nothing that was written, so no disk is needed to test it."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="askevolve-test-") as folder:
        yield Path(folder)


def test_the_run_is_the_same_after_100_kills_at_random_instants(quick_folder: Path) -> None:
    command = [sys.executable, "-m", "tests.evolve.killing", str(quick_folder), str(KILLS), "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["killed"] >= KILLS
    reference = run(config(), root=quick_folder / "reference", executor=shuffled())
    whole = essence(stored(reference.folder))
    for number in range(counts["runs"]):
        events = stored(quick_folder / str(number) / "sim")
        assert essence(events) == whole
        paid = sum(isinstance(event, StepAsked) and event.candidate is not None for event in events)
        assert paid == 24 == sum(isinstance(event, StepEvaluated) for event in events)
