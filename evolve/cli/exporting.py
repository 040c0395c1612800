"""The command that hands a kernel over as a package."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evolve.cli.inspecting import Run, resolved
from evolve.cli.output import CommandError, Exit, say


class Format(StrEnum):
    """What an exported kernel is written as."""

    TORCH = "torch"


def export(
    run: Run,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write, not there yet.", show_default=False)],
    candidate: Annotated[
        str, typer.Option("--id", metavar="ID", help="A candidate's id or its first digits, or 'best'.")
    ] = "best",
    form: Annotated[Format, typer.Option("--format", help="A package that pip installs, with a torch operator.")] = Format.TORCH,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the package.", show_default=False)] = None,
) -> None:
    """Export a verified kernel as a package.

    The kernel needs a final of this harness, task and machine; without one, `askevolve final RUN ID` makes it.
    """
    import re

    from evolve.exporting import gather
    from results.export.writer import write_torch
    from results.folder import find_run
    from results.reader import Reader

    if name is not None and not re.fullmatch(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*", name):
        raise CommandError(f"--name {name}: use lower-case letters, digits, '-' and '_', beginning with a letter", Exit.USAGE)
    if folder.exists():
        raise CommandError(f"{folder} is already there; name a folder that isn't", Exit.USAGE)
    with Reader.open(find_run(run)) as reader:
        spec = gather(reader, resolved(reader, candidate), name)
    write_torch(spec, folder)
    say(f"wrote {spec.name} {spec.version} to {folder}: pip install --no-deps {folder}, then python -m {spec.module}.verify")
