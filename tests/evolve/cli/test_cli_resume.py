import shutil
import sqlite3
from pathlib import Path

import pytest

from evolve.cli.progress import Progress
from results.events import StepEvaluated
from results.folder import DATABASE, STOP
from results.schema import VERSION
from results.store import Store
from tests.evolve.simulation import TINY_TASK, essence, stored


def test_resuming_a_finished_run_changes_nothing_and_says_the_same(ask, finished: Path) -> None:
    before = essence(stored(finished))
    first, again = ask("resume", "sim", "--json"), ask("resume", "sim", "--json")
    first.document["spent"].pop("hours")
    assert first.document["best"] == again.document["best"]
    assert first.document["stopped_by"] == "candidates"
    assert essence(stored(finished)) == before
    assert "all candidates are spent (12); a larger budget goes on from here" in first.err
    assert "--set budget.candidates=24" in first.err


def test_a_run_out_of_time_asks_for_hours(ask, finished: Path) -> None:
    ran = ask("resume", "sim", "--set", "budget.candidates=20", "--set", "budget.hours=1e-9")
    assert "all hours are spent" in ran.err
    assert "--set budget.hours=0.01" in ran.err
    assert "budget.candidates=" not in ran.err


def test_a_larger_budget_goes_on_where_the_run_ended(ask, finished: Path) -> None:
    ran = ask("resume", "sim", "--set", "budget.candidates=20", "--json")
    assert ran.document["candidates"] == 20
    assert "13/20]" in ran.err
    assert "1/20]" not in ran.err.replace("11/20]", "")
    assert ask("resume", "sim", "--json").document["candidates"] == 20, "the larger budget is remembered"


@pytest.mark.parametrize("override", ["mutation.stall_after=3", "population.islands=5", "run.seed=9", "task.scenarios=three"])
def test_what_shapes_the_search_may_not_change(ask, finished: Path, override: str) -> None:
    ran = ask("resume", "sim", "--set", override)
    assert (ran.code, ran.out) == (3, "")
    assert override.partition("=")[0] in ran.err
    assert "start a new run" in ran.err


def test_until_idle_gives_8_only_where_answers_are_awaited(ask, finished: Path) -> None:
    assert ask("resume", "sim", "--until-idle", "-q").code in (0, 5)
    extended = ("--set", "budget.candidates=20", "--set", "mutation.answerer=mailbox")
    ran = ask("resume", "sim", "-q", *extended, "--until-idle")
    assert ran.code == 8
    assert "2 prompts open. Take one: askevolve next runs/sim" in ran.err
    assert "2 prompts open: askevolve next sim" in ask("status", "sim").out
    done = ask("resume", "sim", "--set", "mutation.answerer=knobs", "--json")
    assert done.document["candidates"] == 20


def test_a_run_begun_without_evaluating_says_how_it_goes_on_and_does(ask, tmp_path: Path) -> None:
    begun = ask("run", "sim.toml", "--no-evaluate")
    assert begun.code == 0
    assert "run sim, waiting for evaluation on another machine; 2 candidates" in begun.out
    assert (
        "2 evaluations open. Copy runs/sim to a machine that evaluates, and there: askevolve resume runs/sim --until-idle"
        in begun.err
    )
    assert ask("list", "--json").document["runs"][0]["state"] == "waiting for evaluation on another machine"
    assert ask("resume", "sim", "--no-evaluate", "--json").document["stopped_by"] == "evaluation"
    there = ask("resume", "sim", "--until-idle", "--json")
    assert there.code in (0, 5)
    assert (there.document["stopped_by"], there.document["candidates"]) == ("candidates", 12)
    assert there.document["gpu"] is None
    more = ask("resume", "sim", "--set", "budget.candidates=20", "--no-evaluate")
    assert more.code == 0
    assert "evaluations open" in more.err


