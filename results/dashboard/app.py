"""The dashboard as a web application. It reads runs and changes nothing; a question from a page goes to the run's mailbox."""

import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from results.dashboard.candidate import candidate_facts
from results.dashboard.columns import Columns
from results.dashboard.facts import FACTS, facts_of
from results.dashboard.guard import Guard, same_origin
from results.dashboard.outlook import Outlook, nothing_known
from results.dashboard.pages import candidate_page, live_frame, page
from results.dashboard.rendering import STATIC, render
from results.dashboard.runs import runs_page
from results.dashboard.stream import changes
from results.dashboard.tables import NAMES_OF_TABLES, table
from results.dashboard.view import RunView, Views, as_json
from results.dashboard.views import QUESTIONS, VIEWS, View
from results.errors import IdAmbiguous, IdUnknown, RunError, RunMissing
from results.reader import Reader

MOST_ASKED_BYTES = 64_000


class Ask(Protocol):
    """Puts a question to a run; ``parent`` are the first digits of a kernel's id, or ""."""

    def __call__(self, folder: Path, text: str, *, layer: str, parent: str) -> str:
        """Why the question isn't kept, "" where it is."""


def make_app(
    folder: Path,
    *,
    token: str | None = None,
    ask: Ask | None = None,
    outlook: Callable[[Reader, Columns], Outlook] = nothing_known,
) -> Starlette:
    """The application that shows the run in ``folder``, or all runs below it.

    Without a ``token`` it answers to loopback names only. ``ask`` lets visitors put questions and needs a token: ValueError.
    """
    if ask is not None and not token:
        raise ValueError("whoever may ask needs a token")
    views = Views(folder, outlook)
    site = Site(views, ask)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if views.single:  # read before the first visitor comes
            with contextlib.suppress(RunError):
                await run_in_threadpool(facts_of, views.view(), "run")
        yield
        views.close()

    routes = site.run_routes() if views.single else [Route("/", site.runs), *site.runs_routes()]
    app = Starlette(routes=routes, exception_handlers={RunError: site.failed, HTTPException: site.refused}, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.closing = False  # set when the server is about to stop, so that open streams end
    app.add_middleware(Guard, token=token)
    return app


class Site:
    """The handlers of requests. They run in threads, as reading a store and making a page take milliseconds of work."""

    def __init__(self, views: Views, ask: Ask | None) -> None:
        self._views = views
        self._ask = ask

    def run_routes(self) -> list[BaseRoute]:
        """The pages and data of one run."""
        pages = [Route("/" if one.name == "overview" else f"/{one.name}", self._page(one)) for one in VIEWS]
        return [
            *pages,
            Route("/candidate/{id}", self.candidate),
            Route("/data/columns", self.columns),
            Route("/data/events", self.events),
            Route("/data/candidate/{id}", self.candidate_data),
            Route("/data/{name}.csv", self.csv),
            Route("/data/{name}", self.data),
            Route("/ask", self.ask, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]

    def runs_routes(self) -> list[BaseRoute]:
        """The pages and data of each run below a folder."""
        return [Mount("/run/{run}", routes=self.run_routes()), Mount("/static", StaticFiles(directory=STATIC))]

    def columns(self, request: Request) -> Response:
        """The rows that are new or changed after event ``since``, as bytes."""
        return Response(self._view(request).wire(_number(request, "since")), media_type="application/octet-stream")

    def events(self, request: Request) -> Response:
        """A stream of the newest sequence number."""
        return changes(self._view(request), request)

    def data(self, request: Request) -> Response:
        """Facts as JSON."""
        name = request.path_params["name"]
        if name not in FACTS:
            raise HTTPException(404, f"There are no data named {name}; there are {', '.join(FACTS)}.")
        return Response(as_json(facts_of(self._view(request), name)), media_type="application/json")

    def csv(self, request: Request) -> Response:
        """The table behind a figure."""
        name = request.path_params["name"]
        if name not in NAMES_OF_TABLES:
            raise HTTPException(404, f"There is no table named {name}; there are {', '.join(NAMES_OF_TABLES)}.")
        body = table(self._view(request), name)
        return Response(body, media_type="text/csv", headers={"content-disposition": f'attachment; filename="{name}.csv"'})

    def candidate(self, request: Request) -> Response:
        """The page of a kernel."""
        return _html(candidate_page(self._view(request), request.path_params["id"], self._frame("../")))

    def candidate_data(self, request: Request) -> Response:
        """The facts of a kernel as JSON."""
        with self._view(request).sight() as sight:
            return Response(as_json(candidate_facts(sight, request.path_params["id"])), media_type="application/json")

    async def ask(self, request: Request) -> Response:
        """Put the question of a form to the run; back to the questions, which say what became of it."""
        if self._ask is None:
            raise HTTPException(403, "This server only shows. Start it with --ask to put questions from pages.")
        if not same_origin(request.headers):
            raise HTTPException(403, "A question is taken from a page of this server only.")
        fields = dict(parse_qsl((await _body(request)).decode("utf-8", "replace"), keep_blank_values=True))
        view = await run_in_threadpool(self._view, request)
        keep = partial(self._ask, view.folder, fields.get("text", ""), layer=fields.get("layer", ""))
        why_not = await run_in_threadpool(keep, parent=fields.get("parent", ""))
        if why_not:
            frame = {**self._frame("./"), "problem": why_not}
            return _html(await run_in_threadpool(page, view, QUESTIONS, {}, frame), 400)
        return RedirectResponse("./questions?said=kept", 303)

    def runs(self, request: Request) -> Response:
        """The list of runs."""
        return _html(runs_page(self._views.folder, self._frame("./")))

    def failed(self, request: Request, error: Exception) -> Response:
        """The page for something about a run that a person can act on."""
        missing = isinstance(error, RunMissing | IdUnknown)
        return self._sorry(request, str(error), 404 if missing else 400 if isinstance(error, IdAmbiguous) else 500)

    def refused(self, request: Request, error: Exception) -> Response:
        """The page for an address that leads nowhere."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = error.detail if isinstance(error, HTTPException) else ""
        return self._sorry(request, "There is no such page here." if detail == "Not Found" else detail, status)

    def _sorry(self, request: Request, text: str, status: int) -> Response:
        if "/data/" in request.url.path:
            return Response(as_json({"error": text}), status, media_type="application/json")
        frame = {"view": "error", "title": "Sorry", "run_name": "", "views": (), "scripts": (), "text": text}
        below = request.url.path.rpartition("/")[0].endswith("/candidate")
        return _html(render("error.html", {**self._frame("../" if below else "./"), **frame, "folder_link": False}), status)

    def _page(self, shown: View) -> Callable[[Request], Response]:
        def handler(request: Request) -> Response:
            return _html(page(self._view(request), shown, dict(request.query_params), self._frame("./")))

        return handler

    def _frame(self, root: str) -> dict[str, Any]:
        return live_frame(root, folder_link=not self._views.single, may_ask=self._ask is not None)

    def _view(self, request: Request) -> RunView:
        return self._views.view(request.path_params.get("run", ""))


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "0")
    return int(text) if text.isdecimal() and len(text) < 19 else 0


def _html(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="text/html")


async def _body(request: Request) -> bytes:
    """The body of a request, refused where it is longer than a question can be."""
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > MOST_ASKED_BYTES:
            raise HTTPException(413, "That is too long for a question.")
    return found
