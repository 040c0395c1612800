"""Commands that show runs in a browser: dashboard, report."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from evolve.cli.inspecting import Run
from evolve.cli.output import CommandError, Exit, say, write

PACKAGES = ("starlette", "uvicorn", "jinja2")
"""What the extra ``dashboard`` installs."""


def dashboard(
    where: Annotated[str, typer.Argument(metavar="RUN|FOLDER", help="A run, or a folder of runs.", show_default=False)] = "runs",
    host: Annotated[str, typer.Option(help="Address to listen at; others than this machine's own need a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0: one that is free.")] = 0,
    ask: Annotated[bool, typer.Option("--ask", help="Let visitors put questions to the running search; needs a token.")] = False,
    token: Annotated[
        str | None, typer.Option(help="Who opens pages must bring it; made up where one is needed.", show_default=False)
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in this machine's browser.")] = False,
) -> None:
    """Show a run in a browser.

    Reads only, while the search runs or after. ctrl-C stops it. From another machine: the address with an ssh tunnel is printed.
    """
    with _extra():
        from evolve.outlook import outlook
        from results.dashboard.app import make_app
        from results.dashboard.guard import LOOPBACK
        from results.dashboard.serve import address_of, listening, serve, tunnel_to
    import secrets

    folder = _folder(where)
    if token is None and (ask or host not in LOOPBACK):
        token = secrets.token_urlsafe(18)
    app = make_app(folder, token=token, ask=asking() if ask else None, outlook=outlook)
    try:
        listener = listening(host, port)
    except OSError as error:
        raise CommandError(
            f"port {port} of {host} can't be listened at ({error.strerror or error}); choose another with --port",
            Exit.ENVIRONMENT,
        ) from None
    address = address_of(listener, token)

    def ready() -> None:
        write([f"dashboard of {folder}: {address}"])
        say(f"from another machine: {tunnel_to(listener)}, then open the same address there; ctrl-C stops the server")
        if open_page:
            import webbrowser

            webbrowser.open(address)

    serve(app, listener, ready)


def report(
    run: Run,
    target: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder to write into.", show_default=False)],
) -> None:
    """Write a run as a folder of pages.

    They open from disk without a server, with every figure working.
    """
    with _extra():
        from evolve.outlook import outlook
        from results.dashboard.report import write_report
    from results.folder import find_run

    folder = find_run(run)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandError(f"{target} is there and not an empty folder; name a new one, nothing is overwritten", Exit.USAGE)
    written = write_report(folder, target, outlook=outlook)
    write([f"{written.pages} pages, {written.bytes / 1e6:.1f} MB: {target / 'index.html'}"])


def _folder(where: str) -> Path:
    """The run, or the folder of runs, that a person named."""
    from results.folder import find_run, holds_run

    given = Path(where)
    return given if given.is_dir() and not holds_run(given) else find_run(where)


def asking() -> Any:
    """Puts a visitor's question to a run; why it isn't kept, or ""."""
    from evolve.answering import AnswerRefused, ask_run
    from mutators.question import Layer
    from results.errors import RunError

    def ask(folder: Path, text: str, *, layer: str, parent: str) -> str:
        try:
            known = Layer(layer) if layer in set(Layer) else Layer.ALGORITHM
            ask_run(folder, text, person="dashboard", layer=known, parent=parent.strip() or None)
        except (AnswerRefused, RunError) as error:
            return str(error)
        return ""

    return ask


@contextmanager
def _extra() -> Iterator[None]:
    """Within it, a package of the extra that isn't installed becomes a CommandError that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in PACKAGES:
            raise
        raise CommandError(
            f"the package {error.name} isn't installed; install it: pip install 'askevolve[dashboard]'", Exit.ENVIRONMENT
        ) from None
