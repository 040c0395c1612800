"""Names, places and stop files of runs."""

import shutil
from pathlib import Path

import pytest

from results.errors import RunExists, RunMissing, RunNameInvalid, RunUnwritable
from results.folder import clear_stop, find_run, new_run_folder, request_stop, runs_in, stop_requested
from results.reader import Reader
from results.store import Store
from tests.results.makers import fill, started


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def start(root: Path, name: str = "first") -> Path:
    folder = new_run_folder(name, root)
    Store.create(folder, started(name=name)).close()
    return folder


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", ".hidden", "-x", "a b", "a\n", "ü", "a" * 65, "a\0b"])
def test_unsafe_names_are_refused(root: Path, name: str) -> None:
    with pytest.raises(RunNameInvalid, match="letters, digits"):
        new_run_folder(name, root)


@pytest.mark.parametrize("name", ["a", "A-1.b_2", "2026", "x" * 64])
def test_safe_names_become_folders(root: Path, name: str) -> None:
    assert new_run_folder(name, root) == root / name
    assert (root / name).is_dir()


def test_a_taken_name_is_refused_but_an_empty_folder_is_used(root: Path) -> None:
    (root / "first").mkdir(parents=True)
    start(root)
    with pytest.raises(RunExists, match="askevolve resume first"):
        new_run_folder("first", root)


def test_a_file_in_the_way(root: Path) -> None:
    root.parent.joinpath("runs").write_text("")
    with pytest.raises(RunUnwritable, match="can't be made"):
        new_run_folder("first", root)


def test_a_run_is_found_by_name_folder_or_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = start(root)
    for given in ("first", folder, str(folder), folder / "run.db"):
        assert find_run(given, root) == folder
    monkeypatch.chdir(folder.parent)
    assert find_run("first", Path("elsewhere")) == Path("first")


def test_a_missing_run_names_those_that_are_there(root: Path) -> None:
    with pytest.raises(RunMissing, match="Start one"):
        find_run("second", root)
    start(root)
    (root / "empty").mkdir()
    (root / "torn").mkdir()
    (root / "torn" / "run.db").touch()
    with pytest.raises(RunMissing, match="Runs here: first"):
        find_run("second", root)
    with pytest.raises(RunMissing):
        find_run("torn", root)
    assert runs_in(root) == (root / "first",)


def test_stop_files(root: Path) -> None:
    folder = start(root)
    assert not stop_requested(folder)
    request_stop(folder)
    request_stop(folder)
    assert stop_requested(folder)
    clear_stop(folder)
    clear_stop(folder)
    assert not stop_requested(folder)
    with pytest.raises(RunMissing):
        request_stop(root / "nobody")
    (folder / "STOP").mkdir()
    with pytest.raises(RunUnwritable, match="ctrl-C"):
        request_stop(folder)


def test_a_moved_run_works_and_holds_no_path(root: Path, tmp_path: Path) -> None:
    folder = start(root)
    with Store.open(folder) as store:
        fill(store)
    moved = tmp_path / "else where #1" / "ü?"
    moved.parent.mkdir()
    shutil.move(folder, moved)
    with Store.open(moved) as store, Reader.open(moved) as reader:
        assert reader.info().folder == moved
        store.append()
    stored = b"".join(path.read_bytes() for path in moved.iterdir())
    assert str(tmp_path).encode() not in stored
