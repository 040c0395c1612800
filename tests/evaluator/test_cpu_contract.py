"""The CPU backend passes the contract of all backends."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from evaluator.cpu.backend import CpuBackend
from tests.contracts.backend import BackendContract
from tests.contracts.vector_scale import BASELINES, Case

SOURCE = """
extern "C" void scale(long task, void* const* args) {
    auto x = static_cast<const float*>(args[0]);
    auto y = static_cast<float*>(args[1]);
    const int n = *static_cast<const int*>(args[2]);
    const float s = *static_cast<const float*>(args[3]);
    for (long i = task * BLOCK; i < (task + 1) * BLOCK && i < n; i++) y[i] = s * x[i];
}
"""


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    folder: Path = tmp_path_factory.mktemp("cpu")
    (folder / "baselines.py").write_text(BASELINES)
    before = {process.pid for process in psutil.Process().children()}
    backend = CpuBackend(folder / "cache", threads=2)
    yield Case(backend=backend, source=SOURCE, baseline_folder=folder)
    backend.close()
    assert {process.pid for process in psutil.Process().children()} <= before


class TestCpuBackend(BackendContract):
    """All of the contract."""
