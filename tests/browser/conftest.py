"""A browser, servers to open in it, and pages that fail their test on any error or any request to another host."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
START_S = 20.0


def browser_path() -> str | None:
    """This machine's Chromium; None where there is none."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium of this machine; skips where it or Playwright is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright isn't installed: pip install 'askevolve[browser]'")
    path = browser_path()
    if path is None:
        pytest.skip("Chromium isn't installed")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def served(folder: Path, prefix: str = "", **options: Any) -> Iterator[str]:
    """The address of the dashboard of ``folder`` below ``prefix``, while a server shows it; ``options`` are those of make_app."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from results.dashboard.app import make_app
    from results.dashboard.serve import listening

    app = make_app(folder, **options)
    outer = Starlette(routes=[Mount(prefix, app)]) if prefix else app
    listener = listening("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(outer, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until = time.monotonic() + START_S
    while not server.started:
        assert thread.is_alive(), "the server didn't start"
        assert time.monotonic() < until, "the server took too long to start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}{prefix}/"
    finally:
        app.state.closing = True
        server.should_exit = True
        thread.join(START_S)


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Shows a run, or a folder of runs, until the test ends; gives its address."""
    with ExitStack() as open_servers:
        yield lambda folder, prefix="", **options: open_servers.enter_context(served(folder, prefix, **options))


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """An empty page of 1440 x 900. The test fails if anything in it errs, asks, or reaches for another host."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    found = context.new_page()
    found.set_default_timeout(30_000)
    wrong: list[str] = []
    found.on("console", lambda said: said.type in ("error", "warning") and wrong.append(f"{said.text} ({said.location})"))
    found.on("pageerror", lambda error: wrong.append(f"{error}\n{error.stack}"))
    found.on("dialog", lambda dialog: (wrong.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
    found.on("request", lambda request: is_ours(request.url) or wrong.append(f"a request to {request.url}"))
    yield found
    context.close()
    assert not wrong, "\n".join(wrong)


def is_ours(url: str) -> bool:
    """Whether a request stays on this machine."""
    return url.startswith(("http://127.0.0.1:", "http://localhost:", "file:///", "data:", "blob:", "about:"))
