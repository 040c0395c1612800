"""Our lineage page beside OpenEvolve's and ShinkaEvolve's over the same candidates: bytes, time to first paint, time an update.

    python benchmarks/dashboard_peers.py --rows 2000 10000 --shinka PYTHON --openevolve PYTHON SCRIPTS --vendor FOLDER

The peers' pages are theirs, unchanged, run by a Python that has them: ``--shinka`` one with ``shinka-evolve`` (PyPI),
``--openevolve`` one with Flask, and the folder ``scripts`` of OpenEvolve's repository (its packages hold no page). Both load
scripts from other hosts; ``--vendor`` is a folder with such files by their last name (``d3.v7.min.js`` from the npm package d3,
...), anything else is refused, so a run needs no network. A peer that isn't given is left out.

``MB`` is everything fetched for the first picture; ``first paint`` from the start of the navigation until the picture holds
nodes (ours: all of them; a peer that draws a part is counted with that part); ``update`` from the request that brings 100 new
candidates to the first frame that shows more nodes.
"""

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, sync_playwright

from results.reader import Reader
from results.store import Store
from tests.browser.conftest import browser_path, served
from tests.results.dashboard.many import write_many
from tests.results.makers import asked, folded

NEW_ROWS = 100
LIMIT_MS = 180_000
Rows = list[dict[str, Any]]

FILL_SHINKA = """
import json, sys
from shinka.database import DatabaseConfig, Program, ProgramDatabase
rows = json.load(open(sys.argv[2]))
database = ProgramDatabase(DatabaseConfig(db_path=sys.argv[1], num_islands=4))
for row in rows:
    database.add(Program(id=row["id"], code=row["code"], language="cpp", parent_id=row["parent"], island_idx=row["island"],
        generation=row["generation"], combined_score=row["score"], correct=row["score"] > 0), defer_maintenance=True)
"""
SHINKA_NODES = "document.querySelectorAll('svg g.node, svg .node').length"
OPENEVOLVE_NODES = "document.querySelectorAll('svg circle').length"
OUR_NODES = "window.evolveState && window.evolveState.firstPaint_ms > 0 ? window.evolveState.drawnPoints : 0"
WATCH = """
(before) => new Promise((done) => {
  const look = () => (COUNT > before ? done(performance.now()) : requestAnimationFrame(look));
  look();
})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page to measure: its address, how its nodes are counted, what makes it show candidates, how 100 more come to be, and a
    part of the address of the request that brings them.
    """

    name: str
    address: str
    nodes: str
    open: Callable[[Any], None]
    add: Callable[[], None]
    brings: str


def rows_of(folder: Path) -> Rows:
    """Every step of a run that has a candidate, as the peers' formats want it."""
    with Reader.open(folder) as reader:
        found = reader.candidates()
    known = {row.id for row in found}
    return [
        {
            "id": row.id[:12],
            "parent": row.parent_id[:12] if row.parent_id in known else None,
            "island": row.island or 0,
            "generation": row.depth or 0,
            "score": row.geomean or 0.0,
            "code": f"// {row.id}\n" + "float x = 1.0f;\n" * 40,
        }
        for row in found
    ]


def more_of(rows: Rows) -> Rows:
    """A hundred children of the last rows."""
    parents = rows[-NEW_ROWS:]
    return [
        {**row, "id": f"new{k:09d}", "parent": row["id"], "generation": row["generation"] + 1} for k, row in enumerate(parents)
    ]


@contextmanager
def ours(folder: Path, _: Rows) -> Iterator[Page]:
    def add() -> None:
        with Reader.open(folder) as reader:
            first = reader.info().steps
        with Store.open(folder) as store:
            numbers = range(first, first + NEW_ROWS)
            store.append(*(event for one in numbers for event in (asked(one, f"new {one}", "gone"), folded(one, None))))

    with served(folder) as address:
        yield Page(
            name="ours",
            address=address + "lineage",
            nodes=OUR_NODES,
            open=lambda page: None,
            add=add,
            brings="data/columns?since=",
        )


@contextmanager
def shinka(python: str, place: Path, rows: Rows) -> Iterator[Page]:
    database = place / "results" / "evolution_db.sqlite"
    database.parent.mkdir()

    def fill(some: Rows) -> None:
        listed = place / "rows.json"
        listed.write_text(json.dumps(some))
        subprocess.run([python, "-c", FILL_SHINKA, str(database), str(listed)], check=True, capture_output=True)

    fill(rows)
    port = free_port()
    command = [python, "-m", "shinka.webui.visualization", "-p", str(port), "--db", str(database), str(database.parent)]
    with running(command, place, port):
        yield Page(
            name="ShinkaEvolve",
            address=f"http://localhost:{port}/viz_tree.html",
            nodes=SHINKA_NODES,
            open=choose_database,
            add=lambda: fill(more_of(rows)),
            brings="get_programs",
        )


def choose_database(page: Any) -> None:
    """Pick the first database where the page doesn't by itself."""
    page.evaluate(
        """() => { for (const one of document.querySelectorAll('select')) if (one.options.length > 1 && !one.value) {
        one.selectedIndex = 1; one.dispatchEvent(new Event('change')); } }"""
    )


