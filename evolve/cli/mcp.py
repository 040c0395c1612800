"""The command that serves the search to coding agents."""

from pathlib import Path
from typing import Annotated

import typer

from evolve.cli.output import CommandError, Exit


def mcp(root: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of runs.")] = Path("runs")) -> None:
    """Serve next, answer, evaluate, status, show to a coding agent.

    Speaks the Model Context Protocol on standard input and output; an MCP client starts this command itself (docs/models.md).
    """
    try:
        from evolve.mcp_server import mcp_server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "mcp":
            raise
        raise CommandError(
            "the package mcp isn't installed; install it: pip install 'askevolve[mcp]'", Exit.ENVIRONMENT
        ) from None
    mcp_server(root.absolute()).run("stdio")
