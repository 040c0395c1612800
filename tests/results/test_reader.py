"""What readers see, of runs in every state."""

import math
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.outcome import Effort, Verdict
from mutators.question import Layer, Rejection
from population.candidate import Language, Origin, hash_text
from results.errors import IdAmbiguous, IdUnknown, RunMissing
from results.events import StepEvaluated
from results.frames import candidates_frame, steps_frame
from results.reader import Reader
from results.rows import FunnelRow
from results.store import Store
from tests.results.makers import asked, candidate, card, evaluated, fill, final, folded, outcome, question, started


@pytest.fixture
def filled(folder: Path) -> Path:
    with Store.create(folder, started()) as store:
        fill(store)
    return folder


def test_a_place_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunMissing, match="askevolve run"):
        Reader.open(tmp_path)


def test_an_empty_run(folder: Path) -> None:
    with Store.create(folder, started()), Reader.open(folder) as reader:
        info = reader.info()
        assert (info.events, info.steps, info.candidates, info.best_id, info.stopped_by) == (1, 0, 0, None, None)
        assert (reader.best(), reader.candidates(), reader.steps(), reader.funnel(), reader.questions()) == (None, (), (), (), ())
        assert reader.outcome("nobody") is None
        assert reader.final("nobody") is None
        assert len(candidates_frame(reader)) == 0


def test_the_run_at_a_glance(filled: Path) -> None:
    with Reader.open(filled) as reader:
        info = reader.info()
    assert (info.name, info.config_hash, info.version, info.card) == ("first", "beef", "0.1.0", card())
    assert info.config == started().config
    assert (info.steps, info.candidates, info.evaluated, info.folded, info.accepted) == (7, 5, 4, 6, 1)
    assert (info.events, info.cost_usd, info.tokens, info.live) == (19, 1.25, 600, False)
    assert info.best_id == hash_text("child")
    assert info.last_at >= info.started_at > 1_000_000


def test_candidates_in_both_orders(filled: Path) -> None:
    with Reader.open(filled) as reader:
        asked_order = [row.step_number for row in reader.candidates()]
        fitness_order = [row.step_number for row in reader.candidates(order="fitness")]
        assert [row.step_number for row in reader.candidates(limit=2, offset=1)] == [1, 2]
    assert asked_order == [0, 1, 2, 3, 6]
    assert fitness_order[:3] == [2, 0, 1]


def test_part_of_the_scenarios_ranks_below_the_whole(filled: Path) -> None:
    part = outcome("late", 9.0)
    assert part.fitness is not None
    with Store.open(filled) as store:
        store.append(StepEvaluated(step_number=6, outcome=replace(part, fitness=replace(part.fitness, scenarios=1))))
        store.append(final("child", verdict=Verdict.WRONG))
    with Reader.open(filled) as reader:
        assert [row.step_number for row in reader.candidates(order="fitness", limit=4)] == [2, 0, 1, 6]
        best = reader.best()
    assert best is not None
    assert best.step_number == 0


def test_a_candidate_by_the_beginning_of_its_id(filled: Path) -> None:
    child = candidate("child")
    with Reader.open(filled) as reader:
        for prefix in (child.id, child.id[:10], child.id[:10].upper()):
            assert reader.candidate(prefix) == child
        with pytest.raises(IdUnknown, match="begins with 'zz'"):
            reader.candidate("zz")
        with pytest.raises(IdAmbiguous, match="5 candidates begin with '': ") as caught:
            reader.candidate("")
        assert caught.value.matches == tuple(sorted(row.id for row in reader.candidates()))
        row = reader.row(child.id[:12])
    assert (row.origin, row.language, row.depth, row.accepted) == (Origin.QUESTION, Language.CPP, 1, True)
    assert (row.verdict, row.status, row.parent_id) == ("OK", "best", hash_text("seed a"))


def test_outcomes_and_finals_come_back_whole(filled: Path) -> None:
    with Reader.open(filled) as reader:
        assert reader.outcome(hash_text("child")) == outcome("child", 1.5)
        assert reader.outcome(hash_text("broken")) == outcome("broken", verdict=Verdict.WRONG)
        assert reader.outcome(hash_text("late")) is None
        assert reader.final(hash_text("child")) == outcome("child", 1.45, effort=Effort.FINAL)


def test_the_last_final_counts(folder: Path) -> None:
    with Store.create(folder, started()) as store, Reader.open(folder) as reader:
        store.append(asked(0, "seed"), final("seed", 1.2), final("seed", 1.1))
        assert reader.final(hash_text("seed")) == final("seed", 1.1).outcome


def test_a_refuted_candidate_is_not_the_best(filled: Path) -> None:
    def best_id() -> str | None:
        with Reader.open(filled) as reader:
            best = reader.best()
            assert reader.info().best_id == (best and best.id)
        return best and best.id

    with Store.open(filled) as store:
        store.append(final("child", verdict=Verdict.HARNESS_FAULT))
        assert best_id() == hash_text("child")
        store.append(final("child", verdict=Verdict.WRONG))
        assert best_id() == hash_text("seed a")
        store.append(final("child", 1.5), final("seed a", verdict=Verdict.NONDETERMINISTIC))
        assert best_id() == hash_text("seed b")
        store.append(final("seed b", verdict=Verdict.TIMEOUT))
        assert best_id() is None


