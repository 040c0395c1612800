"""A run that is open: what is computed from the columns agrees with the store, and new rows never wait for facts."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from results.dashboard.funnel import funnel
from results.dashboard.view import RunView
from results.reader import Reader
from results.store import Store
from tests.results.dashboard.runs import KINDS, grow

Made = Callable[[str], Path]


@pytest.mark.parametrize("kind", ["thousand", *KINDS])
def test_the_funnel_of_the_columns_is_that_of_the_store(kind: str, made: Made) -> None:
    view = RunView(made(kind))
    with view.sight() as sight:
        assert tuple(funnel(sight.columns)) == sight.reader.funnel()
    view.close()


@pytest.mark.parametrize("kind", ["thousand", "small"])
def test_the_leading_candidates_are_the_first_of_all(kind: str, made: Made) -> None:
    with Reader.open(made(kind)) as reader:
        every = reader.candidates(order="fitness")
        for limit in (0, 1, 3, len(every), len(every) + 1):
            assert reader.candidates(order="fitness", limit=limit) == every[:limit]


def test_new_rows_come_while_facts_are_made(tmp_path: Path) -> None:
    KINDS["one"](tmp_path)
    view = RunView(tmp_path)
    got: list[int] = []
    with view.sight() as sight:
        before, rows = sight.columns.seq, sight.columns.rows
        with Store.open(tmp_path) as store:
            grow(store, 1, "seed a", 1.25)
        other = threading.Thread(target=lambda: got.append(view.seq()))
        other.start()
        other.join(20)
        assert got == [before + 3]
        assert (sight.columns.seq, sight.columns.rows) == (before, rows)
        assert len(sight.reader.steps()) == rows + 1
    with view.sight() as sight:
        assert (sight.columns.seq, sight.columns.rows) == (before + 3, rows + 1)
    view.close()