def test_a_moved_run_goes_on_by_its_path_without_its_seed_files(ask, finished: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "else where" / "kept"
    elsewhere.parent.mkdir()
    shutil.move(finished, elsewhere)
    shutil.rmtree(tmp_path / "runs")
    ran = ask("resume", elsewhere, "--set", "budget.candidates=15", "--json")
    assert ran.document["candidates"] == 15
    assert ran.document["folder"] == str(elsewhere)
    assert ask("show", elsewhere / DATABASE, "best").code == 0


def test_a_moved_task_is_a_clear_error(ask, tmp_path: Path) -> None:
    task = tmp_path / "mine"
    shutil.copytree(TINY_TASK, task)
    ask("run", "sim.toml", "-q", "--set", "task.name=./mine")
    task.rename(tmp_path / "moved")
    ran = ask("resume", "sim", "--set", "budget.candidates=20")
    assert ran.code == 3
    assert str(task) in ran.err


def test_a_changed_task_is_a_clear_error(ask, tmp_path: Path) -> None:
    task = tmp_path / "mine"
    shutil.copytree(TINY_TASK, task)
    ask("run", "sim.toml", "-q", "--set", "task.name=./mine")
    (task / "contract.md").write_text("something else")
    for command in (["resume", "sim"], ["final", "sim"]):
        ran = ask(*command)
        assert ran.code == 3
        assert "has changed since" in ran.err


@pytest.mark.parametrize("command", [["resume", "sim"], ["final", "sim"]])
def test_a_run_in_use_by_another_process_is_left_alone(ask, finished: Path, command: list[str]) -> None:
    with Store.open(finished):
        ran = ask(*command)
        assert (ran.code, ran.out) == (6, "")
        assert "Another process writes to this run" in ran.err
        assert "running" in ask("status", "sim").out
        assert ask("status", "sim", "--json").document["run"]["live"] is True


@pytest.mark.parametrize("command", [["resume", "sim"], ["status", "sim"], ["show", "sim"], ["final", "sim"]])
def test_a_damaged_or_newer_run_gives_6(ask, finished: Path, command: list[str]) -> None:
    database = finished / DATABASE
    whole = database.read_bytes()
    database.write_bytes(whole[:100] + b"\xff" * 5000 + whole[5100:])
    damaged = ask(*command)
    assert (damaged.code, damaged.out) == (6, "")
    assert "Traceback" not in damaged.err
    database.write_bytes(whole)
    with sqlite3.connect(database) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    newer = ask(*command)
    assert (newer.code, newer.out) == (6, "")
    assert "Traceback" not in newer.err


def test_rules_that_changed_since_are_no_fault_of_ours(ask, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evolve.state.AddStatus.word", "otherwise")
    ran = ask("resume", "sim")
    assert ran.code == 6
    assert "rules have changed" in ran.err


def test_stop_asks_only_a_run_that_somebody_drives(ask, finished: Path) -> None:
    idle = ask("stop", "sim")
    assert idle.code == 6
    assert not (finished / STOP).exists()
    with Store.open(finished):
        ran = ask("stop", "sim")
    assert (ran.code, ran.out) == (0, "")
    assert (finished / STOP).exists()
    assert "askevolve resume runs/sim" in ran.err
    assert ask("stop", "nosuch").code == 6


def test_a_step_that_was_open_when_the_driver_died_keeps_its_question(capsys: pytest.CaptureFixture[str], finished: Path) -> None:
    last = next(event for event in reversed(stored(finished)) if isinstance(event, StepEvaluated))
    with Progress(10, evaluated=2, waiting={last.step_number: "ahead-of-need"}) as progress:
        progress(last)
    assert "(ahead-of-need)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("resume", "sim.toml"), 6, "That is a run's file and no run (sim.toml). A new run begins with `askevolve run sim.toml`"),
        (("next", "nobody"), 6, "One that was just started is there once its task and seeds are read"),
        (
            ("run", "runs/sim"),
            3,
            "runs/sim: is a folder, where a run's TOML file is wanted; the run in it goes on by: askevolve resume",
        ),
        (("run", "runs"), 3, "runs: is a folder, where a run's TOML file is wanted\n"),
        (("run", "sim.toml", "--name", "../x"), 3, "[run] name = '../x': up to 64 letters, digits, '.', '_' and '-', beginning"),
        (("run", "bytes.toml"), 3, "bytes.toml: is no UTF-8 text"),
        (("bank", "lint", "nowhere.toml"), 3, "nowhere.toml: can't be read (No such file or directory)"),
    ],
)
def test_a_name_that_is_none_is_answered_in_words(ask, finished: Path, tmp_path: Path, arguments, code: int, says: str) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    ran = ask(*arguments)
    assert ran.code == code
    assert says in ran.err
    assert "Errno" not in ran.err
    assert "pattern" not in ran.err
