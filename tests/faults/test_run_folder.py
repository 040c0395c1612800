"""A run's folder that is full, read-only, gone, moved, copied or in use: a clear error or a clean continuation, nothing lost."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evolve import api
from results.errors import RunMissing
from results.events import Event, StepEvaluated, StepFolded
from results.folder import DATABASE, STOP
from tests.evolve.simulation import config, essence, shuffled, stored
from tests.faults.mounts import needs_mounts

ROOT = Path(__file__).parents[2]
LONG = {"budget": {"candidates": 40}}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], dict[int, str]]:
    """What a run of forty candidates comes to that nobody disturbs."""
    return essence(stored(api.run(config(**LONG), root=tmp_path_factory.mktemp("reference"), executor=shuffled()).folder))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of half a MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


def askevolve(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", "from evolve.cli.app import main; main()", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class After:
    """An observer that does something once so many steps are folded."""

    def __init__(self, steps: int, act) -> None:
        self._left, self._act = steps, act

    def __call__(self, event: Event) -> None:
        if isinstance(event, StepFolded):
            self._left -= 1
            if self._left == 0:
                self._act()


@needs_mounts
def test_a_full_disk_stops_the_run_with_4_and_with_room_it_goes_on(ask, small_disk: Path, tmp_path: Path, undisturbed) -> None:
    (tmp_path / "runs").symlink_to(small_disk)
    values = ("--set", "budget.candidates=40", "--set", "executor.lookahead=3", "--set", "population.capacity=6")
    full = ask("run", "sim.toml", "-q", *values)
    assert full.code == 4
    assert "Everything stored before is safe" in full.err
    assert "askevolve resume" in full.err
    before = stored_as_is(small_disk / "sim")
    assert before
    still = ask("resume", "sim", "-q")
    assert still.code == 4
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    assert ask("resume", "sim", "-q").code in (0, 5)
    after = essence(stored(small_disk / "sim"))
    assert after[0][: len(before)] == before
    assert after[0][1:] == undisturbed[0][1:]


def stored_as_is(folder: Path) -> list[str]:
    """The essence of a run that is only read."""
    from results.reader import Reader

    with Reader.open(folder) as reader:
        return essence([recorded.event for recorded in reader.events()])[0]


def test_a_limit_on_file_sizes_stops_the_run_with_4(ask, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        ran = ask("run", "sim.toml", "-q", "--set", "budget.candidates=60")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert ran.code == 4
    assert "Everything stored before is safe" in ran.err
    assert ask("resume", "sim", "-q", "--json").document["candidates"] == 60


@needs_mounts
def test_a_read_only_run_is_shown_but_not_driven(ask, finished: Path) -> None:
    subprocess.run(["mount", "--bind", finished, finished], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", finished], check=True)
        ran = ask("resume", "sim", "--set", "budget.candidates=20")
        assert (ran.code, ran.out) == (4, "")
        assert str(finished.name) in ran.err
        assert ask("status", "sim").code == 0
        assert ask("final", "sim").code == 4
    finally:
        subprocess.run(["umount", finished], check=True)
    assert ask("resume", "sim", "--set", "budget.candidates=20", "--json").document["candidates"] == 20


def test_a_folder_of_runs_that_can_not_be_made(ask, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    ran = ask("run", "sim.toml", "-q")
    assert ran.code == 4
    assert "Choose a folder that you may write to" in ran.err


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_folder_that_goes_away_under_a_run_is_noticed(tmp_path: Path, how: str, undisturbed) -> None:
    folder, elsewhere = tmp_path / "sim", tmp_path / "elsewhere"

    def act() -> None:
        if how == "deleted":
            shutil.rmtree(folder)
        else:
            folder.rename(elsewhere)
        if how == "replaced":
            shutil.copytree(elsewhere, folder)

    with pytest.raises(RunMissing, match="went away"):
        api.run(config(**LONG), root=tmp_path, executor=shuffled(), observers=[After(8, act)])
    if how != "deleted":
        api.resume(elsewhere, executor=shuffled())
        assert essence(stored(elsewhere)) == undisturbed


@pytest.mark.parametrize("steps", [1, 20])
def test_a_copy_of_a_living_run_goes_on_by_itself(tmp_path: Path, steps: int, undisturbed) -> None:
    copy = tmp_path / "copy"
    observer = After(steps, lambda: shutil.copytree(tmp_path / "sim", copy))
    result = api.run(config(**LONG), root=tmp_path, executor=shuffled(), observers=[observer])
    assert essence(stored(result.folder)) == undisturbed
    api.resume(copy, executor=shuffled())
    assert essence(stored(copy)) == undisturbed


def test_a_lost_log_loses_its_end_and_nothing_else(tmp_path: Path, undisturbed) -> None:
    copy = tmp_path / "copy"
    observer = After(20, lambda: shutil.copytree(tmp_path / "sim", copy))
    api.run(config(**LONG), root=tmp_path, executor=shuffled(), observers=[observer])
    (copy / f"{DATABASE}-wal").unlink()
    api.resume(copy, executor=shuffled())
    assert essence(stored(copy)) == undisturbed


def test_two_processes_on_one_run_at_once(ask, finished: Path, tmp_path: Path) -> None:
    command = ("resume", "sim", "-q", "--json", "--set", "budget.candidates=150", "--set", "executor.lookahead=8")
    with askevolve(tmp_path, *command) as first, askevolve(tmp_path, *command) as second:
        said = {process: process.communicate(timeout=100) for process in (first, second)}
    codes = {process.returncode: err for process, (_, err) in said.items()}
    assert "Another process writes to this run" in codes.pop(6)
    assert set(codes) <= {0, 5}
    assert sum(isinstance(event, StepEvaluated) for event in stored(finished)) == 150


def test_a_left_over_stop_file_stops_nobody(ask, finished: Path) -> None:
    (finished / STOP).touch()
    assert ask("resume", "sim", "-q", "--json", "--set", "budget.candidates=20").document["candidates"] == 20
    assert not (finished / STOP).exists()


def test_a_clock_that_runs_backwards(ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(2_000_000_000, 0, -3600))
    monkeypatch.setattr("time.time", lambda: float(next(now)))
    assert ask("run", "sim.toml", "-q").code in (0, 5)
    assert ask("resume", "sim", "-q", "--json", "--set", "budget.candidates=20").document["candidates"] == 20
    for command in (["list"], ["status", "sim"], ["show", "sim"], ["lineage", "sim", "best"]):
        assert ask(*command).code == 0


@pytest.mark.parametrize("name", ["a b", "../x", "ü", "", "-x", "a/b", ".hidden", "x" * 65, "a\nb"])
def test_a_name_that_is_no_folder_name_is_refused(ask, tmp_path: Path, name: str) -> None:
    ran = ask("run", "sim.toml", f"--name={name}")
    assert (ran.code, ran.out) == (3, "")
    assert "Traceback" not in ran.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX"])
def test_any_path_in_any_locale(made: Path, tmp_path: Path, locale: str) -> None:
    folder = tmp_path / "päth with #hash, 'quotes' and ☃"
    shutil.copytree(made, folder / "runs" / "sim")
    environment = {"LC_ALL": locale, "LANG": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    process = askevolve(folder, "resume", "sim", "--set", "budget.candidates=14", **environment)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (0, 5), err
    assert "14 candidates" in out
    assert "Traceback" not in err
