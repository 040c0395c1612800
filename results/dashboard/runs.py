"""The list of runs in a folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from population.candidate import short_id
from results.dashboard.rendering import render
from results.errors import RunError
from results.folder import runs_in
from results.reader import Reader
from results.terminal import state


def runs_page(folder: Path, frame: Mapping[str, Any]) -> bytes:
    """A page with a line for each run below ``folder``, and why those that can't be read are left out."""
    runs, unread = [], []
    for one in runs_in(folder):
        try:
            with Reader.open(one) as reader:
                info, best = reader.info(), reader.headline()
                final = reader.final(best.id) if best else None
        except RunError as error:
            unread.append(str(error))
            continue
        figures: Any = final.fitness if final is not None and final.fitness is not None else best
        runs.append({
            "folder": one.name, "info": info, "state": state(info), "best": best and short_id(best.id), "figures": figures,
            "verified": final is not None and final.verdict.value == "OK",
        })  # fmt: skip
    return render("runs.html", {
        **frame, "view": "runs", "title": "Runs", "run_name": "", "views": (), "scripts": (), "runs": runs, "unread": unread,
        "folder": folder,
    })  # fmt: skip
