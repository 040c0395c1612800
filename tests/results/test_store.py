"""The writer: order, atomicity, one at a time, and what it refuses."""

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from results.codec import CodecError
from results.errors import RunExists, RunInUse, RunMissing, StoreFull
from results.events import Event, RunNoted, RunStarted, RunStopped, TimeSpent
from results.lock import WriterLock, is_locked
from results.reader import Reader
from results.store import Store
from tests.results.makers import asked, card, evaluated, fill, folded, started

ROOT = Path(__file__).parents[2]


def events_of(folder: Path) -> list[Event]:
    with Reader.open(folder) as reader:
        return [recorded.event for recorded in reader.events()]


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_events_come_back_in_order_with_their_times(folder: Path, clock: Callable[[], float]) -> None:
    with Store.create(folder, started(), clock) as store:
        assert store.append(asked(0, "seed"), evaluated(0, "seed", 1.0)) == 3
        assert store.append() == 3
        recorded = list(store.events(since=1))
    assert [(entry.seq, entry.at) for entry in recorded] == [(2, 1_000_001.0), (3, 1_000_002.0)]
    assert events_of(folder) == [started(), asked(0, "seed"), evaluated(0, "seed", 1.0)]


def test_many_events_are_read_in_batches(folder: Path) -> None:
    events = [TimeSpent(wall_s=float(number)) for number in range(1203)]
    with Store.create(folder, started()) as store:
        store.append(*events)
    assert events_of(folder)[1:] == events


def test_a_reopened_store_goes_on(folder: Path) -> None:
    with Store.create(folder, started()) as store:
        fill(store)
        before = [recorded.event for recorded in store.events()]
    with Store.open(folder) as store:
        store.append(TimeSpent(wall_s=1.0))
    assert events_of(folder) == [*before, TimeSpent(wall_s=1.0)]


def test_a_source_is_stored_once_and_exactly(folder: Path) -> None:
    source = "// → \ud800 \ud800\udc00 \x00 שלום\r\n" * 50
    with Store.create(folder, started()) as store:
        store.append(asked(0, source))
        store.append(asked(1, source, "seed"))
    db = sqlite3.connect(folder / "run.db")
    assert db.execute("SELECT COUNT(*) FROM sources").fetchone() == (1,)
    db.close()
    assert events_of(folder)[1:] == [asked(0, source), asked(1, source, "seed")]


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([started()], "already started"),
        ([asked(0, "again")], "step 0 was already asked"),
        ([evaluated(0, "seed", 1.0)], "step 0 already has an outcome"),
        ([folded(0, "seed")], "step 0 was already folded"),
        ([evaluated(9, "seed", 1.0)], "step 9 was never asked"),
        ([folded(9, "seed")], "step 9 was never asked"),
    ],
)
def test_e13_contradictions_are_refused_and_nothing_is_kept(folder: Path, events: list[Event], message: str) -> None:
    with Store.create(folder, started()) as store:
        store.append(asked(0, "seed"), evaluated(0, "seed", 1.0), folded(0, "seed"))
        before = list(store.events())
        with pytest.raises(ValueError, match=message):
            store.append(TimeSpent(wall_s=5.0), *events)
        assert list(store.events()) == before
        assert store.append(RunNoted(text="goes on")) == 5
    with Reader.open(folder) as reader:
        assert reader.info().spent_s == 0.0


def test_e50_what_is_not_finite_never_reaches_the_store(folder: Path) -> None:
    with Store.create(folder, started()) as store:
        with pytest.raises(CodecError, match=r"TimeSpent\.wall_s is nan"):
            store.append(TimeSpent(wall_s=1.0), TimeSpent(wall_s=float("nan")))
        assert store.append() == 1


def test_a_start_that_fails_leaves_no_run(folder: Path) -> None:
    with pytest.raises(CodecError):
        Store.create(folder, started(config={"rate": float("inf")}))
    with pytest.raises(RunMissing):
        Store.open(folder)
    Store.create(folder, started()).close()
    with pytest.raises(RunExists, match="resume"):
        Store.create(folder, started())


def test_events_are_only_added(folder: Path) -> None:
    Store.create(folder, started()).close()
    db = sqlite3.connect(folder / "run.db")
    for statement in ("DELETE FROM events", "UPDATE events SET at = 0"):
        with pytest.raises(sqlite3.IntegrityError, match="only added"):
            db.execute(statement)
    db.close()


