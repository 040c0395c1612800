"""Times the dashboard's pages in headless Chromium over a made-up run: first paint, zoom and pan, and 100 new rows end to end.

    python benchmarks/dashboard_pages.py [ROWS]

Prints a table: milliseconds, medians of several tries. ``first paint`` is from the start of the navigation to the first frame
with all rows drawn; ``frame`` is the work of one zoomed or panned picture; ``delta`` is from the stream's word that 100 rows
came, through request, answer, decoding and layout, to the end of the frame that shows them. The stream itself waits up to
0.5 s before its word.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from results.reader import Reader
from results.store import Store
from tests.browser.conftest import browser_path, served
from tests.browser.looks import until
from tests.results.dashboard.many import write_many
from tests.results.makers import asked, folded

TRIES = 5
NEW_ROWS = 100
PAINTED = "window.evolveState.firstPaint_ms > 0 && document.querySelector('.badge[data-live=live]') !== null"
FRAMES = """
async (name) => {
  const figure = ask.figures[name];
  const wait = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const took = { zoom: [], pan: [] };
  for (let k = 0; k < 12; k++) {
    await wait();
    const began = performance.now();
    if (k % 2) figure.pan(40, 10);
    else figure.zoom(0.85, 0.85, 500, 200);
    figure._draw();
    took[k % 2 ? "pan" : "zoom"].push(performance.now() - began);
  }
  figure.fit();
  await wait();
  return took;
}
"""


def main(rows: int) -> None:
    """Make the run, open its pages, print what they took."""
    path = browser_path()
    if path is None:
        sys.exit("Chromium isn't installed; install it as your system does, such as: apt-get install chromium")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place) / "run"
        write_many(folder, rows)
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        with served(folder) as address:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(address)
            until(page, PAINTED)  # the server has read the run now
            print(f"{rows} rows, Chromium {browser.version}, 1440 x 900, medians of {TRIES}\n")
            print(f"{'page':10}{'first paint':>13}{'zoom frame':>13}{'pan frame':>13}{f'delta of {NEW_ROWS}':>15}   ms")
            for name in ("progress", "lineage"):
                first = statistics.median(paint_ms(page, address + name) for _ in range(TRIES))
                frames = page.evaluate(FRAMES, name)
                delta = statistics.median(delta_ms(page, folder) for _ in range(TRIES))
                zoom, pan = (statistics.median(frames[one]) for one in ("zoom", "pan"))
                print(f"{name:10}{first:13.0f}{zoom:13.0f}{pan:13.0f}{delta:15.0f}")
        browser.close()


def paint_ms(page: Any, address: str) -> float:
    """From the start of the navigation to the first frame with every row."""
    page.goto("about:blank")
    page.goto(address)
    until(page, PAINTED)
    found: float = page.evaluate("window.evolveState.firstPaint_ms")
    return found


def delta_ms(page: Any, folder: Path) -> float:
    """From the word that rows are there to the frame that shows them: request, answer, decoding, layout, drawing."""
    with Reader.open(folder) as reader:
        number = reader.info().steps
    page.evaluate("window.evolveState.delta_ms = 0")
    with Store.open(folder) as store:
        numbers = range(number, number + NEW_ROWS)
        store.append(*(event for one in numbers for event in (asked(one, f"new {one}", "gone"), folded(one, None))))
    until(page, f"window.evolveState.rows === {number + NEW_ROWS} && window.evolveState.delta_ms > 0")
    time.sleep(0.6)
    found: float = page.evaluate("window.evolveState.delta_ms")
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
