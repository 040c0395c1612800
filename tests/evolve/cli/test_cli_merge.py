"""askevolve merge: what it prints, its JSON, its exit codes."""

import json
import shutil
from pathlib import Path

import pytest

from tests.evolve.cli.conftest import Ask


@pytest.fixture
def away(finished: Path, ask: Ask, tmp_path: Path) -> Path:
    """A copy of the finished run that went on."""
    shutil.copytree(finished, tmp_path / "away")
    assert ask("resume", tmp_path / "away", "--set", "budget.candidates=14", "-q").code in (0, 5)
    return tmp_path / "away"


def test_a_copy_comes_home_and_a_second_time_nothing(away: Path, ask: Ask) -> None:
    told = ask("merge", "sim", away, "--dry-run")
    assert (told.code, "would come home, the run goes on with its events" in told.out) == (0, True)
    done = ask("merge", "sim", away)
    assert done.code == 0
    assert "2 outcomes came home" in done.out
    assert "simulated, nothing was measured (none)" in done.out
    again = ask("merge", "sim", away, "--json").document
    assert (again["merged"][0]["how"], again["merged"][0]["outcomes"], again["refused"]) == ("nothing", [], [])


def test_what_evaluate_printed_comes_home_beside_and_is_shown(finished: Path, ask: Ask, tmp_path: Path) -> None:
    shown = ask("show", "sim", "--json").document
    row = {"file": "k.cpp", "scenario_set": "five", "outcome": shown["outcome"]}
    row["outcome"]["device"] = {**row["outcome"]["device"], "name": "NVIDIA H200", "versions": {"driver": "580.65"}}
    (tmp_path / "gpu.json").write_text(json.dumps({"schema_version": 1, **row}))
    done = ask("merge", "sim", "gpu.json", "--json").document
    assert (done["merged"][0]["how"], done["merged"][0]["outcomes"][0]["as"]) == ("beside", "beside")
    best = shown["candidate"]["id"]
    text = ask("show", "sim", best[:10]).out
    assert "== search, from gpu.json, on NVIDIA H200 (none), driver 580.65 ==" in text
    assert ask("show", "sim", best).out.index("== search ==") < text.index("from gpu.json")
    assert "elsewhere: search OK" in ask("lineage", "sim", best).out
    assert "NVIDIA H200 (none)" in ask("status", "sim").out
    assert ask("status", "sim", "--json").document["elsewhere"][0]["outcomes"] == 1
    assert ask("show", "sim", best, "--json").document["elsewhere"][0]["comparable"] is False


def test_exit_codes_say_what_was_refused(finished: Path, ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    refused = ask("merge", "sim", "x.json")
    assert (refused.code, refused.err.count("\n")) == (9, 1)
    assert "not merged: x.json" in refused.err
    missing = ask("merge", "sim", "nowhere", "--json")
    assert (missing.code, missing.document["refused"][0]["other"]) == (6, "nowhere")
    assert ask("merge", "nowhere", "x.json").code == 6
    assert ask("merge", "sim").code == 2
