import pickle
import signal
from pathlib import Path

import numpy as np
import pytest

from evaluator.scaffold import new_task
from evaluator.task import load_task
from evolve.api import resume, run
from evolve.budget import Budget, Spent
from evolve.config import ConfigError
from evolve.goal import GoalError
from evolve.parts import assemble, bank_of
from evolve.posing import streams
from evolve.stopping import StopReason, StopRequest
from mutators.answerers.base import Prompt
from mutators.answerers.knobs import KnobAnswerer
from mutators.bank import BankError, load_bank
from mutators.question import Answer
from results.folder import request_stop
from tests.evolve.simulation import config, essence, shuffled, stored


def test_an_evaluator_travels_as_a_small_pickle() -> None:
    spec = assemble(config()).spec
    assert len(pickle.dumps(spec)) < 2000
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"population": {"seeds": ["nobody"]}}, "no seed 'nobody' for the simulated backend"),
        ({"population": {"seeds": ["/nowhere/x.cpp"]}}, "can't be read"),
        ({"population": {"seeds": ["./x.py"]}}, r"isn't a \.cpp or \.cu file"),
        ({"task": {"backend": "cuda"}}, r"isn't a \.cu file"),
        ({"executor": {"kind": "inline", "workers": 2}}, "set workers = 1"),
    ],
)
def test_what_cannot_be_built_is_refused_before_a_folder_is_made(
    tmp_path: Path, tables: dict[str, dict[str, object]], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        run(config(**tables), root=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_goal_with_an_unknown_peer_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(GoalError, match="no baseline 'fa4'"):
        run(config(goal={"expression": "geomean(fa4) > 1"}), root=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("spent", "reason"),
    [
        (Spent(candidates=9, wall_s=3599.0), None),
        (Spent(candidates=10), StopReason.CANDIDATES),
        (Spent(candidates=3, wall_s=3600.0), StopReason.HOURS),
    ],
)
def test_budget(spent: Spent, reason: StopReason | None) -> None:
    assert Budget(candidates=10, hours=1.0).exceeded_by(spent) is reason


def test_streams_depend_on_seed_and_step_alone() -> None:
    def drawn(seed: int, number: int) -> list[float]:
        found = streams(seed, number)
        return [found.selection.random(), found.question.random(), found.answer.random()]

    np.random.default_rng().random()
    assert drawn(7, 3) == drawn(7, 3)
    different = [*drawn(7, 3), *drawn(7, 4), *drawn(8, 3)]
    assert len(set(different)) == len(different)


def test_a_run_waits_for_answers_and_goes_on_when_they_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(config(), root=tmp_path / "whole", executor=shuffled())
    answer = KnobAnswerer.answer

    def slow(self: KnobAnswerer, prompt: Prompt, rng: np.random.Generator) -> Answer | None:
        return answer(self, prompt, rng) if prompt.step_number < 9 else None

    with monkeypatch.context() as patched:
        patched.setattr(KnobAnswerer, "answer", slow)
        waiting = run(config(), root=tmp_path, executor=shuffled())
    assert waiting.stopped_by is StopReason.WAITING
    assert waiting.questions_asked == 7
    assert resume(waiting.folder, executor=shuffled()).stopped_by is StopReason.CANDIDATES
    assert essence(stored(waiting.folder)) == essence(stored(whole.folder))


def test_stop_requests_come_by_file_and_by_signal(tmp_path: Path) -> None:

    (tmp_path / "run.db").write_text("a run")
    request_stop(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest(tmp_path) as stop:
        assert not stop, "an old request is forgotten"
        request_stop(tmp_path)
        assert stop
    with StopRequest(tmp_path) as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_tasks_own_questions_keep_the_rules_of_the_bank(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    new_task(folder)
    task = load_task(str(folder))
    card = task.card(task.sets()[0])
    assert bank_of(task, card) == load_bank()
    good = '[[question]]\nid = "rows-in-flight"\nlayer = "schedule"\nmoments = ["routine"]\n'
    good += 'text = "Which rows does a core still hold when it turns to the next ones?"\nsettle = "time over the block of rows"\n'
    (folder / "questions.toml").write_text(good)
    assert bank_of(task, card)[-1].id == "rows-in-flight"
    (folder / "questions.toml").write_text(
        good.replace("Which rows does a core still hold", "Use wider vectors, so which rows stay")
    )
    with pytest.raises(BankError, match="rows-in-flight"):
        bank_of(task, card)
