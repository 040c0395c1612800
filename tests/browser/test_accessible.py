"""Every view by axe-core, dark and light."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from results.reader import Reader
from tests.browser.lively import lively
from tests.browser.looks import VIEWS, opened
from tests.results.dashboard.runs import KINDS

pytestmark = pytest.mark.browser
AXE = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe isn't installed: pip install 'askevolve[browser]'")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(theme: str, tmp_path: Path, serve: Callable[..., str], page: Any) -> None:
    lively(tmp_path / "run", steps=60)
    with Reader.open(tmp_path / "run") as reader:
        best = reader.headline()
    assert best is not None
    address = serve(tmp_path / "run")
    page.emulate_media(color_scheme=theme)
    views = [*VIEWS, f"candidate/{best.id[:16]}", f"compare?ids={best.id[:16]},{(best.parent_id or '')[:16]}"]
    found = [problem for view in views for problem in violations(page, address + view)]
    assert not found, "\n".join(found)


def test_axe_finds_nothing_in_an_empty_run(tmp_path: Path, serve: Callable[..., str], page: Any) -> None:
    KINDS["empty"](tmp_path / "run")
    address = serve(tmp_path / "run")
    found = [problem for view in VIEWS for problem in violations(page, address + view)]
    assert not found, "\n".join(found)


def violations(page: Any, address: str) -> list[str]:
    """What axe says against a page, a line each."""
    opened(page, address)
    said = AXE.Axe().run(page).response["violations"]
    return [f"{address} {one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:3]]}" for one in said]
