"""The pages in use: keys, pointer, a run that grows, addresses that hold what is seen, very many rows."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from results.store import Store
from tests.browser.looks import opened, state, until
from tests.results.dashboard.many import write_many
from tests.results.dashboard.runs import KINDS, grow, identity

pytestmark = pytest.mark.browser


@pytest.fixture
def small(tmp_path: Path, serve: Callable[..., str]) -> str:
    """The address of a small run with a bit of everything."""
    KINDS["small"](tmp_path / "run")
    return serve(tmp_path / "run")


def test_the_tree_is_walked_by_keys(small: str, page: Any) -> None:
    opened(page, small + "lineage")
    page.locator(".stage").focus()
    page.keyboard.press("End")
    best = identity("child")[:16]
    assert state(page)["selected"] == best
    page.keyboard.press("ArrowLeft")
    assert state(page)["selected"] == identity("seed a")[:16]
    assert "step=0" in page.url
    page.keyboard.press("ArrowRight")
    assert state(page)["selected"] == best
    page.keyboard.press("ArrowRight")
    assert state(page)["selected"] != best
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/candidate/{best}")


def test_the_address_brings_back_what_was_seen(small: str, page: Any) -> None:
    opened(page, small + "lineage")
    page.get_by_role("button", name="attempts").click()
    page.get_by_role("button", name="speed").click()
    page.locator(".stage").focus()
    page.keyboard.press("End")
    address, chosen = page.url, state(page)["selected"]
    page.goto("about:blank")
    opened(page, address)
    assert state(page)["selected"] == chosen
    assert page.get_by_role("button", name="attempts").get_attribute("aria-pressed") == "true"
    assert page.get_by_role("button", name="speed").get_attribute("aria-pressed") == "true"


def test_families_are_hidden_and_shown(small: str, page: Any) -> None:
    opened(page, small + "progress")
    before = state(page)["drawnPoints"]
    wrong = page.locator("[data-family=wrong]")
    wrong.click()
    until(page, f"window.evolveState.drawnPoints === {before - 1}")
    assert "hide=wrong" in page.url
    wrong.click()
    until(page, f"window.evolveState.drawnPoints === {before}")


def test_zoom_pan_and_fit(small: str, page: Any) -> None:
    opened(page, small + "progress")
    view = "JSON.stringify(ask.figures.progress.view)"
    home = page.evaluate(view)
    box = page.locator(".stage").bounding_box()
    page.mouse.move(box["x"] + 600, box["y"] + 150)
    page.mouse.wheel(0, -400)
    until(page, f"{view} !== '{home}'")
    near = page.evaluate(view)
    page.mouse.down()
    page.mouse.move(box["x"] + 660, box["y"] + 170, steps=4)
    page.mouse.up()
    assert page.evaluate(view) != near
    page.get_by_role("button", name="Fit").click()
    assert page.evaluate(view) == home
    page.locator(".stage").focus()
    page.keyboard.press("+")
    assert page.evaluate(view) != home
    page.keyboard.press("0")
    assert page.evaluate(view) == home


def test_hovering_shows_the_question(small: str, page: Any) -> None:
    opened(page, small + "progress")
    at = page.evaluate(
        "() => { const f = ask.figures.progress; const box = f.stage.getBoundingClientRect();"
        " for (let x = 0; x < f.width; x += 3) for (let y = 0; y < f.height; y += 3)"
        " if (f.options.hit(x, y) === 2) return [box.x + x, box.y + y]; }"
    )
    page.mouse.move(*at)
    until(page, "document.querySelector('.tip blockquote')?.textContent === 'What does tile_size cost?'")


def test_tables_sort_and_filter(small: str, page: Any) -> None:
    opened(page, small + "questions")
    head = page.locator("#questions thead th", has_text="Asked")
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    asked = [int(text) for text in page.locator("#questions tbody td:nth-child(3)").all_inner_texts()]
    assert asked == sorted(asked)
    page.locator("#questions").locator("xpath=..").get_by_role("searchbox").fill("spills")
    assert page.locator("#questions tbody tr:visible").count() == 1
    page.goto("about:blank")
    page.go_back()
    page.wait_for_selector(".badge[data-live=live]")
    assert page.locator("#questions tbody tr:visible").count() == 1


def test_the_replay_goes_step_by_step(small: str, page: Any) -> None:
    opened(page, small + "replay")
    steps = page.locator("[data-step]:visible")
    assert steps.count() == 1
    page.locator("body").press("ArrowRight")
    assert page.locator(".replay-at").inner_text() == "2 of 2"
    assert page.url.endswith("#at=2")
    page.get_by_role("button", name="All steps").click()
    assert steps.count() == 2


def test_skip_link_leads_past_the_navigation(small: str, page: Any) -> None:
    opened(page, small)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("view", ["progress", "lineage"])
def test_a_run_grows_while_it_is_open(view: str, tmp_path: Path, serve: Callable[..., str], page: Any) -> None:
    KINDS["one_island"](tmp_path / "run")
    address = serve(tmp_path / "run")
    opened(page, address + view)
    page.evaluate("window.sameDocument = true")
    page.evaluate(f"ask.figures['{view}'].zoom(0.5, 0.5, 300, 200)")
    page.evaluate(f"ask.figures['{view}'].options.choose(1)")
    seen = page.evaluate(f"JSON.stringify(ask.figures['{view}'].view)")
    chosen = state(page)["selected"]
    with Store.open(tmp_path / "run") as store:
        text = "step 3"
        for number in range(10, 15):
            text = grow(store, number, text, 1.5 + number / 10)
    until(page, "window.evolveState.rows === 9")
    assert page.evaluate("window.sameDocument") is True
    assert page.evaluate(f"JSON.stringify(ask.figures['{view}'].view)") == seen
    assert state(page)["selected"] == chosen
    assert page.evaluate("ask.bestRows().at(-1)") == 8


def test_the_overview_tells_the_new_best_by_itself(tmp_path: Path, serve: Callable[..., str], page: Any) -> None:
    KINDS["one"](tmp_path / "run")
    opened(page, serve(tmp_path / "run"))
    assert page.locator("#best-ratio").inner_text().startswith("0.700")
    page.evaluate("window.sameDocument = true")
    with Store.open(tmp_path / "run") as store:
        grow(store, 1, "seed a", 1.25)
    until(page, "document.querySelector('#best-ratio').textContent.trim().startsWith('1.250')")
    assert page.evaluate("window.sameDocument") is True
    assert page.locator(".stage canvas").count() == 2


@pytest.mark.parametrize("view", ["progress", "lineage"])
def test_a_hundred_thousand_rows(view: str, tmp_path: Path, serve: Callable[..., str], page: Any) -> None:
    write_many(tmp_path / "run", 100_000)
    opened(page, serve(tmp_path / "run") + view)
    assert state(page)["rows"] == 100_000
    assert state(page)["drawnPoints"] == 100_000
    page.evaluate(f"ask.figures['{view}'].zoom(0.05, 0.05, 500, 200)")
    until(page, "window.evolveState.drawnPoints < 100000")
    assert re.fullmatch(r"[0-9a-f]{16}", page.evaluate("ask.idOf(99999) || ask.idOf(99998)"))