def test_one_writer_at_a_time(folder: Path) -> None:
    with Store.create(folder, started()):
        with pytest.raises(RunInUse, match=rf"process {os.getpid()} on .*askevolve stop"):
            Store.open(folder)
        code = "import sys, pathlib; from results.store import Store; Store.open(pathlib.Path(sys.argv[1]))"
        said = python(code, str(folder)).communicate()[0]
        assert "RunInUse" in said
        assert is_locked(folder)
    assert not is_locked(folder)
    Store.open(folder).close()


def test_the_lock_outlives_a_look_and_dies_with_its_process(folder: Path) -> None:
    folder.mkdir(parents=True)
    code = """
import pathlib, sys
from results.lock import WriterLock
lock = WriterLock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
input()
"""
    holder = python(code, str(folder))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert is_locked(folder)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    WriterLock(folder).release()


def test_a_forked_child_does_not_keep_the_lock(folder: Path) -> None:
    folder.mkdir(parents=True)
    lock = WriterLock(folder)
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"x")
        os.read(done[0], 1)  # lives on until the parent has looked
        os._exit(0)
    os.read(ready[0], 1)
    lock.release()
    locked = is_locked(folder)
    os.write(done[1], b"x")
    os.waitpid(child, 0)
    for end in (*ready, *done):
        os.close(end)
    assert not locked


def test_a_reader_that_looks_at_the_lock_does_not_stop_a_writer(folder: Path) -> None:
    folder.mkdir(parents=True)
    WriterLock(folder).release()
    look = os.open(folder / "writer.lock", os.O_RDONLY)
    fcntl.flock(look, fcntl.LOCK_SH)
    with pytest.raises(RunInUse):
        WriterLock(folder)
    os.close(look)
    WriterLock(folder).release()


def test_another_program_that_holds_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("results.database.WAIT_S", 0.01)
    with Store.create(folder, started()) as store:
        browser = sqlite3.connect(folder / "run.db", isolation_level=None)
        browser.execute("BEGIN IMMEDIATE")
        with pytest.raises(RunInUse, match="Another program holds the run's store"):
            store.append(asked(0, "seed"))
        browser.close()
        assert store.append(asked(0, "seed")) == 2


def test_a_full_disk_loses_nothing_and_later_there_is_room(folder: Path) -> None:
    store = Store.create(folder, started())
    store.append(asked(0, "seed"))
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    big = asked(1, os.urandom(40_000).hex(), "seed")
    with pytest.raises(StoreFull, match="Everything stored before is safe"):
        store.append(big)
    assert store.append() == 2
    store._db.execute("PRAGMA max_page_count = 1000000")
    store.append(big)
    store.close()
    assert events_of(folder) == [started(), asked(0, "seed"), big]


def test_a_write_that_the_system_refuses_loses_nothing(folder: Path) -> None:
    code = """
import os, pathlib, resource, sys
from tests.results.makers import asked, started
from results.errors import StoreFull
from results.store import Store
store = Store.create(pathlib.Path(sys.argv[1]), started())
store.append(asked(0, "seed"))
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
try:
    store.append(asked(1, os.urandom(200_000).hex(), "seed"))
except StoreFull as error:
    print("full:", error)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
store.append(asked(1, "small", "seed"))
store.close()
"""
    said = python(code, str(folder)).communicate()[0]
    assert said.startswith("full: The run's store could not grow")
    assert events_of(folder) == [started(), asked(0, "seed"), asked(1, "small", "seed")]


def test_a_run_says_why_it_stopped_until_it_goes_on(folder: Path) -> None:
    with Store.create(folder, started()) as store, Reader.open(folder) as reader:
        store.append(TimeSpent(wall_s=2.0), RunStopped(reason="hours"), TimeSpent(wall_s=1.0))
        info = reader.info()
        assert (info.stopped_by, info.spent_s, info.live) == ("hours", 3.0, True)
        store.append(asked(0, "seed"))
        assert reader.info().stopped_by is None


def test_the_first_event_is_the_start(folder: Path) -> None:
    with Store.create(folder, started()) as store:
        first = next(store.events()).event
    assert isinstance(first, RunStarted)
    assert first.card == card()
