"""The peers' side of `benchmarks/population_scale.py`, run by a Python that has them; knows nothing of this project.

`python population_scale_peers.py openevolve|shinka PROGRAMS SIZE...` reads programs as lines of JSON and prints a line of JSON
for each size: median milliseconds of the last inserts, of samples, and the bytes that go to a worker with one step.
"""

import contextlib
import json
import logging
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ISLANDS, INSERTS, SAMPLES = 5, 200, 40


def openevolve(_folder: Path) -> tuple[Callable[[dict[str, Any]], object], Callable[[], object], Callable[[], int]]:
    """Its database with no embedding, with room for every program; a step pickles a snapshot of all of it."""
    from openevolve.config import Config
    from openevolve.database import Program, ProgramDatabase
    from openevolve.process_parallel import ProcessParallelController

    config = Config()
    config.database.num_islands, config.database.population_size = ISLANDS, 1_000_000
    database = ProgramDatabase(config.database)
    controller = ProcessParallelController(config, "none.py", database)

    def insert(one: dict[str, Any]) -> object:
        program = Program(
            id=str(one["number"]), code=one["source"], language="cuda", parent_id=one["parent"],
            metrics={"combined_score": one["score"]},
        )  # fmt: skip
        return database.add(program, iteration=one["number"], target_island=one["number"] % ISLANDS)

    return insert, lambda: database.sample_from_island(0, 2), lambda: len(pickle.dumps(controller._create_database_snapshot()))


def shinka(folder: Path) -> tuple[Callable[[dict[str, Any]], object], Callable[[], object], Callable[[], int]]:
    """Its database on disk with no embedding; a step gives its job the source as a file."""
    from shinka.database import DatabaseConfig, Program, ProgramDatabase

    os.environ.setdefault("OPENAI_API_KEY", "none")
    database = ProgramDatabase(DatabaseConfig(db_path=str(folder / "programs.sqlite"), num_islands=ISLANDS))
    last = ""

    def insert(one: dict[str, Any]) -> object:
        nonlocal last
        last = one["source"]
        program = Program(
            id=str(one["number"]), code=last, language="cuda", parent_id=one["parent"], generation=one["number"],
            combined_score=one["score"], correct=True,
        )  # fmt: skip
        return database.add(program)

    return insert, database.sample, lambda: len(last.encode())


def median_ms(what: Callable[[], object], count: int) -> float:
    took = []
    for _ in range(count):
        start = time.perf_counter()
        what()
        took.append(time.perf_counter() - start)
    return median(took) * 1e3


def main() -> None:
    name, path, *sizes = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as scratch, Path(path).open() as lines:
        with contextlib.redirect_stdout(sys.stderr):
            insert, sample, worker_bytes = {"openevolve": openevolve, "shinka": shinka}[name](Path(scratch))
        done = 0
        for size in map(int, sizes):
            with contextlib.redirect_stdout(sys.stderr):
                for _ in range(size - done - INSERTS):
                    insert(json.loads(next(lines)))
                waiting = iter([json.loads(next(lines)) for _ in range(INSERTS)])
                insert_ms = median_ms(lambda: insert(next(waiting)), INSERTS)  # noqa: B023  (called at once)
                found = {"insert_ms": insert_ms, "sample_ms": median_ms(sample, SAMPLES), "bytes": worker_bytes()}
            done = size
            print(json.dumps({"size": size, **found}), flush=True)


if __name__ == "__main__":
    main()
