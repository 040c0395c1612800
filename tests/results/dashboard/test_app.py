"""The pages and data of every view over runs of every kind, by HTTP."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from population.candidate import hash_text
from results.dashboard.facts import FACTS
from results.dashboard.tables import NAMES_OF_TABLES
from results.dashboard.views import VIEWS
from results.store import Store
from tests.results.dashboard.runs import HOSTILE, KINDS, grow
from tests.results.makers import fill, started

Browse = Callable[..., TestClient]
Made = Callable[[str], Path]
VOID = {"meta", "link", "input", "br", "img", "hr"}


class Page(HTMLParser):
    """A page as a browser would take it: tags that are open, links, ids, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.words = ""
        self.tags: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.add(tag)
        assert not [name for name in found if name.startswith("on") or name == "style"], (tag, found)
        self.links += [value for name in ("href", "src", "action") if (value := found.get(name))]
        self.ids += [value for name in ("id",) if (value := found.get(name))]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def looked(client: TestClient, path: str) -> Page:
    """The page at a path, which must be whole: tags closed, ids once, no address of another host, no script of its own."""
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    page = Page(answer.text)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids)), sorted(page.ids)
    assert not [link for link in page.links if re.match(r"[a-z]+:|/", link) and link != "data:,"]
    assert re.search(r"<script(?! src=)", answer.text) is None
    return page


@pytest.mark.parametrize("kind", KINDS)
def test_every_view_of_every_kind_of_run(made: Made, browse: Browse, kind: str) -> None:
    client = browse(made(kind))
    for view in VIEWS:
        page = looked(client, "/" if view.name == "overview" else f"/{view.name}")
        assert "None" not in page.words.split(), view.name
    for name in FACTS:
        answer = client.get(f"/data/{name}")
        assert answer.headers["content-type"] == "application/json"
        assert "NaN" not in answer.text
    for name in NAMES_OF_TABLES:
        assert client.get(f"/data/{name}.csv").headers["content-type"].startswith("text/csv")


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"empty"}))
def test_kernels_and_comparisons(made: Made, browse: Browse, kind: str) -> None:
    client = browse(made(kind))
    data = client.get("/data/steps.csv").text.splitlines()
    ids = [key for key in dict.fromkeys(line.rpartition(",")[2] for line in data[1:]) if key][:3]
    for key in ids:
        looked(client, f"/candidate/{key}")
        assert client.get(f"/data/candidate/{key}").json()["id"].startswith(key)
        looked(client, f"/lineage?id={key}")
    looked(client, f"/compare?ids={','.join(ids)}")


def test_the_overview_says_how_far_and_whether_to_believe_it(made: Made, browse: Browse) -> None:
    page = looked(browse(made("small")), "/")
    for words in ("1.450\N{MULTIPLICATION SIGN}", "Verified by a final", "What to do next", "show first best --source"):
        assert words in page.words
    words = looked(browse(made("refuted")), "/").words
    assert "1.000\N{MULTIPLICATION SIGN}" in words
    assert "Not verified" in words
    assert "doesn't hold" in looked(browse(made("missing_parent")), "/").words


def test_hostile_texts_are_shown_and_do_nothing(made: Made, browse: Browse) -> None:
    client = browse(made("hostile"))
    shown = HOSTILE.replace("\ud800", "\\ud800")
    for path in ("/questions", "/failures", f"/candidate/{hash_text(HOSTILE + ' 1')}", "/replay", "/scenarios", "/arms"):
        page = looked(client, path)
        assert not page.tags & {"img", "iframe", "svg"}
        assert "alert(1)" in page.words, path
    assert shown in looked(client, "/questions").words
    assert "49" not in looked(client, "/questions").words.split()
    cells = client.get("/data/failures.csv").text
    assert not re.search(r"(^|,)[=+@-]", cells, re.MULTILINE)


def test_questions_can_be_narrowed_and_paged(made: Made, browse: Browse) -> None:
    client = browse(made("thousand"))
    page = looked(client, "/questions")
    assert "100 of " in page.words
    assert "page=1" in " ".join(page.links)
    looked(client, "/questions?page=1")
    narrow = looked(client, "/questions?entry=entry_3&layer=instruction")
    assert narrow.words.count("Question 3:") >= 2
    assert "Question 4:" not in narrow.words.partition("Asked, newest first")[2]
    looked(client, "/questions?page=nonsense")


def test_what_is_not_there_is_said(made: Made, browse: Browse) -> None:
    client = browse(made("small"))
    for path, status in (("/candidate/ffff", 404), ("/nothing", 404), ("/compare?ids=zz", 404), ("/run/first/", 404)):
        answer = client.get(path)
        assert answer.status_code == status
        assert "Sorry" in answer.text
    assert client.get("/data/nothing").json()["error"].startswith("There are no data named nothing")
    assert client.get("/data/candidate/ffff").status_code == 404
    assert client.get("/data/nothing.csv").status_code == 404
    assert client.get("/data/columns?since=x").status_code == 200
    assert client.post("/").status_code == 405


def test_a_folder_shows_its_runs(tmp_path: Path, browse: Browse) -> None:
    for name in ("a", "b"):
        KINDS["small"](tmp_path / name)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "run.db").write_bytes(b"this is no store, but it is long enough to look like a file")
    client = browse(tmp_path)
    page = looked(client, "/")
    assert "run/a/" in page.links
    assert "Left out" in page.words
    for path in ("/run/a/", "/run/b/questions", f"/run/a/candidate/{hash_text('child')}"):
        looked(client, path)
    assert client.get("/run/a/data/columns").content
    assert client.get("/run/none/").status_code == 404
    assert client.get("/run/..%2Fa/").status_code == 404
    assert client.get("/run/c/").status_code == 500


def test_a_page_sees_what_was_stored_since(folder: Path, browse: Browse) -> None:
    with Store.create(folder, started()) as store:
        fill(store)
        client = browse(folder)
        assert "running" in looked(client, "/").words
        grow(store, 7, "child", 3.0)
        assert client.get("/data/run").json()["steps"] == 8
        assert "3.000\N{MULTIPLICATION SIGN}" in looked(client, "/progress").words
        store.append()
    assert "interrupted" in looked(client, "/").words


def test_a_run_that_nobody_may_write_to(folder: Path, browse: Browse) -> None:
    KINDS["small"](folder)
    before = sorted((one.name, one.read_bytes()) for one in folder.iterdir() if one.suffix == ".db")
    folder.chmod(0o555)
    try:
        looked(browse(folder), "/")
    finally:
        folder.chmod(0o755)
    assert sorted((one.name, one.read_bytes()) for one in folder.iterdir() if one.suffix == ".db") == before
