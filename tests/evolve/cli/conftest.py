"""Fixtures of the command line's tests: commands run in this process, in an empty folder, over simulated runs."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evolve.cli.app import main
from tests.evolve.simulation import SEEDS, TINY_TASK

CONFIG = f"""
[run]
name = "sim"
seed = 5
[task]
name = "{TINY_TASK}"
scenarios = "five"
backend = "simulated"
[population]
seeds = ["{SEEDS[0]}", "{SEEDS[1]}"]
[executor]
kind = "inline"
[budget]
candidates = 12
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


Ask = Callable[..., Ran]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Ask:
    """Runs a command line in an empty folder that holds ``sim.toml``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("ASKEVOLVE_DEBUG", raising=False)
    (tmp_path / "sim.toml").write_text(CONFIG)

    def run(*arguments: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["askevolve", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished simulated run, made once; tests get a copy of it."""
    from evolve import api
    from evolve.config import load_config

    folder = tmp_path_factory.mktemp("made")
    (folder / "sim.toml").write_text(CONFIG)
    return api.run(load_config(folder / "sim.toml"), root=folder / "runs").folder


@pytest.fixture
def finished(ask: Ask, made: Path, tmp_path: Path) -> Path:
    """A finished run in ``runs/sim`` of the folder that commands run in."""
    folder = tmp_path / "runs" / "sim"
    shutil.copytree(made, folder)
    return folder
