"""Records beside the runs: merged over runs, never counted twice, never in the way of a run."""

import fcntl
import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from mutators.question import Layer
from mutators.record_file import FILE_NAME, Asked, RunRecords, plain_records, recall, records_from, records_in, remember
from mutators.records import Record, Records, key_of, records_of
from tests.mutators.factories import attempt, change, question

ONE = Asked(
    key="free-loads", layer=Layer.MEMORY, record=Record(asked=3, answered=2, accepted=1, paid=1, gain=0.1, best=0.1, wall_s=9.0)
)
OWN = Asked(key="human:1234", layer=Layer.PLAN, record=Record(asked=1), text="And if the grid were one block?")


def run_of(name: str, *asked: Asked, backend: str = "cpu") -> RunRecords:
    return RunRecords(name=name, task="attention_forward", backend=backend, asked=asked)


def test_what_is_remembered_is_recalled(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    assert recall(path).runs == ()
    assert remember(path, run_of("a", ONE, OWN)) is None
    found = recall(path)
    assert found.problem is None
    assert found.runs == (run_of("a", ONE, OWN),)


def test_runs_add_up_by_backend(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    for run in (run_of("a", ONE), run_of("b", ONE, OWN), run_of("c", ONE, backend="cuda")):
        assert remember(path, run) is None
    records = recall(path).records("cpu")
    assert records.entries["free-loads"] == Record(asked=6, answered=4, accepted=2, paid=2, gain=0.2, best=0.1, wall_s=18.0)
    assert records.layers[Layer.PLAN].asked == 1
    assert recall(path).records("cuda").entries["free-loads"].asked == 3


def test_a_run_that_goes_on_replaces_its_own_entry(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    for run in (run_of("a", ONE), run_of("b", ONE), run_of("a", replace(ONE, record=Record(asked=9)))):
        assert remember(path, run) is None
    assert recall(path).records("cpu").entries["free-loads"].asked == 12


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{", '{"format": "x", "version": 1, "runs": []}',
        '{"format": "askevolve question records", "version": 99, "runs": []}',
        '{"format": "askevolve question records", "version": 1, "runs": [{"name": "a"}]}',
        '{"format": "askevolve question records", "version": 1, "runs": [{"name": "a", "task": "t", "backend": "cpu", '
        '"asked": {"x": {"layer": "plan", "asked": NaN}}}]}',
        '{"format": "askevolve question records", "version": 1, "runs": [{"name": "a", "task": "t", "backend": "cpu", '
        '"asked": {"x": {"layer": "plan", "asked": -1}}}]}',
        '{"format": "askevolve question records", "version": 1, "runs": [{"name": "a", "task": "t", "backend": "cpu", '
        '"asked": {"x": {"layer": "tea", "asked": 1}}}]}',
    ],
)  # fmt: skip
def test_a_broken_file_holds_nothing_and_stays_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(text)
    found = recall(path)
    assert found.runs == ()
    assert found.problem is not None
    assert str(path) in found.problem
    problem = remember(path, run_of("a", ONE))
    assert problem is not None
    assert "aren't in it" in problem
    assert path.read_text() == text


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    assert "can't be written" in str(remember(tmp_path / "gone" / FILE_NAME, run_of("a", ONE)))
    (tmp_path / FILE_NAME).mkdir()
    assert recall(tmp_path / FILE_NAME).problem is not None


def test_a_lock_that_somebody_keeps_is_not_waited_for_long(tmp_path: Path) -> None:
    with (tmp_path / f".{FILE_NAME}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "locked by another process" in str(remember(tmp_path / FILE_NAME, run_of("a", ONE), wait_s=0.0))
    assert remember(tmp_path / FILE_NAME, run_of("a", ONE), wait_s=0.0) is None


def _write_some(path: Path, worker: int) -> None:
    for number in range(10):
        problem = remember(path, run_of(f"{worker}-{number}", ONE), wait_s=60.0)
        assert problem is None


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_some, args=(path, worker)) for worker in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(recall(path).runs) == 30
    assert sorted(item.name for item in tmp_path.iterdir()) == [f".{FILE_NAME}.lock", FILE_NAME]


def test_a_snapshot_survives_a_log() -> None:
    records = records_in([ONE, OWN])
    assert records_from(json.loads(json.dumps(plain_records(records)))) == records


def test_joining_is_the_same_in_any_order() -> None:
    first, second = records_in([ONE]), records_in([OWN, ONE])
    assert first.joined(second) == second.joined(first)
    assert first.joined(Records()) == first


def test_each_text_of_a_person_has_a_record_of_its_own() -> None:
    asked = [question("human", Layer.PLAN, text=text) for text in ("And in one block?", "And in two?", "And in one block?")]
    history = [attempt(number, question=one, accepted=number == 0, change=change(1.1)) for number, one in enumerate(asked)]
    records = records_of(history)
    assert {key: record.asked for key, record in records.entries.items()} == {key_of(asked[0]): 2, key_of(asked[1]): 1}
    assert records.layers[Layer.PLAN].paid == 1
    assert key_of(question("free-loads")) == "free-loads"
