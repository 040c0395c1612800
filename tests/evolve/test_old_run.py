"""A run that an earlier version stored, when no step waited for its answer: it is read as it is, and goes on."""

import shutil
from pathlib import Path

import pytest

from evolve.api import resume, stored_config
from evolve.stopping import StopReason
from results.events import StepAsked, StepEvaluated, StepPosed
from results.reader import Reader
from results.store import Store
from tests.evolve.simulation import shuffled, stored

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "results" / "data" / "run_of_schema_1"


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it; it names its task and seeds from the root of the checkout."""
    monkeypatch.chdir(ROOT)
    shutil.copytree(KEPT, tmp_path / "old")
    return tmp_path / "old"


def test_it_is_read_and_left_alone(old: Path) -> None:
    before = (old / "run.db").read_bytes()
    with Reader.open(old) as reader:
        assert (reader.info().steps, reader.info().open_steps, reader.open_steps()) == (10, 0, ())
        assert len(reader.steps()) == 10
        with pytest.raises(KeyError, match="step 3 was never posed"):
            reader.prompt(3)
    assert (old / "run.db").read_bytes() == before


def test_it_goes_on_where_its_driver_was_lost(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Reader.open(KEPT) as reader:
        before = [recorded.event for recorded in reader.events()]
    _, card = stored_config(before)
    monkeypatch.setattr("evaluator.task._hash", lambda folder: card.hash)  # each change of the rules makes it another task
    result = resume(old, executor=shuffled())
    events = stored(old)
    assert events[: len(before)] == before
    assert (result.stopped_by, result.candidates) == (StopReason.CANDIDATES, 16)
    assert result.best is not None
    assert result.best.verified
    posed = [event.step.number for event in events if isinstance(event, StepPosed)]
    asked = [event.step.number for event in events if isinstance(event, StepAsked)]
    assert asked == list(range(len(asked)))
    assert posed == asked[10:], "what was asked before stays as it was, what is asked now is posed first"
    outcomes = [event.step_number for event in events if isinstance(event, StepEvaluated)]
    assert len(outcomes) == len(set(outcomes)) == 16
    with Store.open(old) as store:
        assert store.prompt(posed[0]).startswith("## Task")
