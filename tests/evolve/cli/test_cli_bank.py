"""The commands on the question bank."""

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evolve.cli.banking import app
from evolve.cli.output import CommandError
from mutators.bank import load_bank
from mutators.question import Layer
from mutators.record_file import FILE_NAME, Asked, RunRecords, remember
from mutators.records import Record

TEXT = "Which of the {launches} launches waits for all blocks of the one before it, and why?"


def ask(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def refused(*words: str) -> str:
    result = ask(*words)
    assert isinstance(result.exception, CommandError)
    return f"{result.exception.code.value} {result.exception}"


def test_list_shows_all_questions_and_narrows_them() -> None:
    assert len(json.loads(ask("list", "--json").stdout)["questions"]) == len(load_bank())
    rows = json.loads(ask("list", "--layer", "plan", "--moment", "failure", "--json").stdout)["questions"]
    assert {row["id"] for row in rows} == {"what-the-message-contradicts", "what-this-shape-breaks", "same-end-again"}
    shown = ask("list", "--backend", "cpu", "--layer", "schedule").stdout
    assert "innermost-loop  (schedule; routine, stall; cpu only)" in shown
    assert "who-waits" not in shown
    assert refused("list", "--layer", "tea").startswith("2 --layer tea: write one of algorithm")


def test_lint_names_what_is_wrong(tmp_path: Path) -> None:
    assert ask("lint").exit_code == 0
    own = tmp_path / "questions.toml"
    own.write_text(
        '[[question]]\nid = "x"\nlayer = "plan"\nmoments = ["stall"]\ntext = "Use more registers, please?"\nsettle = "time"\n'
    )
    result = ask("lint", str(own))
    assert f"{own}: x: says `Use`" in result.stdout
    assert isinstance(result.exception, CommandError)


def remembered(root: Path) -> str:
    asked = (
        Asked(key="free-loads", layer=Layer.MEMORY, record=Record(asked=4, answered=4, accepted=2, paid=2, gain=0.2, best=0.15)),
        Asked(key="human:abc", layer=Layer.PLAN, record=Record(asked=1, accepted=1, paid=1, gain=0.3, best=0.3), text=TEXT),
    )
    assert remember(root / FILE_NAME, RunRecords(name="a", task="t", backend="cpu", asked=asked)) is None
    return str(root)


def test_stats_put_what_gained_most_first(tmp_path: Path) -> None:
    root = remembered(tmp_path)
    document = json.loads(ask("stats", "--root", root, "--json").stdout)
    assert [row["layer"] for row in document["layers"]] == ["plan", "memory"]
    assert [row["key"] for row in document["questions"]] == ["human:abc", "free-loads"]
    assert document["questions"][0]["text"] == TEXT
    lines = ask("stats", "--root", root).stdout.splitlines()
    assert any(line.split()[:4] == ["free-loads", "4", "2", "20.0"] for line in lines)
    assert "free-loads" not in ask("stats", "--root", root, "--people").stdout
    nothing = ask("stats", "--root", tmp_path / "empty")
    assert nothing.stdout == "", "no table without rows"
    assert "there are no records in" in nothing.stderr
    (tmp_path / FILE_NAME).write_text("{")
    assert refused("stats", "--root", root).startswith("6 ")


def test_add_writes_a_question_that_keeps_the_rules(tmp_path: Path) -> None:
    own = tmp_path / "questions.toml"
    form = ("--layer", "plan", "--moment", "stall", "--moment", "routine", "--settle", "time of each launch alone")
    assert (
        ask("add", str(own), "--id", "my-own", *form, "--text", TEXT, "--command", "Merge the {launches} launches.").exit_code
        == 0
    )
    root = remembered(tmp_path)
    other = refused("add", str(own), "--id", "asked-before", *form, "--asked", "human:abc", "--root", root)
    assert "asks nearly what my-own asks" in other
    own.unlink()
    assert ask("add", str(own), "--id", "asked-before", *form, "--asked", "human:abc", "--root", root).exit_code == 0
    entry = tomllib.loads(own.read_text())["question"][0]
    assert (entry["text"], entry["moments"]) == (TEXT, ["stall", "routine"])
    assert load_bank([own])[-1].id == "asked-before"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--text", "Use wider vectors in the loop, what happens?"), "3 "),
        ((), "2 give the question by --text"),
        (("--text", TEXT, "--asked", "human:abc"), "2 give the question by --text"),
        (("--asked", "human:gone"), "2 --asked human:gone: no person asked that"),
    ],
)
def test_add_refuses_and_writes_nothing(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    own = tmp_path / "questions.toml"
    form = ("--id", "x", "--layer", "plan", "--moment", "stall", "--settle", "time of it", "--root", str(tmp_path))
    assert refused("add", str(own), *form, *words).startswith(says)
    assert not own.exists()
