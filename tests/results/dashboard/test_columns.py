"""The columns of a run, as cached and as they travel."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from evaluator.outcome import Verdict
from population.candidate import hash_text
from results.dashboard.codes import ABSENT, NAMES, Flag
from results.dashboard.columns import LAYOUT, Columns
from results.reader import Reader
from results.store import Store
from tests.results.dashboard.runs import grow
from tests.results.makers import asked, evaluated, fill, final, folded, started


def read(folder: Path, columns: Columns | None = None) -> Columns:
    columns = columns or Columns()
    with Reader.open(folder) as reader:
        columns.refresh(reader)
    return columns


def decoded(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and columns, read as a page reads them."""
    end = data.index(b"\n") + 1
    assert end % 8 == 0
    header, found, at = json.loads(data[:end]), {}, end
    for name, kind in header["columns"]:
        found[name] = np.frombuffer(data, f"<{kind}", header["rows"], at)
        at += -(-found[name].nbytes // 8) * 8
    assert at == len(data)
    return header, found


def words(columns: Columns) -> dict[str, list[Any]]:
    """Every column, with words for the codes that a run brings itself."""
    found = {name: columns[name].tolist() for name, _ in LAYOUT}
    found["status"] = [list(columns.statuses)[code] if code != ABSENT else None for code in found["status"]]
    return {name: list(map(repr, values)) for name, values in found.items()}  # so that nan is nan


def test_each_step_is_a_row(made: Callable[[str], Path]) -> None:
    columns = read(made("small"))
    assert columns["number"].tolist() == list(range(7))
    assert columns["parent"].tolist() == [-1, -1, 0, 2, 2, 1, 2]
    assert columns["depth"].tolist() == [0, 0, 1, 2, 2, 1, 2]
    assert columns["flags"].tolist() == [
        Flag.SEED | Flag.BEST_PATH, Flag.SEED, Flag.ACCEPTED | Flag.BEST_PATH | Flag.FINAL_OK, 0, Flag.REJECTED,
        Flag.DUPLICATE, 0,
    ]  # fmt: skip
    verdicts = [NAMES["verdicts"][code] if code != ABSENT else "" for code in columns["verdict"]]
    assert verdicts == ["OK", "OK", "OK", "WRONG", "", "", ""]
    assert list(columns.names()["questions"]) == ["tile_size", "spills"]
    assert columns["question"].tolist() == [-1, -1, 0, 0, 1, 0, 1]
    assert columns["predicted"][2] == np.float32(1.1)
    assert np.isnan(columns["predicted"][0])
    assert columns["id"][2].tobytes().hex() == columns["id"][5].tobytes().hex() == hash_text("child")[:16]
    assert columns["id"][4] == 0
    assert columns.best == 2


def test_a_run_that_grows_gives_the_same_columns_as_one_read_at_once(folder: Path) -> None:
    columns = Columns()
    with Store.create(folder, started()) as store:
        fill(store)
        read(folder, columns)
        store.append(evaluated(6, "late", 1.6), folded(6, "late", accepted=True, status="best"))
        read(folder, columns)
        store.append(final("late", verdict=Verdict.WRONG), asked(7, "more", "late"))
        read(folder, columns)
        store.append(evaluated(7, "more", 1.7))
        read(folder, columns)
        store.append(folded(7, "more", accepted=True, status="best"))
        read(folder, columns)
    assert words(columns) == words(read(folder))
    assert columns["flags"][6] & Flag.FINAL_REFUTED


def test_a_delta_brings_new_and_changed_rows_alone(folder: Path) -> None:
    with Store.create(folder, started()) as store:
        fill(store)
        columns = read(folder)
        before = columns.seq
        header, whole = decoded(columns.wire())
        assert (header["seq"], header["rows"], header["total"]) == (before, 7, 7)
        grow(store, 7, "child", 2.0)
        store.append(evaluated(6, "late", 0.9))
    header, delta = decoded(read(folder, columns).wire(before))
    assert delta["number"].tolist() == [6, 7]
    assert header["total"] == 8
    merged = {name: np.concatenate([values, delta[name][1:]]) for name, values in whole.items()}
    for name, values in merged.items():
        values[6] = delta[name][0]
        assert values.tobytes() == columns[name].tobytes(), name
    assert decoded(columns.wire(header["seq"]))[0]["rows"] == 0


def test_a_best_that_a_final_refutes_leaves_the_path(folder: Path) -> None:
    with Store.create(folder, started()) as store:
        store.append(asked(0, "seed a"), evaluated(0, "seed a", 1.0), folded(0, "seed a", status="best"))
        grow(store, 1, "seed a", 1.3)
        columns = read(folder)
        before = columns.seq
        store.append(final("grown 1", verdict=Verdict.WRONG))
    header, delta = decoded(read(folder, columns).wire(before))
    assert header["rows"] == 1
    assert delta["flags"].tolist() == [Flag.ACCEPTED | Flag.FINAL_REFUTED]
    assert columns.best == 0


def test_another_run_in_its_place_is_read_from_the_start(folder: Path, made: Callable[[str], Path]) -> None:
    columns = read(made("thousand"))
    with Store.create(folder, started(), clock=lambda: 2e9) as store:
        fill(store)
    assert words(read(folder, columns)) == words(read(folder))


def test_time_of_evaluations_on_a_gpu_is_summed_once(folder: Path) -> None:
    from dataclasses import replace

    held = evaluated(0, "seed a", 1.0)
    held = replace(held, outcome=replace(held.outcome, facts={"lease_s": 1.5, "gpu_busy_s": 0.25}))
    with Store.create(folder, started()) as store:
        store.append(asked(0, "seed a"), held)
        columns = read(folder)
        store.append(asked(1, "seed b"), replace(held, step_number=1))
    read(folder, columns)
    assert (columns.held_s, columns.busy_s) == (3.0, 0.5)


def test_an_empty_run_has_no_rows(made: Callable[[str], Path]) -> None:
    header, found = decoded(read(made("empty")).wire())
    assert (header["rows"], header["seq"], len(found)) == (0, 1, len(LAYOUT))
