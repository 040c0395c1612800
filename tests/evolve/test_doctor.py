import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evolve import doctor
from evolve.doctor import Finding, State, examine, fit


def findings(monkeypatch: pytest.MonkeyPatch, *checks: str) -> dict[str, Finding]:
    """What the named checks find, by name."""
    monkeypatch.setattr(doctor, "CHECKS", tuple(getattr(doctor, name) for name in checks))
    return {finding.name: finding for finding in examine()}


def test_this_machine_can_run_the_main_job() -> None:
    found = list(examine())
    names = {finding.name for finding in found}
    assert {
        "askevolve",
        "python",
        "g++",
        "sandbox",
        "cores",
        "torch",
        "ray",
        "nvrtc",
        "gpu",
        "baseline torch_cpu",
        "folder",
    } <= names
    assert fit(found)


def test_a_missing_compiler_is_needed_and_a_missing_objdump_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = findings(monkeypatch, "_compiler")
    assert found["g++"].state is State.MISSING
    assert "install the package g++" in found["g++"].next_step
    assert found["objdump"].state is State.LIMITED
    assert not fit(list(found.values()))


def test_a_missing_package_names_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    found = findings(monkeypatch, "_packages", "_version")
    assert found["ray"].state is State.MISSING
    assert found["ray"].next_step == "pip install ray"
    assert found["nvidia-cuda-nvrtc"].state is State.LIMITED
    assert found["askevolve"].state is State.OK


def test_protections_that_cannot_be_enforced_are_named_with_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluator.sandbox.limits_missing", lambda: ("file access: no Landlock here",))
    assert "newer kernel" in findings(monkeypatch, "_protections")["sandbox"].next_step
    monkeypatch.setattr("evaluator.sandbox.limits_missing", lambda: ("process count: not enforced for root",))
    root = findings(monkeypatch, "_protections")["sandbox"]
    assert root.state is State.LIMITED
    assert "ordinary user" in root.next_step
    assert "Landlock" not in root.next_step
    monkeypatch.setattr("evaluator.sandbox.limits_missing", lambda: ())
    assert findings(monkeypatch, "_protections")["sandbox"].state is State.OK


def test_a_busy_machine_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr(os, "getloadavg", lambda: (9.0, 9.0, 9.0))
    assert findings(monkeypatch, "_cores")["cores"].state is State.LIMITED
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.1, 0.1))
    assert findings(monkeypatch, "_cores")["cores"].state is State.OK


def test_an_old_python_or_a_full_disk_is_no_place_for_the_main_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    assert findings(monkeypatch, "_python")["python"].state is State.MISSING
    usage = type(shutil.disk_usage(tmp_path))(10**12, 10**12, 5 * 10**8)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    assert findings(monkeypatch, "_disk")["folder"].state is State.MISSING


def test_a_keys_value_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "sk-secret" not in str(findings(monkeypatch, "_keys"))
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "none set" in findings(monkeypatch, "_keys")["model key"].detail


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def _odd() -> Iterator[Finding]:
        raise RuntimeError("what now")

    monkeypatch.setattr(doctor, "CHECKS", (_odd,))
    found = list(examine())
    assert found == [Finding(name="odd", state=State.LIMITED, detail="check failed: RuntimeError('what now')")]
