"""The form that puts a question to a run, in a real browser with a token."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evolve.cli.dashboard import asking
from population.candidate import short_id
from results.mailbox import Mailbox
from tests.browser.looks import opened
from tests.results.dashboard.runs import KINDS, identity

pytestmark = pytest.mark.browser
TOKEN = "a-token-of-the-test"
QUESTION = 'Which wait would vanish if <b>v</b> came "one tile" earlier?'


@pytest.fixture
def asked_at(tmp_path: Path, serve: Callable[..., str]) -> str:
    """The address of a small run behind a prefix, whose visitors may ask."""
    KINDS["small"](tmp_path / "run")
    return serve(tmp_path / "run", "/behind/a/proxy", token=TOKEN, ask=asking())


def test_a_question_goes_from_the_form_to_the_mailbox(asked_at: str, tmp_path: Path, page: Any) -> None:
    opened(page, f"{asked_at}questions?token={TOKEN}")
    assert TOKEN not in page.url
    page.get_by_label("Your question").fill(QUESTION)
    page.get_by_label("Layer", exact=True).select_option("memory")
    page.get_by_label("About kernel").fill(short_id(identity("child")))
    page.get_by_role("button", name="Ask", exact=True).click()
    assert "next step" in page.locator(".said").inner_text()
    assert page.url == f"{asked_at}questions?said=kept"
    [kept] = Mailbox(tmp_path / "run").asked()
    assert (kept.text, kept.layer.value, kept.parent_id, kept.person) == (QUESTION, "memory", identity("child"), "dashboard")
    assert QUESTION in page.locator("section[aria-labelledby=people-title]").inner_text()


def test_an_empty_question_is_not_sent(asked_at: str, tmp_path: Path, page: Any) -> None:
    opened(page, f"{asked_at}questions?token={TOKEN}")
    page.get_by_role("button", name="Ask", exact=True).click()
    assert page.evaluate("document.activeElement.id") == "ask-text"
    assert page.url == f"{asked_at}questions"
    assert Mailbox(tmp_path / "run").asked() == ()


def test_there_is_no_form_without_leave(tmp_path: Path, serve: Callable[..., str], page: Any) -> None:
    KINDS["small"](tmp_path / "run")
    opened(page, serve(tmp_path / "run") + "questions")
    assert page.get_by_label("Your question").count() == 0
    assert "--ask" in page.locator("main").inner_text()
