"""Crashes, torn files, old and new schemas, folders that may not be written: nothing lost, a clear word otherwise."""

import json
import os
import shutil
import signal
import sqlite3
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results import schema
from results.codec import plain
from results.errors import RunDamaged, RunError, RunMissing, RunTooNew, RunUnwritable
from results.events import Event, RunNoted, TimeSpent
from results.folder import find_run
from results.reader import Reader
from results.store import Store
from tests.results.makers import asked, evaluated, fill, started
from tests.results.test_store import events_of, python

WRITER = """
import pathlib, sys
from tests.results.makers import asked, evaluated, started
from results.store import Store
folder = pathlib.Path(sys.argv[1])
store = Store.create(folder, started())
number = 0
while True:
    last = store.append(asked(number, f"source {number}" * 200), evaluated(number, f"source {number}" * 200, 1.0))
    print(last, flush=True)
    number += 1
"""


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as a crash leaves it: its events are in the write-ahead log."""
    living = tmp_path_factory.mktemp("living")
    store = Store.create(living, started())
    fill(store)
    copy = tmp_path_factory.mktemp("crashed")
    for name in ("run.db", "run.db-wal"):
        shutil.copyfile(living / name, copy / name)
    store.close()
    assert (copy / "run.db-wal").stat().st_size > 10_000
    return copy


def copied(crashed: Path, into: str) -> Path:
    folder = Path(into) / "run"
    shutil.copytree(crashed, folder)
    return folder


@pytest.mark.parametrize("lines", [0, 1, 7, 30, 60])
def test_kill_9_loses_nothing_that_was_accepted(folder: Path, lines: int) -> None:
    writer = python(WRITER, str(folder))
    assert writer.stdout is not None
    accepted = 1
    while accepted < 2 * lines + 1:
        accepted = int(writer.stdout.readline())
    while not (folder / "run.db").exists():
        time.sleep(0.001)
    writer.send_signal(signal.SIGKILL)
    said = writer.communicate()[0].split()
    accepted = max([accepted, *map(int, said)])
    with Store.open(folder) as store:
        stored = [recorded.event for recorded in store.events()]
        assert len(stored) >= accepted
        assert len(stored) % 2 == 1  # both events of an append, or none
        steps = (len(stored) - 1) // 2
        pairs = [(asked(n, f"source {n}" * 200), evaluated(n, f"source {n}" * 200, 1.0)) for n in range(steps)]
        assert stored == [started(), *(event for pair in pairs for event in pair)]
        store.append(asked(steps, "goes on"))


@settings(max_examples=40)
@given(cut=st.floats(0, 1))
def test_e42_a_torn_log_loses_at_most_its_end(crashed: Path, cut: float) -> None:
    whole = events_of(crashed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = copied(crashed, scratch)
        log = folder / "run.db-wal"
        os.truncate(log, int(log.stat().st_size * cut))
        seen = events_of(folder)
        assert seen == whole[: len(seen)]
        assert seen[0] == started()
        with Store.open(folder) as store:
            store.append(RunNoted(text="goes on"))
        assert events_of(folder) == [*seen, RunNoted(text="goes on")]


@settings(max_examples=40)
@given(place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
def test_a_flipped_byte_in_the_log_loses_at_most_its_end(crashed: Path, place: float, bits: int) -> None:
    whole = events_of(crashed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = copied(crashed, scratch)
        log = folder / "run.db-wal"
        data = bytearray(log.read_bytes())
        data[int(len(data) * place)] ^= bits
        log.write_bytes(data)
        seen = events_of(folder)
        assert seen == whole[: len(seen)]


@settings(max_examples=60)
@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_torn_file_is_read_in_part_or_said_to_be_damaged(crashed: Path, cut: float) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = copied(crashed, scratch)
        Store.open(folder).close()  # fold the log into the file
        whole = events_of(folder)
        (folder / "run.db-wal").unlink(missing_ok=True)
        (folder / "run.db-shm").unlink(missing_ok=True)
        os.truncate(folder / "run.db", int((folder / "run.db").stat().st_size * cut))
        try:
            seen = events_of(folder)
        except (RunDamaged, RunMissing):
            seen = []
        assert seen == whole[: len(seen)]
        try:
            Store.open(folder).close()
        except (RunDamaged, RunMissing):
            return
        assert events_of(folder) == whole  # the missing end held nothing


@settings(max_examples=60)
@given(place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
def test_a_flipped_byte_in_the_file_never_gives_another_kind_of_error(crashed: Path, place: float, bits: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = copied(crashed, scratch)
        Store.open(folder).close()
        data = bytearray((folder / "run.db").read_bytes())
        data[int(len(data) * place)] ^= bits
        (folder / "run.db").write_bytes(data)
        try:
            with Store.open(folder) as store, Reader.open(folder) as reader:
                list(store.events())
                reader.info()
                [reader.candidate(row.id) for row in reader.candidates()]
                (reader.funnel(), reader.questions(), reader.best())
        except RunError as error:
            said = str(error)
            assert str(folder) in said


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\x00" + b"\x00" * 200])
def test_a_file_that_is_no_store(folder: Path, content: bytes) -> None:
    folder.mkdir(parents=True)
    (folder / "run.db").write_bytes(content)
    for open_it in (Reader.open, Store.open):
        with pytest.raises(RunMissing if not content else RunDamaged):
            open_it(folder)
    if not content:
        Store.create(folder, started()).close()
        assert events_of(folder) == [started()]


def test_another_database_is_no_store(folder: Path) -> None:
    folder.mkdir(parents=True)
    db = sqlite3.connect(folder / "run.db")
    db.execute("CREATE TABLE notes (text)")
    db.close()
    with pytest.raises(RunDamaged, match="it is no run store"):
        Reader.open(folder)


def test_a_lost_event_is_noticed(folder: Path) -> None:
    with Store.create(folder, started()) as store:
        fill(store)
    db = sqlite3.connect(folder / "run.db")
    db.execute("DROP TRIGGER events_kept")
    db.execute("DELETE FROM events WHERE seq = 3")
    db.commit()
    db.close()
    with pytest.raises(RunDamaged, match="event 3 is missing"):
        events_of(folder)
    with pytest.raises(RunDamaged, match="19 events were written and 18 are there"):
        Store.open(folder)


def test_an_event_that_can_not_be_read_is_named(folder: Path) -> None:
    with Store.create(folder, started()) as store:
        fill(store)
    db = sqlite3.connect(folder / "run.db")
    db.execute("INSERT INTO events VALUES (20, 0.0, 'Surprise', '{}', NULL)")
    db.commit()
    db.close()
    with pytest.raises(RunDamaged, match=r"event 20 \(Surprise\)"):
        events_of(folder)


def test_e47_a_newer_schema_is_refused_and_left_alone(folder: Path) -> None:
    Store.create(folder, started()).close()
    db = sqlite3.connect(folder / "run.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    before = (folder / "run.db").read_bytes()
    for open_it in (Reader.open, Store.open):
        with pytest.raises(RunTooNew, match=r"schema 99; this program knows up to \d"):
            open_it(folder)
    assert (folder / "run.db").read_bytes() == before


@pytest.fixture
def version_0(folder: Path) -> tuple[Path, list[Event]]:
    """A store of version 0, made by hand: only events, sources inside them, no tables beside."""
    events: list[Event] = [started(), asked(0, "seed → \ud800"), asked(1, "child", "seed"), TimeSpent(wall_s=1.5)]
    folder.mkdir(parents=True)
    db = sqlite3.connect(folder / "run.db")
    db.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, at REAL, kind TEXT, payload TEXT)")
    for seq, event in enumerate(events, start=1):
        db.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (seq, seq / 2, type(event).__name__, json.dumps(plain(event))))
    db.commit()
    db.close()
    return folder, events


def test_e47_an_older_schema_is_read_without_changing_it(version_0: tuple[Path, list[Event]]) -> None:
    folder, events = version_0
    before = (folder / "run.db").read_bytes()
    assert events_of(folder) == events
    with Reader.open(folder) as reader:
        assert (reader.info().candidates, reader.info().spent_s) == (2, 1.5)
    assert (folder / "run.db").read_bytes() == before


def test_e47_an_older_schema_is_brought_up_when_the_run_goes_on(version_0: tuple[Path, list[Event]]) -> None:
    folder, events = version_0
    with Store.open(folder) as store:
        assert [recorded.event for recorded in store.events()] == events
        store.append(asked(2, "new", "child"))
    db = sqlite3.connect(folder / "run.db")
    assert schema.version_of(db) == schema.VERSION
    assert db.execute("SELECT depth FROM candidates ORDER BY step_number").fetchall() == [(0,), (0,), (1,)]
    db.close()


def test_a_migration_that_fails_changes_nothing(version_0: tuple[Path, list[Event]]) -> None:
    folder, _ = version_0
    db = sqlite3.connect(folder / "run.db")
    db.execute("UPDATE events SET payload = '{}' WHERE seq = 3")
    db.commit()
    rows = db.execute("SELECT * FROM events").fetchall()
    with pytest.raises(RunDamaged, match="event 3"):
        Store.open(folder)
    assert db.execute("SELECT * FROM events").fetchall() == rows
    db.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user of the machine may reach."""
    scratch = Path(tempfile.mkdtemp())
    scratch.chmod(0o755)
    yield scratch
    for path in [scratch, *scratch.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(scratch)


def unprivileged(task: Callable[[], None]) -> None:
    """Run the task in a child without root's right to write everywhere; it must not raise."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            task()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("state", ["closed", "crashed", "old"])
def test_e54_a_run_on_a_read_only_disk_is_read(open_folder: Path, crashed: Path, state: str) -> None:
    folder = open_folder / "run"
    shutil.copytree(crashed, folder)
    if state == "closed":
        Store.open(folder).close()
    if state == "old":
        (folder / "run.db-wal").unlink()
        (folder / "run.db").unlink()
        db = sqlite3.connect(folder / "run.db")
        db.execute("CREATE TABLE events (seq INTEGER PRIMARY KEY, at REAL, kind TEXT, payload TEXT)")
        db.execute("INSERT INTO events VALUES (1, 0, 'RunStarted', ?)", (json.dumps(plain(started())),))
        db.commit()
        db.close()
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)

    def look() -> None:
        with Reader.open(find_run(folder)) as reader:
            assert len(list(reader.events())) == (1 if state == "old" else 19)
            assert reader.info().name == "first"
        with pytest.raises(RunUnwritable, match="rights"):
            Store.open(folder)

    unprivileged(look)
    assert sorted(path.name for path in folder.iterdir() if path.name == "run.db") == ["run.db"]


def test_a_folder_that_may_not_be_written(open_folder: Path) -> None:
    open_folder.chmod(0o555)

    def start() -> None:
        with pytest.raises(RunUnwritable, match=r"Permission denied.*rights"):
            Store.create(open_folder / "run", started())
        with pytest.raises(RunUnwritable):
            Store.create(open_folder, started())

    unprivileged(start)


def test_a_file_that_may_not_be_read(open_folder: Path) -> None:
    Store.create(open_folder, started()).close()
    (open_folder / "run.db").chmod(0o600)
    os.chown(open_folder / "run.db", os.geteuid(), -1)

    def look() -> None:
        if os.geteuid() == 65534:
            with pytest.raises(RunUnwritable):
                Reader.open(open_folder)

    unprivileged(look)
