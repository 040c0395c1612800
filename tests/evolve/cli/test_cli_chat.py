"""A search that a model answers, from the command line: it ends by its budget, goes on, and tells its key to nobody else."""

from pathlib import Path

import pytest

from evolve.cli.output import Exit
from tests.evolve.cli.conftest import CONFIG, Ask
from tests.mutators.chat_server import ChatServer, says

KEY = "sk-very-secret-1704"
CHAT = """
tokens = 40_000
[mutation]
answerer = "chat"
exhausted_after = 1000
[chat]
max_answer_tokens = 500
[[chat.models]]
name = "coder"
base_url = "{url}"
key_env = "CODER_KEY"
"""


def test_a_run_ends_by_tokens_and_goes_on(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODER_KEY", KEY)
    with ChatServer(says("no header")) as server:
        (tmp_path / "chat.toml").write_text(CONFIG + CHAT.format(url=server.url))
        first = ask("run", "chat.toml", "--json")
        before = len(server.handled.requests)
        again = ask("resume", "sim", "--set", "budget.tokens=80_000", "--json")
    assert (first.code, again.code) == (Exit.NOT_BEATEN, Exit.NOT_BEATEN)
    assert (first.document["stopped_by"], again.document["stopped_by"]) == ("tokens", "tokens")
    assert "the price of coder isn't known" in first.err
    assert "--set budget.tokens=80000" in first.err
    assert 0 < first.document["spent"]["tokens"] <= 40_000
    assert first.document["spent"]["tokens"] < again.document["spent"]["tokens"] <= 80_000
    assert 0 < before < len(server.handled.requests)
    assert {request.headers["authorization"] for request in server.handled.requests} == {f"Bearer {KEY}"}
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert KEY not in first.out + first.err + again.out + again.err


def test_a_missing_key_is_said_before_a_run_begins(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CODER_KEY", raising=False)
    (tmp_path / "chat.toml").write_text(CONFIG + CHAT.format(url="http://127.0.0.1:9/v1"))
    ran = ask("run", "chat.toml")
    assert ran.code == Exit.ENVIRONMENT
    assert "the environment variable CODER_KEY isn't set" in ran.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("old", "new", "says_"),
    [
        ("key_env =", "keyenv =", "unknown key 'keyenv' in [chat.models]; did you mean 'key_env'?"),
        ('"CODER_KEY"', f'"{KEY}"', "takes the name of an environment variable"),
        ('"CODER_KEY"', f'["{KEY}"]', "[chat] models.0.key_env: "),
        ("max_answer_tokens = 500", "max_answer_tokens = 0", "[chat] max_answer_tokens = 0: "),
    ],
)
def test_a_mistake_is_explained_without_the_key(ask: Ask, tmp_path: Path, old: str, new: str, says_: str) -> None:
    (tmp_path / "chat.toml").write_text((CONFIG + CHAT.format(url="http://127.0.0.1:9/v1")).replace(old, new))
    ran = ask("run", "chat.toml")
    assert ran.code == Exit.CONFIG
    assert says_ in ran.err
    assert KEY not in ran.err


def test_a_server_that_is_down_is_said_once_and_plainly(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODER_KEY", KEY)
    once = CHAT.format(url="http://127.0.0.1:9/v1").replace("[chat]", "[chat]\ntries = 1")
    (tmp_path / "chat.toml").write_text(CONFIG + once)
    ran = ask("run", "chat.toml")
    assert ran.code == Exit.ENVIRONMENT
    assert ran.err.count("no model answers") == 1
    assert ran.err.splitlines()[-1] == (
        "askevolve: step 2 got no answer: no model answers (coder at http://127.0.0.1:9/v1: 1 call failed, the last with: "
        "connection lost: Connection refused). Bring a server back, then resume. Nothing stored is lost: "
        "askevolve resume runs/sim"
    )
    assert "AnswererPaused" not in ran.err
