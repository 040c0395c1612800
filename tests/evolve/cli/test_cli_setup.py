import dataclasses
import tomllib
from pathlib import Path

import pytest

from evaluator.admission import Admission, AdmissionRow
from evolve import doctor
from evolve.config import load_config
from tests.evolve.simulation import TINY_TASK

KERNEL_CU = """extern "C" __global__ void scaled(const float* x, float* y, float* total, int n, int m) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < n) y[row] = 2 * x[row];
}
"""
KERNEL_CPP = """extern "C" void scaled(const float* x, float* y, float* total, int n, int m) { y[0] = 2 * x[0]; }
"""


def test_init_writes_a_configuration_that_runs(ask, tmp_path: Path) -> None:
    ran = ask("init", "first try")
    assert ran.code == 0
    assert ran.out == "wrote first try/run.toml\n"
    assert "askevolve run 'first try/run.toml'" in ran.err
    config = load_config(tmp_path / "first try" / "run.toml")
    assert config.run.name == "first-try"
    assert config.task.scenarios == "cpu_quick"
    assert ask("run", "first try/run.toml", "--dry-run").code == 0
    assert ask("init", "first try").code == 2


def test_init_takes_a_task_folder_and_names_it_from_the_file(ask, tmp_path: Path) -> None:
    assert ask("init", "mine", "--task", TINY_TASK).code == 0
    values = tomllib.loads((tmp_path / "mine" / "run.toml").read_text())
    assert (tmp_path / "mine" / values["task"]["name"]).resolve() == TINY_TASK.resolve()
    assert values["task"]["scenarios"] == "three"


@pytest.mark.parametrize(("name", "text"), [("mine.cu", KERNEL_CU), ("mine.cpp", KERNEL_CPP)])
def test_init_drafts_a_plan_from_a_kernel(ask, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    ran = ask("init", "new", "--from", name, "--task", TINY_TASK)
    assert ran.code == 0
    drafted = (tmp_path / "new" / name).read_text()
    assert drafted.startswith("/* plan")
    assert text in drafted
    assert 'kernel = "scaled"' in drafted
    assert f"./{name}" in (tmp_path / "new" / "run.toml").read_text()
    assert f"Next: askevolve evaluate new/{name}" in ran.err
    again = ask("init", "new", "--from", name)
    assert again.code == 2
    assert (tmp_path / "new" / name).read_text() == drafted


def test_init_overwrites_nothing(ask, tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text(KERNEL_CU)
    ran = ask("init", "--from", "mine.cu")
    assert ran.code == 2
    assert (tmp_path / "mine.cu").read_text() == KERNEL_CU
    assert not (tmp_path / "run.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--from", "nosuch.cu"], 2, "can't be read"),
        (["--from", "sim.toml"], 2, "must be a .cu or .cpp"),
        (["--task", "nosuch"], 3, "no task 'nosuch'"),
        (["sim.toml/x"], 4, "can't write here"),
    ],
)
def test_init_says_what_is_wrong(ask, arguments: list[str], code: int, words: str) -> None:
    ran = ask("init", *arguments) if arguments[0][0] != "-" else ask("init", "new", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.err


def test_doctor_gives_4_only_where_something_needed_is_missing(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    fine = doctor.Finding(name="python", state=doctor.State.OK, detail="3.11")
    limited = doctor.Finding(name="gpu", state=doctor.State.LIMITED, detail="none", next_step="buy one")
    monkeypatch.setattr(doctor, "examine", lambda *_: iter([fine, limited]))
    ran = ask("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == ["ok       python: 3.11", "limited  gpu: none", "         -> buy one"]
    missing = dataclasses.replace(fine, state=doctor.State.MISSING)
    monkeypatch.setattr(doctor, "examine", lambda *_: iter([missing]))
    assert ask("doctor").code == 4
    ran = ask("doctor", "--json")
    assert ran.code == 4
    assert ran.document["fit"] is False
    assert ran.document["findings"][0]["name"] == "python"


def test_task_list_shows_tasks_sets_seeds_and_baselines(ask) -> None:
    assert "attention_forward: Dense attention" in ask("task", "list").out
    assert "cpu_quick" in ask("task", "list", "--json").document["tasks"][0]["sets"]
    out = ask("task", "list", "attention_forward").out
    for expected in (
        "cpu_blocked, cpu_plain",
        "torch_cpu",
        "hopper_182        182",
        "(b, sk, hkv, d)",
        "query heads",
        "\nA row that sees no key",
    ):
        assert expected in out
    assert ask("task", "list", "attention_forward", "--json").document["sets"]["cpu_quick"] == 4
    assert ask("task", "list", "nosuch").code == 3


def test_a_new_task_is_listed_and_admitted_as_it_is(ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = ask("task", "new", "mine")
    assert made.code == 0
    assert "wrote mine/task.toml" in made.out
    assert "askevolve task check ./mine" in made.err
    assert "never admitted on this machine: askevolve task check ./mine" in ask("task", "list", "./mine").out
    ran = ask("task", "check", "./mine", "--json")
    assert ran.code == 0
    assert ran.document["passed"] is True
    assert "is admitted" in ran.err
    assert f"report: {ran.document['stored']}" in ran.err
    assert Path(ran.document["stored"]).is_relative_to(tmp_path / "cache")
    assert "quick             " in ask("task", "list", "./mine").out
    assert ask("task", "list", "./mine", "--json").document["admissions"][0]["passed"] is True
    again = ask("task", "new", "mine")
    assert again.code == 3
    assert ask("task", "new", "sim.toml/x").code == 4
    assert ask("init", "next", "--task", "./mine").code == 0
    assert ask("run", "next/run.toml", "--dry-run").code == 0


def test_a_task_that_fails_admission_gives_9_and_says_where(ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = AdmissionRow(
        scenario="n4", distribution="normal", answer="all zeros", must="fail", ok=False, share=None, detail="it passed"
    )
    admission = Admission(task="tiny", set_name="three", passed=False, rows=(row,))
    monkeypatch.setattr("evaluator.admission.admit", lambda *arguments: admission)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ran = ask("task", "check", TINY_TASK)
    assert ran.code == 9
    assert "NOT OK" in ran.out
    assert "it passed" in ran.out
    assert "1 answer judged otherwise" in ran.err
    assert "refused: 1 of 1 answers" in ask("task", "list", TINY_TASK).out
    assert "the report isn't kept" in ask("task", "check", TINY_TASK, "--backend", "cuda").err
    assert ask("task", "check", TINY_TASK, "--backend", "tpu").code == 2


def test_gc_reports_what_it_removed(ask, tmp_path: Path) -> None:
    ran = ask("gc", "--cache", "empty", "--max-gb", "0")
    assert ran.code == 0
    assert ran.out == "empty: removed 0 builds (0.0 MB), kept 0 builds (0.0 MB)\n"
    assert ask("gc", "--cache", "empty", "--json").document["kept"] == 0
