"""The made-up large run is one that the store itself could have written."""

import sqlite3
from pathlib import Path

from results import schema
from results.log import read_events
from results.projections import project
from results.reader import Reader
from tests.results.dashboard.many import write_many


def test_its_tables_are_what_its_events_project_to(tmp_path: Path) -> None:
    write_many(tmp_path / "many", 150)
    with Reader.open(tmp_path / "many") as reader:
        again = sqlite3.connect(":memory:", isolation_level=None)
        schema.create_tables(again)
        for recorded in read_events(tmp_path, reader.connection):
            project(again, recorded.seq, recorded.at, recorded.event)
        for table in schema.PROJECTIONS:
            query = f"SELECT * FROM {table}"
            assert reader.connection.execute(query).fetchall() == again.execute(query).fetchall(), table
        assert reader.candidate(reader.headline().id).source.startswith("// step ")  # type: ignore[union-attr]
        words = {row.word for row in reader.funnel()}
    assert {"OK", "COMPILE_ERROR", "DUPLICATE", "WRONG"} <= words
