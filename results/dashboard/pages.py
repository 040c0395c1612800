"""What each page shows: facts of the run and of its address, as a template takes them."""

from collections.abc import Callable, Mapping
from typing import Any

from results.dashboard.overview import run_facts
from results.dashboard.rendering import render
from results.dashboard.view import Facts, RunView, Sight
from results.dashboard.views import VIEWS, Links, View

Query = Mapping[str, str]
PER_PAGE = 100

FACTS: dict[str, Callable[[Sight], Facts]] = {"run": run_facts}
"""Facts that are the same for every visitor: by name at ``data/NAME``."""


def facts_of(view: RunView, name: str) -> Facts:
    """The facts of this name. Raises KeyError where there are none of that name, RunError."""
    return view.facts(name, FACTS[name])


def page(view: RunView, shown: View, query: Query, frame: Mapping[str, Any]) -> bytes:
    """A view of the run, whole; ``frame`` has what all pages of a server or report share. Raises RunError."""
    return render(f"{shown.name}.html", {**frame, **base(view, shown), **context(view, shown.name, query)})


def base(view: RunView, shown: View) -> dict[str, Any]:
    """What the frame of every page needs."""
    return {
        "view": shown.name, "title": shown.title, "scripts": shown.scripts, "run_name": facts_of(view, "run")["name"],
        "views": [(one.name, one.label) for one in VIEWS],
    }  # fmt: skip


def context(view: RunView, name: str, query: Query) -> dict[str, Any]:
    """What the page of this name shows beyond its frame."""
    return {"run": facts_of(view, "run")}


def live_frame(root: str, *, folder_link: bool, may_ask: bool) -> dict[str, Any]:
    """What all pages of a server share; ``root`` leads from the page to the run's first page."""
    return {
        "mode": "live", "root": root, "links": Links(), "data_scripts": (), "folder_link": folder_link, "may_ask": may_ask,
    }  # fmt: skip
