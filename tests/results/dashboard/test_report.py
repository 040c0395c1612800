"""A report: one folder of pages that open from disk."""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from results.dashboard.report import write_report
from results.dashboard.views import VIEWS
from tests.results.dashboard.runs import KINDS
from tests.results.dashboard.test_app import Page

Made = Callable[[str], Path]


def handed_over(script: Path) -> dict[str, object]:
    """What a script of data assigns to window.ASK_DATA."""
    found = re.findall(r"^window\.ASK_DATA\.(\w+) = (.*);$", script.read_text(), re.MULTILINE)
    return {name: json.loads(text) for name, text in found}


@pytest.mark.parametrize("kind", KINDS)
def test_every_link_of_a_report_leads_to_a_file_of_it(made: Made, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "report"
    written = write_report(made(kind), target)
    pages = sorted(target.rglob("*.html"))
    assert written.pages == len(pages) >= len(VIEWS) + 1
    assert written.bytes == sum(one.stat().st_size for one in target.rglob("*") if one.is_file())
    for place in pages:
        page = Page(place.read_text())
        assert page.open == []
        for link in page.links:
            if link.startswith(("data:", "#")):
                continue
            path = link.partition("#")[0].partition("?")[0]
            assert not path.startswith(("/", "http")), link
            if "static/" not in path:
                assert (place.parent / path).is_file(), (place.name, link)


def test_its_data_are_those_of_the_server(made: Made, tmp_path: Path) -> None:
    write_report(made("small"), tmp_path)
    columns = handed_over(tmp_path / "data" / "columns.js")["columns"]
    assert isinstance(columns, str)
    header = json.loads(base64.b64decode(columns).partition(b"\n")[0])
    assert header["rows"] == 7
    run = handed_over(tmp_path / "data" / "run.js")
    assert run["run"]["name"] == "first"  # type: ignore[index]
    kernels = handed_over(tmp_path / "data" / "candidates.js")["candidates"]
    assert set(run["pages"]) <= set(kernels)  # type: ignore[call-overload, arg-type]
    assert (tmp_path / "data" / "steps.csv").read_text().startswith("number,parent,")


def test_most_kernels_of_a_large_run_have_no_page(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("results.dashboard.report.MOST_PAGES", 5)
    write_report(made("thousand"), tmp_path)
    assert len(list((tmp_path / "candidate").iterdir())) == 5
    assert "candidate.html#" in (tmp_path / "progress.html").read_text()
