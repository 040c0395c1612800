import pickle
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from evaluator.scaffold import new_task
from evaluator.task import load_task
from evolve.api import resume, run
from evolve.budget import Budget, Spent
from evolve.config import ConfigError, validated
from evolve.goal import GoalError
from evolve.parts import assemble, bank_of
from evolve.posing import streams
from evolve.stopping import StopReason, StopRequest
from mutators.bank import BankError, load_bank
from results.events import StepAsked
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
        (Spent(tokens=99, usd=1.99, gpu_s=1799.0), None),
        (Spent(tokens=100), StopReason.TOKENS),
        (Spent(usd=2.0), StopReason.USD),
        (Spent(gpu_s=1800.0), StopReason.GPU_HOURS),
    ],
)
def test_budget(spent: Spent, reason: StopReason | None) -> None:
    assert Budget(candidates=10, hours=1.0, tokens=100, usd=2.0, gpu_hours=0.5).exceeded_by(spent) is reason


def test_streams_depend_on_seed_and_step_alone() -> None:
    def drawn(seed: int, number: int) -> list[float]:
        found = streams(seed, number)
        return [found.selection.random(), found.question.random(), found.answer.random()]

    np.random.default_rng().random()
    assert drawn(7, 3) == drawn(7, 3)
    different = [*drawn(7, 3), *drawn(7, 4), *drawn(8, 3)]
    assert len(set(different)) == len(different)


def test_a_recorded_run_is_the_same_again(tmp_path: Path) -> None:
    whole = run(config(), root=tmp_path / "whole", executor=shuffled())
    table = {"mutation": {"answerer": "recorded"}, "recorded": {"source": str(whole.folder)}}
    again = run(config(**table), root=tmp_path, executor=shuffled(seed=3))
    first, second = essence(stored(whole.folder)), essence(stored(again.folder))
    assert (first[0][1:], first[1:]) == (second[0][1:], second[1:]), "but for the configuration in its first event"


def test_what_was_not_recorded_pauses_the_run_and_another_answerer_goes_on(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "2.md").write_text("no header")
    table = {"mutation": {"answerer": "recorded"}, "recorded": {"source": str(tmp_path / "answers")}}
    paused = run(config(**table), root=tmp_path, executor=shuffled())
    assert paused.stopped_by is StopReason.ANSWERER
    assert paused.questions_asked == 2
    done = resume(paused.folder, ["mutation.answerer=knobs"], executor=shuffled())
    assert done.stopped_by is StopReason.CANDIDATES


def test_a_program_answers(tmp_path: Path) -> None:
    program = tmp_path / "answer.py"
    program.write_text(f"#!{sys.executable}\nimport sys\nprint(len(sys.stdin.read()) > 1000)\n")
    program.chmod(0o755)
    table = {"mutation": {"answerer": "command", "exhausted_after": 4}, "command": {"program": [str(program)]}}
    result = run(config(**table), root=tmp_path, executor=shuffled())
    assert result.stopped_by is StopReason.EXHAUSTED
    answers = [event.answer for event in stored(result.folder) if isinstance(event, StepAsked) and event.answer]
    assert len(answers) >= 4
    assert {(answer.text, answer.answerer) for answer in answers} == {("True\n", "command")}


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"mutation": {"answerer": "command"}}, "needs \\[command\\] program"),
        ({"mutation": {"answerer": "recorded"}}, "needs \\[recorded\\] source"),
    ],
)
def test_an_answerer_without_what_it_needs_is_refused(tables: dict[str, dict[str, str]], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        validated({**config().mapping(), **{name: {**keys} for name, keys in tables.items()}}, "here")


@pytest.mark.parametrize("source", ["no/such/folder", "."])
def test_a_source_of_answers_that_holds_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.chdir(tmp_path)
    table = {"mutation": {"answerer": "recorded"}, "recorded": {"source": source}}
    with pytest.raises(ConfigError, match=r"\[recorded\] source"):
        run(config(**table), root=tmp_path / "runs", executor=shuffled())


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