def test_steps_children_and_ancestors(filled: Path) -> None:
    with Reader.open(filled) as reader:
        assert [step.number for step in reader.steps(since=5)] == [5, 6]
        children = reader.children(hash_text("child"))
        assert [(step.number, step.rejection, step.verdict) for step in children] == [
            (3, None, "WRONG"),
            (4, "no_code", None),
            (6, None, None),
        ]
        assert [row.step_number for row in reader.ancestors(hash_text("broken"))] == [2, 0]
        assert reader.ancestors(hash_text("seed a")) == ()
        assert reader.step(2) == asked(2, "child", "seed a")
        assert reader.steps()[5].duplicate_of == hash_text("child")
        with pytest.raises(IndexError):
            reader.step(99)


def test_the_funnel(filled: Path) -> None:
    with Reader.open(filled) as reader:
        assert reader.funnel() == (
            FunnelRow(stage="answer", word="no_code", steps=1),
            FunnelRow(stage="recognise", word="DUPLICATE", steps=1),
            FunnelRow(stage="check", word="WRONG", steps=1),
            FunnelRow(stage="score", word="OK", steps=3),
            FunnelRow(stage="waiting", word="for evaluation", steps=1),
        )


def test_what_questions_gave(filled: Path) -> None:
    with Reader.open(filled) as reader:
        tiles, spills = reader.questions()
        (layer,) = reader.layers()
    assert (tiles.key, tiles.layer, tiles.asked, tiles.answered, tiles.right, tiles.accepted) == (
        "tile_size",
        "schedule",
        3,
        2,
        1,
        1,
    )
    assert tiles.gain == pytest.approx(math.log(1.5))
    assert (tiles.tokens, tiles.cost_usd, tiles.answer_s, tiles.evaluation_s) == (360, 0.75, 4.5, 4.0)
    assert (spills.key, spills.asked, spills.answered, spills.gain) == ("spills", 2, 1, 0.0)
    assert (layer.key, layer.asked, layer.gain) == ("schedule", 5, tiles.gain)


def test_a_gain_counts_only_accepted_children_with_a_scored_parent(folder: Path) -> None:
    with Store.create(folder, started()) as store, Reader.open(folder) as reader:
        store.append(asked(0, "seed"), evaluated(0, "seed", 2.0))
        store.append(asked(1, "worse", "seed"), evaluated(1, "worse", 1.0), folded(1, "seed", accepted=True))
        store.append(asked(2, "better", "seed"), evaluated(2, "better", 4.0), folded(2, "seed", accepted=False))
        store.append(asked(3, "orphan", "lost"), evaluated(3, "orphan", 9.0), folded(3, "orphan", accepted=True))
        assert [step.gain for step in reader.steps()] == [None, 0.0, 0.0, 0.0]
        assert [row.depth for row in reader.candidates()] == [0, 1, 1, 0]
        assert reader.ancestors(hash_text("orphan")) == ()


def test_hostile_texts_pass_through(folder: Path) -> None:
    text = "</script><img src=x onerror=alert(1)> \ud800 \x00 '; DROP TABLE events; --"
    with Store.create(folder, started(name="n")) as store, Reader.open(folder) as reader:
        store.append(asked(0, text), asked(1, None, text, rejected=Rejection.NO_CODE, entry=text))
        assert reader.candidate(hash_text(text)).source == text
        assert reader.step(1).question == question(text, Layer.SCHEDULE)
        assert reader.steps()[1].entry_id == text.encode("utf-8", "backslashreplace").decode()


def test_frames(filled: Path) -> None:
    with Reader.open(filled) as reader:
        candidates, steps = candidates_frame(reader), steps_frame(reader)
    assert list(candidates["step_number"]) == [0, 1, 2, 3, 6]
    assert candidates["low"].max() == pytest.approx(1.5 * 0.998)
    assert list(steps["number"]) == list(range(7))


def test_a_reader_can_not_write(filled: Path) -> None:
    with Reader.open(filled) as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.connection.execute("INSERT INTO sources VALUES ('a', 'b')")


def test_e54_readers_beside_a_writer_see_whole_prefixes(folder: Path) -> None:
    steps = 120
    problems: list[object] = []

    def watch() -> None:
        seen = 0
        with Reader.open(folder) as reader:
            while seen < 2 * steps + 1:
                new = [recorded.seq for recorded in reader.events(since=seen)]
                if new != list(range(seen + 1, seen + 1 + len(new))) or len(new) % 2 != (seen == 0):
                    problems.append(new)
                    return
                seen += len(new)
                reader.info()

    with Store.create(folder, started()) as store:
        watchers = [threading.Thread(target=watch) for _ in range(2)]
        for watcher in watchers:
            watcher.start()
        for number in range(steps):
            store.append(asked(number, f"source {number}"), evaluated(number, f"source {number}", 1.0))
        for watcher in watchers:
            watcher.join(60)
    assert not problems
    assert not any(watcher.is_alive() for watcher in watchers)
