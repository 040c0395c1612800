"""The dashboard from elsewhere: through an ssh tunnel, and behind a proxy that strips a prefix; live, with questions asked."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evolve.cli.dashboard import asking
from results.mailbox import Mailbox
from results.store import Store
from tests.browser.looks import opened, until
from tests.browser.ways import proxy, tunnel
from tests.results.dashboard.runs import KINDS, grow

pytestmark = pytest.mark.browser
TOKEN = "a-token-of-the-test"
WAYS = {"tunnel": tunnel, "proxy": lambda address: proxy(address, "/tools/kernels")}


@pytest.fixture(params=WAYS)
def away(request: pytest.FixtureRequest, tmp_path: Path, serve: Callable[..., str]) -> Iterator[str]:
    """Where a run's pages are seen from elsewhere; its visitors may ask."""
    KINDS["small"](tmp_path / "run")
    with WAYS[request.param](serve(tmp_path / "run", token=TOKEN, ask=asking()).removesuffix("/")) as address:
        yield address if address.endswith("/") else address + "/"


def test_every_view_opens_and_what_is_new_arrives(away: str, tmp_path: Path, page: Any) -> None:
    opened(page, f"{away}progress?token={TOKEN}")
    assert TOKEN not in page.url
    rows = page.evaluate("window.evolveState.rows")
    with Store.open(tmp_path / "run") as store:
        grow(store, 40, "seed a", 1.25)
    until(page, f"window.evolveState.rows > {rows}")
    for label in ("Overview", "Lineage", "Scenarios", "Questions"):
        page.get_by_role("link", name=label, exact=True).click()
        page.wait_for_selector(".badge[data-live=live]")
        assert page.url.startswith(away)


def test_a_question_is_taken(away: str, tmp_path: Path, page: Any) -> None:
    opened(page, f"{away}questions?token={TOKEN}")
    page.get_by_label("Your question").fill("Which wait would vanish?")
    page.get_by_role("button", name="Ask", exact=True).click()
    assert "next step" in page.locator(".said").inner_text()
    assert page.url == f"{away}questions?said=kept"
    assert [one.text for one in Mailbox(tmp_path / "run").asked()] == ["Which wait would vanish?"]
