"""The built wheel works outside the checkout: every data file is in it, and the command runs from it alone."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("evolve", "population", "mutators", "evaluator", "results")
COMMAND = "import sys; sys.argv[0] = 'askevolve'; from evolve.cli.app import main; main()"
CONFIG = """
run.name = "sim"
task = { name = "attention_forward", scenarios = "cpu_quick", backend = "simulated" }
population.seeds = ["cpu_plain", "cpu_blocked"]
executor.kind = "inline"
budget.candidates = 8
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built from a copy so that nothing is left behind in it."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=leave_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("askevolve-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the wheel's files as an installation would."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def askevolve(installed: Path, here: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command, run from the wheel's files in a folder outside the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, "-P", "-c", COMMAND, *arguments], cwd=here, env=environment, capture_output=True, text=True, check=False
    )


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == expected


def test_the_command_is_declared(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "askevolve = evolve.cli.app:main" in archive.read(name).decode()


def test_tasks_bank_seeds_and_template_are_found_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    listed = askevolve(installed, tmp_path, "task", "list", "attention_forward", "--json")
    assert json.loads(listed.stdout)["seeds"]["cpp"] == ["cpu_blocked", "cpu_plain"], listed.stderr
    (tmp_path / "sim.toml").write_text(CONFIG)
    ran = askevolve(installed, tmp_path, "run", "sim.toml", "--json", "-q")
    assert ran.returncode in (0, 5), ran.stderr
    assert json.loads(ran.stdout)["questions_asked"] >= 6
    assert askevolve(installed, tmp_path, "task", "new", "mine").returncode == 0
    assert (tmp_path / "mine" / "seeds" / "rows.cpp").is_file()


def test_a_kernel_is_built_by_the_wheels_own_host_files(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.cpp").write_text((installed / SEED).read_text().replace("float", "flaot"))
    ran = askevolve(installed, tmp_path, "evaluate", "broken.cpp", "--quick", "--scenarios", "cpu_quick")
    assert ran.returncode == 9, ran.stderr
    assert ran.stdout.startswith("COMPILE_ERROR")


SEED = "evaluator/tasks/attention_forward/seeds/cpu_plain.cpp"
