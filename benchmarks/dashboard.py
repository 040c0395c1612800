"""What the dashboard's server costs at size: `python benchmarks/dashboard.py [STEPS] [FOLDER]`.

Writes a made-up run of so many steps (100,000 if not given) into FOLDER, or uses the one that lies there, serves it in a
process of its own, and prints bytes and times of every page and of the data, a delta of 100 new steps end to end, the
server's memory, and the size of a report (where there are at most 10,000 steps).
"""

import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

from results.dashboard.report import write_report
from results.dashboard.views import VIEWS
from results.folder import holds_run
from results.reader import Reader
from results.store import Store
from tests.results.dashboard.many import write_many
from tests.results.dashboard.runs import grow

MOST_REPORTED = 10_000
DELTA = 100
ROUNDS = 5
COMMAND = "from evolve.cli.app import main; main()"


def got(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=300) as answer:
        found: bytes = answer.read()
    return found


def measured(what: str, address: str) -> bytes:
    """Get an address, and print how long it took and how many bytes came."""
    start = time.perf_counter()
    found = got(address)
    print(f"{what:32s} {1e3 * (time.perf_counter() - start):9.1f} ms {len(found):12,d} bytes")
    return found


def delta(folder: Path, address: str) -> None:
    """Time from 100 stored steps to their rows at the client, the median of five."""
    with Reader.open(folder) as reader:
        best = reader.headline()
        number, since = reader.info().steps, reader.info().events
        assert best is not None
        parent = reader.candidate(best.id).source
    times = []
    with Store.open(folder) as store:
        for first in range(number, number + ROUNDS * DELTA, DELTA):
            for one in range(first, first + DELTA):
                parent = grow(store, one, parent, 1.0)
            start = time.perf_counter()
            found = got(f"{address}data/columns?since={since}")
            times.append(1e3 * (time.perf_counter() - start))
            since += 3 * DELTA
    print(f"{'delta of 100 steps':32s} {statistics.median(times):9.1f} ms {len(found):12,d} bytes")


def serve(folder: Path) -> None:
    command = [sys.executable, "-c", COMMAND, "dashboard", str(folder)]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        print(f"{'start, the whole run read':32s} {1e3 * (time.perf_counter() - start):9.1f} ms")
        address = found[0]
        try:
            for view in VIEWS:
                path = "" if view.name == "overview" else view.name
                measured(f"{view.name}, first", f"{address}{path}")
                measured(f"{view.name}, again", f"{address}{path}")
            measured("all columns", f"{address}data/columns")
            delta(folder, address)
            memory = psutil.Process(server.pid).memory_info().rss
            print(f"{'memory of the server':32s} {memory / 1e6:9.1f} MB")
        finally:
            server.terminate()


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(scratch) / "many"
        if not holds_run(folder):
            start = time.perf_counter()
            write_many(folder, steps)
            print(f"{'a run made up':32s} {1e3 * (time.perf_counter() - start):9.1f} ms")
        if steps <= MOST_REPORTED:
            start = time.perf_counter()
            written = write_report(folder, Path(scratch) / "report")
            took_ms = 1e3 * (time.perf_counter() - start)
            print(f"{'report, ' + str(written.pages) + ' pages':32s} {took_ms:9.1f} ms {written.bytes:12,d} bytes")
        serve(folder)


if __name__ == "__main__":
    main()
