"""Every view over every kind of run, in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from results.reader import Reader
from tests.browser.looks import VIEWS, inked, opened, state, until
from tests.results.dashboard.runs import HOSTILE, KINDS

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_view_of_every_kind_of_run(kind: str, tmp_path: Path, serve: Callable[..., str], page: Any) -> None:
    KINDS[kind](tmp_path / "run")
    with Reader.open(tmp_path / "run") as reader:
        steps, best = reader.info().steps, reader.headline()
    address = serve(tmp_path / "run")
    for view in VIEWS:
        opened(page, address + view)
        assert page.locator("h1").count() == 1
        if view in ("progress", "lineage"):
            assert state(page)["rows"] == steps
            assert state(page)["drawnPoints"] == steps
            assert inked(page) > 100
    if best is not None:
        opened(page, f"{address}candidate/{best.id[:16]}")
        assert best.id[:10] in page.locator("h1").inner_text()
        parent = (best.parent_id or "")[:16] if kind != "missing_parent" else ""
        opened(page, f"{address}compare?ids={best.id[:16]},{parent}")


def test_hostile_texts_stay_texts(tmp_path: Path, serve: Callable[..., str], page: Any) -> None:
    KINDS["hostile"](tmp_path / "run")
    address = serve(tmp_path / "run")
    for view in VIEWS:
        opened(page, address + view)
        assert page.locator("img").count() == 0
        assert page.locator("script:not([src])").count() == 0
    opened(page, address + "lineage#step=2")
    panel = page.locator(".panel")
    assert HOSTILE[:30] in panel.inner_text()
    shown = page.evaluate("ask.tipOf(2).textContent")
    assert HOSTILE[:30] in shown
    drawing = page.evaluate("ask.exportSvg('lineage')")
    wrong = "(text) => new DOMParser().parseFromString(text, 'image/svg+xml').querySelectorAll('parsererror, script, img').length"
    assert page.evaluate(wrong, drawing) == 0
    assert "'=cmd" in page.evaluate("ask.csv([['=cmd()']])")


def test_a_folder_of_runs_and_a_prefix(tmp_path: Path, serve: Callable[..., str], page: Any) -> None:
    for kind in ("small", "empty"):
        KINDS[kind](tmp_path / kind)
    address = serve(tmp_path, "/behind/a/proxy")
    page.goto(address)
    page.get_by_role("link", name="small").click()
    page.wait_for_selector(".badge[data-live=live]")
    for label in ("Progress", "Lineage", "Scenarios"):
        page.get_by_role("link", name=label, exact=True).click()
        until(page, "window.evolveState && window.evolveState.firstPaint_ms > 0")
        assert "/behind/a/proxy/run/small/" in page.url


def test_the_theme_is_kept_and_figures_follow_it(tmp_path: Path, serve: Callable[..., str], page: Any) -> None:
    KINDS["small"](tmp_path / "run")
    address = serve(tmp_path / "run")
    page.emulate_media(color_scheme="light")
    opened(page, address + "progress")
    light = page.evaluate("ask.colour('surface')")
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("ask.colour('surface')") != light
    opened(page, address + "lineage")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_every_figure_can_be_saved(tmp_path: Path, serve: Callable[..., str], page: Any) -> None:
    KINDS["small"](tmp_path / "run")
    address = serve(tmp_path / "run")
    for view in ("progress", "lineage", "scenarios", "archive"):
        opened(page, address + view)
        for kind, start in (("SVG", "<svg"), ("CSV", "")):
            with page.expect_download() as saving:
                page.locator(".tools-own").get_by_role("button", name=kind).click()
            text = Path(saving.value.path()).read_text()
            assert saving.value.suggested_filename == f"{view}.{kind.lower()}"
            assert text.startswith(start)
            assert len(text.split("\n")) > 1
