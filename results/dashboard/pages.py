"""What each page shows: facts of the run and of its address, as a template takes them."""

from collections.abc import Mapping, Sequence
from typing import Any

from mutators.question import Layer
from results.dashboard.candidate import candidate_facts, comparison_facts
from results.dashboard.facts import FACTS, facts_of
from results.dashboard.lineage import lineage_facts
from results.dashboard.questions import FILTERS, asked_steps
from results.dashboard.rendering import render
from results.dashboard.view import RunView
from results.dashboard.views import CANDIDATE, VIEWS, Links, View

Query = Mapping[str, str]
PER_PAGE = 100
MOST_COMPARED = 8


def page(view: RunView, shown: View, query: Query, frame: Mapping[str, Any]) -> bytes:
    """A view of the run, whole; ``frame`` has what all pages of a server or report share. Raises RunError."""
    return render(f"{shown.name}.html", {**frame, **base(view, shown), **context(view, shown.name, query)})


def candidate_page(view: RunView, prefix: str, frame: Mapping[str, Any]) -> bytes:
    """The page of the candidate whose id begins so. Raises IdUnknown, IdAmbiguous."""
    with view.sight() as sight:
        facts = candidate_facts(sight, prefix)
    return render("candidate.html", {**frame, **base(view, CANDIDATE), "title": f"Kernel {facts['id'][:10]}", "one": facts})


def base(view: RunView, shown: View) -> dict[str, Any]:
    """What the frame of every page needs."""
    return {
        "view": shown.name, "title": shown.title, "scripts": shown.scripts, "run_name": facts_of(view, "run")["name"],
        "run": facts_of(view, "run"), "views": [(one.name, one.label) for one in VIEWS],
    }  # fmt: skip


def context(view: RunView, name: str, query: Query) -> dict[str, Any]:
    """What the page of this name shows beyond its frame. Raises IdUnknown, IdAmbiguous where its address names kernels."""
    if name == "overview":
        return {}
    if name == "lineage":
        with view.sight() as sight:
            return {"lineage": lineage_facts(sight, query)}
    if name == "compare":
        ids = wanted_ids(query)
        with view.sight() as sight:
            return {"ids": ids, "compared": comparison_facts(sight, ids) if ids else None}
    found: dict[str, Any] = {name: facts_of(view, name)} if name in FACTS else {}
    if name == "questions":
        number = int(query.get("page", "")) if query.get("page", "").isdecimal() and len(query.get("page", "")) < 9 else 0
        with view.sight() as sight:
            steps, total = asked_steps(sight, query, number, PER_PAGE)
        chosen = {key: query[key] for key in FILTERS if query.get(key)}
        found |= {
            "steps": steps, "steps_total": total, "page": number, "per_page": PER_PAGE, "chosen": chosen,
            "layers": [one.value for one in Layer], "said": query.get("said") == "kept", "about": query.get("about", ""),
        }  # fmt: skip
    return found


def wanted_ids(query: Query) -> Sequence[str]:
    """The kernels that ``?ids=A,B`` names, without repetition, at most eight."""
    given = [one.strip() for one in query.get("ids", "").split(",")]
    return list(dict.fromkeys(one for one in given if one))[:MOST_COMPARED]


def live_frame(root: str, *, folder_link: bool, may_ask: bool) -> dict[str, Any]:
    """What all pages of a server share; ``root`` leads from the page to the run's first page."""
    return {
        "mode": "live", "root": root, "links": Links(), "data_scripts": (), "folder_link": folder_link, "may_ask": may_ask,
        "problem": "",
    }  # fmt: skip
