"""Stored admissions: found under the same circumstances only, and an outcome says where there is none."""

import dataclasses
from pathlib import Path

import pytest

from evaluator import admissions
from evaluator.admission import Admission, AdmissionRow
from evaluator.admissions import Circumstances, Report, all_of, circumstances, device_here, find, keep, remark
from evaluator.cuda.device import NoGpuError
from evaluator.harness import Harness
from evaluator.outcome import Outcome
from evaluator.request import Request
from tests.evaluator.fake_backend import DEVICE, FakeBackend, candidate
from tests.evaluator.tiny_harness import QUICK, quiet, seeded, tiny

ROW = AdmissionRow(scenario="n4", distribution="normal", answer="all zeros", must="fail", ok=True, share=None, detail="")
HERE = circumstances(tiny(), "three", DEVICE.kind, DEVICE.name, DEVICE.arch)


def report(passed: bool = True, here: Circumstances = HERE) -> Report:
    row = dataclasses.replace(ROW, ok=passed)
    return Report(
        circumstances=here, admission=Admission(task="tiny", set_name="three", passed=passed, rows=(row,)), at="2026-11-30"
    )


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    path = keep(tmp_path / "admissions", report())
    assert path.suffix == ".json"
    assert find(tmp_path / "admissions", HERE) == report()
    assert all_of(tmp_path / "admissions", tiny().hash) == (report(),)
    assert [one.name for one in (tmp_path / "admissions").iterdir()] == [path.name]


@pytest.mark.parametrize(
    "change",
    [{"task_hash": "other"}, {"device": "other"}, {"arch": "sm_80"}, {"scenario_set": "five"}, {"baselines": {"peer": "2.0"}}],
    ids=lambda change: next(iter(change)),
)
def test_other_circumstances_need_another_admission(tmp_path: Path, change: dict[str, object]) -> None:
    keep(tmp_path, report())
    assert find(tmp_path, dataclasses.replace(HERE, **change)) is None


def test_another_version_of_the_harness_needs_another_admission(tmp_path: Path) -> None:
    keep(tmp_path, dataclasses.replace(report(), harness=0))
    assert find(tmp_path, HERE) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"at": 1}'])
def test_a_damaged_report_is_none(tmp_path: Path, text: str) -> None:
    keep(tmp_path, report()).write_text(text)
    assert find(tmp_path, HERE) is None
    assert all_of(tmp_path, tiny().hash) == ()


def test_the_remark_names_the_command(tmp_path: Path) -> None:
    never = remark(tmp_path, tiny(), "three", DEVICE)
    assert never is not None
    assert "never admitted on this device" in never
    assert "askevolve task check ./tiny_task --scenarios three --backend cpu" in never
    keep(tmp_path, report())
    assert remark(tmp_path, tiny(), "three", DEVICE) is None
    keep(tmp_path, report(passed=False))
    assert "refused by its admission" in (remark(tmp_path, tiny(), "three", DEVICE) or "")


def evaluated(folder: Path) -> Outcome:
    backend = FakeBackend()
    lock = folder / "lock"
    harness = Harness(
        tiny(), "three", backend, QUICK, backend.clock, seeded(7), pressure=quiet, lock=lock, admissions=folder / "admissions"
    )
    return harness.evaluate(Request(candidate=candidate()))


def test_an_outcome_says_that_its_task_was_never_admitted_here(tmp_path: Path) -> None:
    assert [note for note in evaluated(tmp_path).notes if "never admitted" in note]
    keep(tmp_path / "admissions", report())
    assert not [note for note in evaluated(tmp_path).notes if "admi" in note]


def test_the_folder_lies_beside_the_builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert admissions.default_admissions() == tmp_path / "askevolve" / "admissions"


def test_the_device_of_this_machine() -> None:
    name, arch = device_here("cpu")
    assert name
    assert "-" in arch


def test_without_a_gpu_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(ordinal: int) -> None:
        raise NoGpuError("no CUDA driver answers")

    monkeypatch.setattr("evaluator.cuda.device.find_gpu", none)
    with pytest.raises(NoGpuError):
        device_here("cuda")