@contextmanager
def openevolve(python: str, scripts: str, place: Path, rows: Rows) -> Iterator[Page]:
    programs = place / "checkpoints" / "checkpoint_1" / "programs"
    programs.mkdir(parents=True)
    present = list(rows)

    def write(some: Rows) -> None:
        for row in some:
            program = {
                "id": row["id"],
                "code": row["code"],
                "language": "cpp",
                "parent_id": row["parent"],
                "generation": row["generation"],
                "metrics": {"combined_score": row["score"]},
                "metadata": {"island": row["island"]},
            }
            (programs / f"{row['id']}.json").write_text(json.dumps(program))
        islands = [[row["id"] for row in present if row["island"] % 4 == island] for island in range(4)]
        meta = {"islands": islands, "archive": [], "best_program_id": None, "last_iteration": len(present)}
        (programs.parent / "metadata.json").write_text(json.dumps(meta))

    def add() -> None:
        new = more_of(rows)
        present.extend(new)
        write(new)

    write(rows)
    port = free_port()
    with running([python, "visualizer.py", "--path", str(place), "--port", str(port)], Path(scripts), port):
        yield Page(
            name="OpenEvolve",
            address=f"http://localhost:{port}/",
            nodes=OPENEVOLVE_NODES,
            open=lambda page: None,
            add=add,
            brings="api/data",
        )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


@contextmanager
def running(command: list[str], folder: Path, port: int) -> Iterator[None]:
    """A peer's server until the end of the block."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                sys.exit(f"{' '.join(command[:3])} doesn't serve; run it by hand to see why")
            time.sleep(0.2)
    try:
        yield
    finally:
        subprocess.run(["pkill", "-g", str(process.pid)], check=False)
        process.wait()


def measure(browser: Any, one: Page, vendor: Path | None) -> tuple[float, float, float, int]:
    """Megabytes and milliseconds to the first picture, milliseconds an update, nodes in the first picture."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(LIMIT_MS)
    page.route(lambda url: "//localhost" not in url and "//127.0.0.1" not in url, lambda route: from_vendor(route, vendor))
    sizes: list[int] = []
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    page.goto(one.address, wait_until="domcontentloaded")
    one.open(page)
    first_ms = page.evaluate(WATCH.replace("COUNT", f"({one.nodes})"), 0)
    page.wait_for_timeout(3000)
    fetched, shown = sum(sizes), page.evaluate(one.nodes)
    page.evaluate("performance.clearResourceTimings()")
    one.add()
    seen_ms = page.evaluate(WATCH.replace("COUNT", f"({one.nodes})"), shown)
    last = "performance.getEntriesByType('resource').filter((one) => one.name.includes(%s)).map((one) => one.startTime)"
    begun = [at for at in page.evaluate(last % json.dumps(one.brings)) if at <= seen_ms]
    page.close()
    return fetched / 1e6, first_ms, seen_ms - max(begun, default=float("nan")), shown


def from_vendor(route: Any, vendor: Path | None) -> None:
    """Answer a request to another host from the folder of such files, or refuse it."""
    name = route.request.url.partition("?")[0].rpartition("/")[2]
    if vendor is not None and (vendor / name).is_file():
        route.fulfill(path=vendor / name)
    else:
        route.abort()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000, 10_000])
    parser.add_argument("--shinka", metavar="PYTHON")
    parser.add_argument("--openevolve", nargs=2, metavar=("PYTHON", "SCRIPTS"))
    parser.add_argument("--vendor", type=Path)
    given = parser.parse_args()
    path = browser_path()
    if path is None:
        sys.exit("Chromium isn't installed; install it as your system does, such as: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        print(f"Chromium {browser.version}, 1440 x 900, one try each\n")
        print(f"{'candidates':>10}  {'page':14}{'MB':>8}{'first paint ms':>16}{'update ms':>12}{'nodes':>9}", flush=True)
        for count in given.rows:
            for make in sides(given):
                with tempfile.TemporaryDirectory() as place:
                    folder = Path(place) / "run"
                    write_many(folder, count)
                    try:
                        with make(folder, rows_of(folder)) as one:
                            found = measure(browser, one, given.vendor)
                            print(
                                f"{count:10}  {one.name:14}{found[0]:8.2f}{found[1]:16.0f}{found[2]:12.0f}{found[3]:9}",
                                flush=True,
                            )
                    except (Error, subprocess.CalledProcessError) as error:
                        said = str(error.stderr or error) if isinstance(error, subprocess.CalledProcessError) else str(error)
                        print(f"{count:10}  failed: {said.strip().splitlines()[-1][:150]}", flush=True)
        browser.close()


def sides(given: argparse.Namespace) -> Iterator[Callable[[Path, Rows], Any]]:
    """Who is measured, each as what opens its page over a run."""
    yield ours
    if given.openevolve:
        yield lambda folder, rows: openevolve(*given.openevolve, made(folder, "openevolve"), rows)
    if given.shinka:
        yield lambda folder, rows: shinka(shutil.which(given.shinka) or given.shinka, made(folder, "shinka"), rows)


def made(folder: Path, name: str) -> Path:
    place = folder.parent / name
    place.mkdir()
    return place


if __name__ == "__main__":
    main()
