"""A run as one folder of pages that open from disk: the same pages as a server's, and the data they draw as scripts."""

import base64
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.dashboard.columns import Columns
from results.dashboard.facts import FACTS, facts_of
from results.dashboard.outlook import Outlook, nothing_known
from results.dashboard.pages import base, candidate_page, page
from results.dashboard.rendering import STATIC, render
from results.dashboard.sources import kernels
from results.dashboard.tables import NAMES_OF_TABLES, table
from results.dashboard.view import RunView, as_json
from results.dashboard.views import CANDIDATE, VIEWS, Links
from results.reader import Reader

TOP = 200
MOST_PAGES = 300
"""Kernels with a page of their own; ``candidate.html`` shows every other from the data."""
ACCEPTED = "SELECT candidate_id FROM steps WHERE accepted AND candidate_id IS NOT NULL ORDER BY number DESC LIMIT ?"
DRAWN = ("run", "scenarios", "archive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a report came to: pages, and bytes of all its files."""

    pages: int
    bytes: int


def write_report(folder: Path, target: Path, outlook: Callable[[Reader, Columns], Outlook] = nothing_known) -> Written:
    """The run in ``folder`` as pages in ``target``, which is made. Raises RunError, OSError."""
    view = RunView(folder, outlook)
    try:
        pages = _pages(view)
        for name, content in {**pages, **_data(view)}.items():
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    finally:
        view.close()
    shutil.copytree(STATIC, target / "static", dirs_exist_ok=True)
    files = [one for one in target.rglob("*") if one.is_file()]
    return Written(pages=len(pages), bytes=sum(one.stat().st_size for one in files))


def _pages(view: RunView) -> dict[str, bytes]:
    """Every page by its path in the report."""
    chosen = worth_a_page(view)
    links = Links(written=frozenset(one[:16] for one in chosen))
    found = {links[one.name]: page(view, one, _query(view, one.name), _frame("./", links, one.data)) for one in VIEWS}
    frame = _frame("./", links, ("candidates",))
    found["candidate.html"] = render("kernel.html", {**frame, **base(view, CANDIDATE)})
    for one in chosen:
        found[f"candidate/{one[:16]}.html"] = candidate_page(view, one, _frame("../", links, ("candidates",)))
    return found


def _query(view: RunView, name: str) -> Mapping[str, str]:
    """What a page shows that has no address to read it from: two kernels to compare are the best and its seed."""
    steps: list[Any] = facts_of(view, "replay")["steps"] if name == "compare" else []
    return {"ids": f"{steps[0]['id']},{steps[-1]['id']}"} if len(steps) > 1 else {}


def _frame(root: str, links: Links, data: Iterable[str]) -> dict[str, Any]:
    """What all pages of a report share."""
    return {
        "mode": "report", "root": root, "links": links, "data_scripts": ("run", *data), "folder_link": False, "may_ask": False,
        "problem": "",
    }  # fmt: skip


def worth_a_page(view: RunView) -> list[str]:
    """Ids of the kernels that get a page: the way to the best, the best ones, the first of each failure, the accepted."""
    with view.sight() as sight:
        best = sight.reader.headline()
        way = [row.id for row in (*sight.reader.ancestors(best.id), best)] if best else []
        top = [row.id for row in sight.reader.candidates(order="fitness", limit=TOP)]
        accepted = [one for (one,) in sight.reader.connection.execute(ACCEPTED, (MOST_PAGES,))]
    failed = [group["first"]["id"] for group in facts_of(view, "failures")["groups"]]
    return list(dict.fromkeys(one for one in (*way, *top, *failed, *accepted) if one))[:MOST_PAGES]


def _data(view: RunView) -> dict[str, bytes]:
    """The data that scripts draw, each as a script that hands itself over, and every table."""
    found = {f"data/{name}.js": _script(name, as_json(facts_of(view, name))) for name in DRAWN if name in FACTS}
    pages = as_json(sorted(one[:16] for one in worth_a_page(view)))
    found["data/run.js"] += _script("pages", pages)
    found["data/columns.js"] = _script("columns", b'"' + base64.b64encode(view.wire(0)) + b'"')
    with view.sight() as sight:
        found["data/candidates.js"] = _script("candidates", as_json(kernels(sight)))
    return found | {f"data/{name}.csv": table(view, name) for name in NAMES_OF_TABLES}


def _script(name: str, json: bytes) -> bytes:
    """A classic script, since a page from disk may load no other data: ``window.ASK_DATA.NAME = ...``."""
    return b"window.ASK_DATA = window.ASK_DATA || {};\nwindow.ASK_DATA." + name.encode() + b" = " + json + b";\n"
