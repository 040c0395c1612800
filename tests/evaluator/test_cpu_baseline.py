"""Baselines of the CPU backend: warm processes, fresh buffers, faults that are ours."""

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from evaluator.backend import Ran
from evaluator.cpu.backend import CpuBackend
from evaluator.cpu.device import choose_cores
from evaluator.outcome import Fault, Verdict
from evaluator.warm import BaselineSide
from tests.contracts import vector_scale


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    (folder / "baselines.py").write_text(vector_scale.BASELINES)
    return folder


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CpuBackend]:
    before = {process.pid for process in psutil.Process().children()}
    backend = CpuBackend(tmp_path_factory.mktemp("cache"), threads=2)
    yield backend
    backend.close()
    assert {process.pid for process in psutil.Process().children()} <= before


def start(backend: CpuBackend, folder: Path, name: str = "numpy", slots: int = 2) -> BaselineSide:
    side = backend.start_baseline(folder, name, vector_scale.resolved(), vector_scale.scenario(), slots)
    assert isinstance(side, BaselineSide), side
    return side


def test_a_warm_process_serves_the_next_side_without_the_old_buffers(backend: CpuBackend, folder: Path) -> None:
    first = start(backend, folder, slots=8)
    first.fill(0, vector_scale.inputs(), 0)
    assert isinstance(first.run([0], 20.0), Ran)
    pid = first.pid
    first.close()
    second = start(backend, folder, slots=1)
    assert second.pid == pid
    maps = [line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "memfd:inputs" in line]
    assert len(maps) == 1
    second.close()


def test_it_has_the_cores_of_the_candidate(backend: CpuBackend, folder: Path) -> None:
    side = start(backend, folder)
    process = psutil.Process(side.pid)
    assert set(process.cpu_affinity()) == set(choose_cores(2))
    assert process.environ()["OMP_NUM_THREADS"] == "2"
    side.close()


def test_a_baseline_that_damages_memory_is_our_fault(backend: CpuBackend, folder: Path) -> None:
    side = start(backend, folder, "vandal")
    side.fill(0, vector_scale.inputs(), 0)
    assert isinstance(side.run([0], 20.0), Ran)
    fault = side.audit()
    side.close()
    assert fault is not None
    assert fault.verdict is Verdict.HARNESS_FAULT
    assert "damaged memory" in fault.message


def test_a_baseline_that_dies_is_our_fault_and_is_not_reused(backend: CpuBackend, folder: Path) -> None:
    side = start(backend, folder)
    pid = side.pid
    psutil.Process(pid).send_signal(signal.SIGKILL)
    side.fill(0, vector_scale.inputs(), 0)
    fault = side.run([0], 20.0)
    assert isinstance(fault, Fault)
    assert fault.verdict is Verdict.HARNESS_FAULT
    side.close()
    other = start(backend, folder)
    assert other.pid != pid
    other.close()


def test_a_folder_whose_baselines_cannot_be_imported(backend: CpuBackend, tmp_path: Path) -> None:
    (tmp_path / "baselines.py").write_text("import nothing_of_that_name\n")
    plan, scenario = vector_scale.resolved(), vector_scale.scenario()
    fault = backend.start_baseline(tmp_path, "numpy", plan, scenario, 1)
    assert isinstance(fault, Fault)
    assert fault.verdict is Verdict.HARNESS_FAULT
    assert "nothing_of_that_name" in fault.message


def test_the_result_is_stored_only_when_read(backend: CpuBackend, folder: Path) -> None:
    side = start(backend, folder)
    given = vector_scale.inputs()
    side.fill(0, given, 0)
    assert isinstance(side.run([0], 20.0), Ran)
    np.testing.assert_allclose(side.read(0)["y"], vector_scale.expected(given), rtol=1e-6)
    side.close()
