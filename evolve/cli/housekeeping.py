"""Commands that clean up: gc."""

import time
from pathlib import Path
from typing import Annotated

import typer

from evolve.cli.inspecting import Json
from evolve.cli.output import print_json, write


def gc(
    max_gb: Annotated[float, typer.Option(min=0.0, help="Keep at most this much, newest first.")] = 2.0,
    cache: Annotated[Path | None, typer.Option(help="Cache folder; by default the user's.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Shrink the build cache. Runs are never touched: a run folder that you no longer want can simply be deleted."""
    from dataclasses import asdict

    from evaluator.cache import BuildCache, default_folder

    folder = cache or default_folder()
    collected = BuildCache(folder).gc(round(max_gb * 1e9), time.time())
    if as_json:
        print_json({"cache": str(folder), **asdict(collected)})
    else:
        write([f"{folder}: " + ", ".join(f"{name} {value}" for name, value in asdict(collected).items())])
