"""What tests ask a page of the dashboard."""

import time
from typing import Any

VIEWS = ("", "progress", "lineage", "questions", "scenarios", "archive", "failures", "replay", "compare", "arms")


WAIT_S = 30.0


def until(page: Any, expression: str) -> None:
    """Wait until an expression is true in the page. (Playwright's own waiting evaluates texts, which the policy forbids.)"""
    end = time.monotonic() + WAIT_S
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(20)


def opened(page: Any, address: str) -> None:
    """Open an address and wait until its figures are drawn, if it has any, and the page says that it is up to date."""
    answer = page.goto(address)
    assert answer is None or answer.status == 200, f"{address}: {answer.status}"
    page.wait_for_selector(".badge[data-live=live]")
    until(
        page,
        "[...document.querySelectorAll('[data-chart]')].every((one) => one.querySelector('.empty') || "
        "(one.querySelector('canvas') && window.evolveState.firstPaint_ms > 0))",
    )


def state(page: Any) -> dict[str, Any]:
    """What the scripts say of themselves."""
    found: dict[str, Any] = page.evaluate("window.evolveState")
    return found


def inked(page: Any) -> int:
    """How many pixels of the first figure hold anything."""
    count: int = page.evaluate(
        "() => { const c = document.querySelector('.stage canvas');"
        " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " let n = 0; for (let k = 3; k < d.length; k += 4) n += d[k] > 0; return n; }"
    )
    return count
