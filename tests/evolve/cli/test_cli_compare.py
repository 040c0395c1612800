"""``askevolve compare``: launching, going on, existing runs, files, refusals."""

import csv
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.evolve.cli.conftest import Ask

FEW = ("--set", "budget.candidates=6")


def test_arms_are_launched_reported_and_gone_on_with(ask: Ask, tmp_path: Path) -> None:
    ran = ask("compare", "sim.toml", "--repeats", "1", *FEW)
    assert ran.code == 0
    assert "question and command: 1 run an arm: no conclusion" in ran.out
    assert "reads no text" in ran.err
    folder = tmp_path / "runs" / "compare-sim"
    assert {path.name for path in folder.iterdir()} == {"question-1", "command-1", "comparison.svg", "comparison.csv"}
    ET.parse(folder / "comparison.svg")
    with (folder / "comparison.csv").open() as file:
        assert {row["arm"] for row in csv.DictReader(file)} == {"question", "command"}
    again = ask("compare", "sim.toml", "--repeats", "1", "--quiet", "--json", *FEW)
    assert again.code == 0
    assert "its turn" not in again.err
    assert [arm["name"] for arm in again.document["arms"]] == ["question", "command"]
    refused = ask("compare", "sim.toml", "--repeats", "1", "--set", "budget.candidates=7")
    assert refused.code == 3
    assert "budget.candidates: 6 -> 7" in refused.err


def test_runs_that_are_there_are_compared_by_label(ask: Ask, tmp_path: Path, made: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(made, tmp_path / "runs" / name)
    ran = ask("compare", "old=a", "new=runs/b", "--levels", "0.9,1.5", "--figure", "f.svg", "--csv", "f.csv")
    assert ran.code == 0
    assert ran.out.startswith("old 1 run, new 1 run; task tiny")
    assert "0.9x" in ran.out
    assert (tmp_path / "f.svg").exists()
    assert (tmp_path / "f.csv").exists()
    assert ask("compare", "runs").out.startswith("a 1 run, b 1 run; task tiny")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("sim.toml", "--arms", "question,guess"), 2, "there is no arm 'guess'"),
        (("a", "--repeats", "2"), 2, "launch the arms of one CONFIG.toml"),
        (("nothing-here",), 6, "There is no run 'nothing-here'"),
        (("missing.toml",), 3, "no such file"),
    ],
)
def test_what_cannot_be_is_refused_in_words(ask: Ask, words: tuple[str, ...], code: int, says: str) -> None:
    ran = ask("compare", *words)
    assert ran.code == code
    assert says in ran.err


def test_levels_that_are_no_ratios_are_refused(ask: Ask, tmp_path: Path, made: Path) -> None:
    shutil.copytree(made, tmp_path / "runs" / "a")
    for levels in ("fast", "-1", "nan"):
        ran = ask("compare", "a", "--levels", levels)
        assert (ran.code, "write ratios such as" in ran.err) == (2, True)


def test_a_comparison_that_waits_for_answers_says_where(ask: Ask) -> None:
    ran = ask("compare", "sim.toml", "--repeats", "1", "--set", "mutation.answerer=mailbox")
    assert ran.code == 8
    assert "askevolve next runs/compare-sim/question-1" in ran.err
    assert "caution: not finished: question-1, command-1" in ran.out
