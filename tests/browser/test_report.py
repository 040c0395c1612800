"""The written report, opened from disk: every figure works without a server."""

from pathlib import Path
from typing import Any

import pytest

from results.dashboard.report import write_report
from results.reader import Reader
from tests.browser.lively import lively
from tests.browser.looks import VIEWS, inked, state, until
from tests.results.dashboard.many import write_many
from tests.results.dashboard.runs import KINDS

pytestmark = pytest.mark.browser


def written(folder: Path, target: Path) -> str:
    """The address of the report's folder on disk."""
    write_report(folder, target)
    return target.as_uri() + "/"


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_page_opens_from_disk(kind: str, tmp_path: Path, page: Any) -> None:
    KINDS[kind](tmp_path / "run")
    address = written(tmp_path / "run", tmp_path / "report")
    with Reader.open(tmp_path / "run") as reader:
        steps = reader.info().steps
    for view in VIEWS:
        page.goto(f"{address}{view or 'index'}.html")
        assert page.locator("h1").count() == 1
        if view in ("progress", "lineage"):
            until(page, f"window.evolveState.drawnPoints === {steps}")
            assert inked(page) > 100


def test_figures_of_a_report(tmp_path: Path, page: Any) -> None:
    lively(tmp_path / "run", steps=60)
    address = written(tmp_path / "run", tmp_path / "report")
    for view in ("scenarios", "archive"):
        page.goto(f"{address}{view}.html")
        until(page, "window.evolveState.drawnPoints > 0")
    page.goto(f"{address}lineage.html")
    page.locator(".stage").focus()
    page.keyboard.press("End")
    until(page, "document.querySelector('.panel blockquote').textContent.includes(' ')")
    chosen = state(page)["selected"]
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{chosen}*")


def test_sources_are_put_together_from_changes(tmp_path: Path, page: Any) -> None:
    write_many(tmp_path / "run", 1000)
    address = written(tmp_path / "run", tmp_path / "report")
    with Reader.open(tmp_path / "run") as reader:
        found = [reader.candidate(row.id) for row in reader.candidates(order="fitness", limit=900)]
    bare = [one for one in found if not (tmp_path / "report/candidate" / f"{one.id[:16]}.html").exists()]
    paged = [one for one in found if one not in bare]
    assert bare
    for one in bare[:: max(1, len(bare) // 5)]:
        page.goto("about:blank")
        page.goto(f"{address}candidate.html#{one.id[:16]}")
        assert shown_source(page) == one.source
        assert page.locator(".diff .new").count() > 0
    page.goto(f"{address}candidate/{paged[0].id[:16]}.html")
    assert shown_source(page) == paged[0].source


def shown_source(page: Any) -> str:
    """The source that the page shows, without its line numbers."""
    text: str = page.evaluate("[...document.querySelectorAll('.source [data-line]')].map((one) => one.textContent).join('\\n')")
    return text
