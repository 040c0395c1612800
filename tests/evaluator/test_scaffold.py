"""`task new`: what it writes works at once."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from evaluator.scaffold import new_task
from evaluator.task import TaskError, load_baselines, load_task
from population.candidate import Language


def test_new_task_is_complete_and_takes_the_folders_name(tmp_path: Path) -> None:
    written = new_task(tmp_path / "My-Norm")
    assert {str(path.relative_to(tmp_path / "My-Norm")) for path in written} == {
        "task.toml",
        "scenarios.toml",
        "contract.md",
        "task.py",
        "baselines.py",
        "seeds/rows.cpp",
    }
    task = load_task(str(tmp_path / "My-Norm"))
    assert task.name == "my_norm"
    assert task.sets() == ("quick", "grid")
    assert len(task.card("grid").scenarios) == 6
    assert [b.name for b in load_baselines(task.folder)] == list(task.definition.baselines)


def test_hidden_scenarios_come_from_the_folder(tmp_path: Path) -> None:
    new_task(tmp_path / "norm")
    task = load_task(str(tmp_path / "norm"))
    hidden = task.hidden_scenarios(np.random.default_rng(0), task.card("quick"), 3)
    assert len(hidden) == 3
    assert all(set(s.symbols) == {"batch", "width"} for s in hidden)


def test_seed_compiles_without_warnings_for_every_knob(tmp_path: Path) -> None:
    new_task(tmp_path / "norm")
    seed = load_task(str(tmp_path / "norm")).seeds(Language.CPP)["rows"]
    flags = ["-O3", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    for rows, lanes in [(1, 4), (8, 16), (32, 64)]:
        defines = [f"-DROWS={rows}", f"-DLANES={lanes}"]
        subprocess.run(["g++", *flags, *defines, str(seed), "-o", str(tmp_path / "seed.so")], check=True)


def test_seed_is_right(tmp_path: Path) -> None:
    import ctypes

    from evaluator.compare import compare

    new_task(tmp_path / "norm")
    task = load_task(str(tmp_path / "norm"))
    library = tmp_path / "seed.so"
    seed = str(task.seeds(Language.CPP)["rows"])
    subprocess.run(["g++", "-O3", "-shared", "-fPIC", "-DROWS=8", "-DLANES=16", seed, "-o", str(library)], check=True)
    kernel = ctypes.CDLL(str(library)).rms_norm
    symbols = {"batch": 37, "width": 77}
    for distribution in task.distributions:
        inputs = task.inputs(symbols, distribution, np.random.default_rng(0))
        y = np.full((37, 77), np.nan, np.float32)
        scalars = [ctypes.c_int(37), ctypes.c_int(77), ctypes.c_float(task.scalars(symbols)["epsilon"])]
        pointers = [inputs["x"].ctypes.data, inputs["weight"].ctypes.data, y.ctypes.data, *map(ctypes.addressof, scalars)]
        for number in range(5):
            kernel(ctypes.c_long(number), (ctypes.c_void_p * 6)(*pointers))
        expected = task.reference(symbols, inputs)
        found = compare(expected["y"], y, task.tolerances(symbols, inputs, expected)["y"])
        assert found.passed, found.message


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "norm").mkdir()
    (tmp_path / "norm" / "mine.txt").write_text("mine")
    with pytest.raises(TaskError, match="isn't an empty folder"):
        new_task(tmp_path / "norm")
    assert [path.name for path in (tmp_path / "norm").iterdir()] == ["mine.txt"]


def test_names_that_no_task_can_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="choose another folder name"):
        new_task(tmp_path / "3d")
    assert not (tmp_path / "3d").exists()
