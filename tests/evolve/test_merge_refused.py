"""What doesn't fit a run is refused with what differs and what to do, and nothing of it is stored."""

import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.outcome import Outcome
from evolve.api import RunResult, resume
from evolve.merge import merge
from results.events import RunStarted, StepEvaluated
from results.store import Store
from tests.evolve.merging import copied, document, judged, on, refused, seeds_of
from tests.evolve.simulation import stored

pytestmark = pytest.mark.usefixtures("tiny_task_read_once")


@pytest.fixture
def tmp_path(quick_folder: Path) -> Path:
    return quick_folder


def change(key: str, value: object) -> Callable[[Outcome], Outcome]:
    return lambda outcome: replace(outcome, **{key: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "row", "said"),
    [
        (change("task_hash", "beef"), {}, r"task beef, this run's is tiny.*evaluate again"),
        (change("harness", "1-abc"), {}, r"harness 1-abc, this run's is simulated.*evaluate again"),
        (change("supported", ("elsewhere",)), {}, r"measured in elsewhere, which isn't among.*--scenarios five"),
        (change("candidate_id", "f" * 64), {}, r"the outcome is about ffffffffff and the source beside it is"),
        (change("candidate_id", "f" * 64), {"candidate": None}, r"neither it nor the run has the source of ffffffffff"),
        (lambda outcome: outcome, {"scenario_set": "two"}, r"scenarios 'two', this run's are 'five'"),
        (lambda outcome: outcome, {"outcome": None}, r"holds no outcome"),
        (lambda outcome: outcome, {"outcome": {"verdict": "OK"}}, r"'\w+' is missing"),
    ],
)  # fmt: skip
def test_a_file_that_measures_something_else_is_refused(
    begun: RunResult, tmp_path: Path, changed: Callable[[Outcome], Outcome], row: dict[str, object], said: str
) -> None:
    before = stored(begun.folder)
    one, _ = seeds_of(begun.folder)
    reason = refused(begun.folder, document(tmp_path / "x.json", (one, changed(judged(one))), **row))
    assert re.search(said, reason), reason
    assert stored(begun.folder) == before


def test_a_source_that_was_changed_is_refused(begun: RunResult, tmp_path: Path) -> None:
    one, _ = seeds_of(begun.folder)
    place = document(tmp_path / "x.json", (replace(one, source=one.source + " "), judged(one)))
    assert "was changed after it was measured" in refused(begun.folder, place)
    assert "isn't the one of this version" in refused(
        begun.folder, document(tmp_path / "y.json", (replace(one, normal_id="0"), judged(one)))
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "can't be read as JSON"), ("[1]", "holds no evaluation"), ('{"schema_version": 9}', "a newer version")],
)
def test_a_file_that_is_none_is_refused(begun: RunResult, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.json").write_text(text)
    assert said in refused(begun.folder, tmp_path / "x.json")


def test_a_run_that_measures_something_else_or_was_changed_is_refused(begun: RunResult, tmp_path: Path) -> None:
    def other(name: str, **changes: object) -> Path:
        started = stored(begun.folder)[0]
        assert isinstance(started, RunStarted)
        with Store.create(tmp_path / name, replace(started, card=replace(started.card, **changes))):  # type: ignore[arg-type]
            return tmp_path / name

    assert "so they measure different things" in refused(begun.folder, other("task", hash="beef"))
    assert "evaluate there with [task]" in refused(begun.folder, other("set", scenario_set="three"))
    changed = copied(begun.folder, tmp_path / "changed")
    with sqlite3.connect(changed / "run.db") as db:
        db.execute("UPDATE sources SET body = (SELECT body FROM sources ORDER BY id DESC LIMIT 1)")
    assert "hashes to" in refused(begun.folder, changed)
    newer = copied(begun.folder, tmp_path / "newer")
    with sqlite3.connect(newer / "run.db") as db:
        db.execute("PRAGMA user_version = 99")
    assert "Install the newer askevolve" in refused(begun.folder, newer)
    assert "that is the run itself" in refused(begun.folder, begun.folder)
    assert "There is no run" in refused(begun.folder, tmp_path / "nowhere")


def test_of_several_places_those_that_fit_come_and_the_others_are_named(begun: RunResult, tmp_path: Path) -> None:
    one, two = seeds_of(begun.folder)
    places = [
        document(tmp_path / "a.json", (one, judged(one))),
        str(tmp_path / "b.json"),
        document(tmp_path / "c.json", (two, judged(two))),
    ]
    told = merge(begun.folder, places)
    assert [type(item).__name__ for item in told] == ["Came", "Refused", "Came"]
    assert [event.step_number for event in stored(begun.folder) if isinstance(event, StepEvaluated)] == [0, 1]


def test_a_log_that_does_not_replay_is_refused_and_nothing_of_it_comes(begun: RunResult, tmp_path: Path) -> None:
    there = copied(begun.folder, tmp_path / "there")
    resume(there, ["budget.candidates=4"], executor=on())
    with sqlite3.connect(there / "run.db") as db:
        db.execute("DROP TRIGGER events_fixed")
        db.execute(
            'UPDATE events SET payload = replace(payload, \'"status":"best"\', \'"status":"added"\') WHERE kind = \'StepFolded\''
        )
    before = stored(begun.folder)
    assert "doesn't replay" in refused(begun.folder, there)
    assert stored(begun.folder) == before
