"""Task folders: loading, clear errors, cards, hashes."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from evaluator.scaffold import new_task
from evaluator.task import BUILT_IN, TaskError, built_in_tasks, load_baselines, load_task
from population.candidate import Language


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small valid task folder."""
    place = tmp_path / "small"
    new_task(place)
    return place


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_built_in_task_loads_by_name() -> None:
    task = load_task("attention_forward")
    assert task.name == "attention_forward"
    assert task.folder == BUILT_IN / "attention_forward"
    assert "attention_forward" in built_in_tasks()
    assert set(task.sets()) == {"cpu_quick", "cpu_small", "quick3", "fa3_36", "hopper_6", "hopper_26", "hopper_182"}


def test_card_carries_the_contract() -> None:
    task = load_task("attention_forward")
    card = task.card("cpu_quick")
    assert card.symbols == ("b", "sq", "sk", "h", "hkv", "d", "causal", "window", "dtype")
    assert [(t.name, t.role) for t in card.tensors] == [
        ("q", "input"),
        ("k", "input"),
        ("v", "input"),
        ("out", "output"),
        ("lse", "output"),
    ]
    assert card.tensors[0].axes == ("b", "sq", "h", "d")
    assert card.hash == task.hash
    assert "bottom-right" in card.contract
    assert {scenario.region for scenario in card.scenarios} <= set(card.regions)
    with pytest.raises(TaskError, match="no scenario set 'nope'; it has cpu_quick"):
        task.card("nope")


def test_unknown_task_says_what_there_is() -> None:
    with pytest.raises(TaskError, match=r"built in are attention_forward.*task new"):
        load_task("attention_froward")


def test_baselines_of_the_card_are_those_of_the_folder() -> None:
    task = load_task("attention_forward")
    assert tuple(b.name for b in load_baselines(task.folder)) == task.definition.baselines


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("task.toml", "summary =", "sumary =", r"task\.toml: .*sumary"),
        ("task.toml", "4 * batch * width", "4 * batch * wdith", r"flop uses 'wdith'; known here are batch, width"),
        ("task.toml", "4 * batch * width", "4 * batch *", r"task\.toml: .*flop"),
        ("task.toml", 'role = "output"', 'role = "result"', r"tensors\.y\.role"),
        ("task.toml", 'dtype = "float32"', 'dtype = "fp8"', r"tensors\.x\.dtype is 'fp8'"),
        ("task.toml", 'dtype = "float32"', 'dtype = "dtype"', r"which \[symbols\] doesn't declare"),
        ("task.toml", "[tolerance]", "[tolerance]\nx = 1e-4", r"tolerance\.x isn't an output"),
        ("task.toml", 'short = "width', 'short = "depth', r"regions\.short uses 'depth'"),
        ("task.toml", 'name = "small"', "name = small", r"task\.toml: .*line 3"),
        ("scenarios.toml", "width = 256", "widht = 256", r"sets\.quick: block 1: no value for width"),
        ("scenarios.toml", "batch = 256, width = 1024", "batch = 1024, width = 256", "occurs twice"),
        ("scenarios.toml", "size // width", "sise // width", "needs 'sise'"),
        ("scenarios.toml", "{size:k}", "{size:m}", "known are"),
        ("scenarios.toml", "{size:k}", "{length}", "which has no value here"),
        ("scenarios.toml", "[[sets.quick]]", "[[quick]]", "holds \\[defaults\\]"),
    ],
)
def test_errors_name_file_and_key(folder: Path, file: str, old: str, new: str, says: str) -> None:
    change(folder / file, old, new)
    with pytest.raises(TaskError, match=says):
        load_task(str(folder))


def test_missing_files_are_named(folder: Path) -> None:
    (folder / "contract.md").unlink()
    with pytest.raises(TaskError, match=r"contract\.md"):
        load_task(str(folder))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("def reference", "def refrence", "no function reference"),
        ("import numpy as np", "import numpi as np", "ModuleNotFoundError"),
        ('return {"y": inputs["weight"] * x / np', 'return {"z": inputs["weight"] * x / np', r"reference gives \['z'\]"),
        ('x = inputs["x"].astype(np.float64)', 'x = inputs["x"][1:].astype(np.float64)', r"\(3, 4\)"),
    ],
)
def test_faulty_functions_are_explained(folder: Path, old: str, new: str, says: str) -> None:
    change(folder / "task.py", old, new)
    task = load_task(str(folder))
    symbols = {"batch": 3, "width": 4}
    with pytest.raises(TaskError, match=says):
        task.reference(symbols, task.inputs(symbols, "normal", np.random.default_rng(0)))


def test_unknown_distribution_is_refused(folder: Path) -> None:
    with pytest.raises(TaskError, match="no distribution 'uniform'; it has normal"):
        load_task(str(folder)).inputs({"batch": 1, "width": 1}, "uniform", np.random.default_rng(0))


def test_baselines_must_be_baselines(folder: Path) -> None:
    (folder / "baselines.py").write_text("BASELINES = ['torch']\n")
    with pytest.raises(TaskError, match="BASELINES must be"):
        load_baselines(folder)


def test_hash_covers_what_decides_a_score_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    first = load_task(str(folder)).hash
    moved = tmp_path / "elsewhere"
    shutil.copytree(folder, moved)
    assert load_task(str(moved)).hash == first
    (folder / "seeds" / "other.cpp").write_text("// another seed")
    (folder / "questions.toml").write_text("")
    assert load_task(str(folder)).hash == first
    hashes = {first}
    for file in ("task.toml", "scenarios.toml", "contract.md", "task.py", "baselines.py"):
        path = folder / file
        path.write_text(path.read_text() + "\n# changed\n")
        hashes.add(load_task(str(folder)).hash)
    assert len(hashes) == 6


def test_seeds_are_found_by_language(folder: Path) -> None:
    task = load_task(str(folder))
    assert list(task.seeds(Language.CPP)) == ["rows"]
    assert task.seeds(Language.CUDA) == {}


def test_a_changed_file_is_loaded_again(folder: Path) -> None:
    symbols = {"batch": 2, "width": 4}
    assert load_task(str(folder)).scalars(symbols) == {"epsilon": float(np.float32(1e-6))}
    change(folder / "task.py", "np.float32(1e-6)", "np.float32(1e-3)")
    assert load_task(str(folder)).scalars(symbols) == {"epsilon": float(np.float32(1e-3))}


def test_loading_needs_no_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from evaluator.task import load_task, load_baselines\n"
        "t = load_task('attention_forward'); t.card('hopper_182'); load_baselines(t.folder)\n"
        "print('torch' in sys.modules)"
    )
    root = BUILT_IN.parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
