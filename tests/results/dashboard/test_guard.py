"""Who may look at the dashboard, who may ask, and what a page may do."""

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from results.dashboard.app import make_app

Browse = Callable[..., TestClient]
Made = Callable[[str], Path]
TOKEN = "a token"


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:1", "[::1]:8000", "localhost"])
def test_this_machine_reaches_it_by_its_own_names(made: Made, browse: Browse, host: str) -> None:
    assert browse(made("one")).get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "", "10.0.0.7:8000"])
def test_a_site_that_points_its_name_here_gets_nothing(made: Made, browse: Browse, host: str) -> None:
    for path in ("/", "/data/columns", "/static/none.js"):
        assert browse(made("one")).get(path, headers={"host": host}).status_code == 403


def test_with_a_token_nobody_looks_without_it(made: Made, browse: Browse) -> None:
    client = browse(made("one"), token=TOKEN)
    for path in ("/", "/data/columns", "/data/run", "/questions", "/?token=", "/?token=another"):
        assert client.get(path).status_code == 401
    assert client.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/", headers={"authorization": "Bearer another"}).status_code == 401
    assert client.get("/", headers={"host": "gpu.example"}).status_code == 401


def test_the_token_is_taken_out_of_the_address(made: Made, browse: Browse) -> None:
    client = browse(made("one"), token=TOKEN)
    answer = client.get("/compare", params={"ids": "a,b", "token": TOKEN})
    assert answer.status_code == 303
    assert answer.headers["location"] == "./compare?ids=a%2Cb"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert client.get("/").status_code == 200
    other = browse(made("one"), token="another")
    other.cookies = client.cookies
    assert other.get("/").status_code == 401


def test_every_answer_forbids_what_a_hostile_text_could_use(made: Made, browse: Browse) -> None:
    client = browse(made("hostile"))
    for path in ("/", "/data/run", "/nothing", "/data/columns", "/candidate/zz"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'" in policy
        assert "unsafe" not in policy
    assert browse(made("one")).get("/", headers={"host": "evil.example"}).headers["x-content-type-options"] == "nosniff"


class Asker:
    """Keeps what is asked; refuses what it is told to."""

    def __init__(self, why_not: str = "") -> None:
        self.kept: list[tuple[Path, str, str, str]] = []
        self.why_not = why_not

    def __call__(self, folder: Path, text: str, *, layer: str, parent: str) -> str:
        self.kept.append((folder, text, layer, parent))
        return self.why_not


ASKED = {"text": "What <b> limits it?", "layer": "memory", "parent": "ab"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


def test_a_question_of_a_visitor_reaches_the_run(made: Made, browse: Browse) -> None:
    asker = Asker()
    client = browse(made("small"), token=TOKEN, ask=asker)
    headers = {**BEARER, "origin": "http://127.0.0.1:8000"}
    assert "<textarea" in client.get("/questions", headers=BEARER).text
    answer = client.post("/ask", data=ASKED, headers=headers)
    assert (answer.status_code, answer.headers["location"]) == (303, "./questions?said=kept")
    assert asker.kept == [(made("small"), "What <b> limits it?", "memory", "ab")]
    assert "is in the mailbox" in client.get("/questions?said=kept", headers=BEARER).text


def test_why_a_question_is_not_kept_is_said(made: Made, browse: Browse) -> None:
    client = browse(made("small"), token=TOKEN, ask=Asker("it <i>says</i> nothing"))
    answer = client.post("/ask", data=ASKED, headers={**BEARER, "origin": "http://127.0.0.1:8000"})
    assert answer.status_code == 400
    assert "it &lt;i&gt;says&lt;/i&gt; nothing" in answer.text


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:9", "null"])
def test_no_other_site_asks(made: Made, browse: Browse, origin: str) -> None:
    asker = Asker()
    client = browse(made("small"), token=TOKEN, ask=asker)
    assert client.post("/ask", data=ASKED, headers={**BEARER, "origin": origin}).status_code == 403
    assert client.post("/ask", data=ASKED, headers={**BEARER, "sec-fetch-site": "cross-site"}).status_code == 403
    assert client.post("/ask", data=ASKED, headers={"origin": "http://127.0.0.1:8000"}).status_code == 401
    assert client.post("/ask", data={"text": "x" * 70_000}, headers=BEARER).status_code == 413
    assert asker.kept == []


def test_nobody_asks_where_it_is_off(made: Made, browse: Browse) -> None:
    client = browse(made("small"))
    assert "<textarea" not in client.get("/questions").text
    assert client.post("/ask", data=ASKED).status_code == 403
    with pytest.raises(ValueError, match="token"):
        make_app(made("small"), ask=Asker())
