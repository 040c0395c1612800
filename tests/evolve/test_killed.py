import json
import subprocess
import sys
from pathlib import Path

import pytest

from evolve.api import run
from evolve.config import RunConfig
from evolve.parts import Parts
from results.events import StepAsked, StepEvaluated
from tests.evolve.answering import Outside, answered_by
from tests.evolve.killing import run_config
from tests.evolve.simulation import essence, shuffled, stored
from tests.evolve.sweeping import Editor, landscape

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("answerer", "kills"), [("knobs", 60), ("mailbox", 60), pytest.param("editor", 60, marks=pytest.mark.slow)]
)
def test_the_run_is_the_same_after_kills_at_random_instants(quick_folder: Path, answerer: str, kills: int) -> None:
    command = [sys.executable, "-m", "tests.evolve.killing", str(quick_folder), str(kills), "1", answerer]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["killed"] >= kills
    config = run_config(answerer, quick_folder)
    whole = essence(stored(_reference(config, quick_folder / "reference")))
    for number in range(counts["runs"]):
        events = stored(quick_folder / str(number) / "sim")
        assert essence(events) == whole
        paid = sum(isinstance(event, StepAsked) and event.candidate is not None for event in events)
        assert paid == config.budget.candidates == sum(isinstance(event, StepEvaluated) for event in events)


def _reference(config: RunConfig, root: Path) -> Path:
    """The run as one driver makes it that nobody kills, answered in the order of asking."""
    with pytest.MonkeyPatch.context() as patch:
        if config.mutation.answerer == "mailbox":
            answered_by(patch, Outside(root / "sim", in_order=True))
        if config.mutation.answerer == "recorded":
            patch.setattr(Parts, "answerer", lambda *_: Editor())
            return run(config, root=root, executor=landscape(config)).folder
        return run(config, root=root, executor=shuffled()).folder
