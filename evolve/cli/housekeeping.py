"""Commands that clean up: gc."""

import time
from pathlib import Path
from typing import Annotated

import typer

from evolve.cli.inspecting import Json
from evolve.cli.output import CommandError, Exit, print_json, write


def gc(
    max_gb: Annotated[float, typer.Option(metavar="GB", min=0.0, help="Keep at most this much, newest first.")] = 2.0,
    cache: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Cache folder; by default the user's.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Shrink the build cache.

    Runs are never touched: a run's folder that you no longer want can simply be deleted.
    """
    from dataclasses import asdict

    from evaluator.cache import BuildCache, default_folder

    folder = cache or default_folder()
    try:
        collected = BuildCache(folder).gc(round(max_gb * 1e9), time.time())
    except OSError as error:
        raise CommandError(f"{folder}: {error.strerror}; give another folder by --cache", Exit.ENVIRONMENT) from None
    if as_json:
        print_json({"cache": str(folder), **asdict(collected)})
    else:
        removed, kept = (f"{n} builds ({size / 1e6:.1f} MB)" for n, size in (
            (collected.removed, collected.removed_bytes), (collected.kept, collected.kept_bytes)))  # fmt: skip
        write([f"{folder}: removed {removed}, kept {kept}"])
