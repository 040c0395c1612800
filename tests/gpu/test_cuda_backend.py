"""The CUDA backend on a real GPU: the contract of all backends, lease and quarantine, a whole evaluation of a tiny task."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from evaluator.arrays import to_host
from evaluator.backend import Build, Program, Ran
from evaluator.cuda.backend import CudaBackend
from evaluator.cuda.health import probe
from evaluator.cuda.lease import GpuQuarantinedError, Quarantine, lease_path
from evaluator.harness import Harness
from evaluator.outcome import Effort, Fault, Verdict
from evaluator.request import Request
from evaluator.settings import cuda_settings
from evaluator.task import load_task
from population.candidate import Candidate, Language, hash_text
from tests.contracts import vector_scale
from tests.contracts.backend import BackendContract
from tests.contracts.vector_scale import CUDA_BASELINES, Case

torch = pytest.importorskip("torch")
pytest.importorskip("cupy")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]

SOURCE = """
extern "C" __global__ void scale(const float* x, float* y, int n, float s) {
    const int first = blockIdx.x * BLOCK;
    for (int i = first; i < first + BLOCK && i < n; i++) y[i] = s * x[i];
}
"""
HANGS = """
extern "C" __global__ void scale(const float* x, float* y, int n, float s) {
    volatile float* out = y;
    while (n > 0) out[0] = s * x[0];
}
"""
TINY = """/* plan
[[launch]]
kernel = "double_rows"
grid = ["n"]
block = [32, 1, 1]
args = ["x", "y", "total", "m"]
*/
extern "C" __global__ void double_rows(const float* x, float* y, float* total, int m) {
    const float* row = x + (long long)blockIdx.x * m;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < m; i += 32) {
        y[(long long)blockIdx.x * m + i] = 2.0f * row[i];
        sum += row[i];
    }
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) total[blockIdx.x] = sum;
}
"""
TINY_BASELINES = """
import torch
from evaluator.baseline import Baseline, Bound

def bind(symbols, inputs, outputs):
    x = torch.from_dlpack(inputs["x"])
    y, total = torch.from_dlpack(outputs["y"]), torch.from_dlpack(outputs["total"])
    results = []
    def call():
        results[:] = [x * 2.0, x.sum(1)]
    def store():
        y.copy_(results[0])
        total.copy_(results[1])
    return Bound(call=call, store=store)

BASELINES = (Baseline(name="peer", backend="cuda", available=lambda: None, version=lambda: torch.__version__,
                      supports=lambda symbols: True, bind=bind),)
"""


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    folder: Path = tmp_path_factory.mktemp("cuda")
    (folder / "baselines.py").write_text(CUDA_BASELINES)
    before = {process.pid for process in psutil.Process().children()}
    backend = CudaBackend(folder / "cache", lease_folder=folder)
    yield Case(backend=backend, source=SOURCE, baseline_folder=folder)
    backend.close()
    assert {process.pid for process in psutil.Process().children()} <= before


class TestCudaBackend(BackendContract):
    """All of the contract."""


def test_the_device_is_described(case: Case) -> None:
    device = case.backend.device
    assert device.kind == "cuda"
    assert device.arch.startswith("sm_")
    assert device.cores == case.backend.facts()["sm_count"]
    assert device.versions["cupy-cuda13x"] != "not installed"


def test_a_warm_baseline_process_serves_the_next_side(case: Case) -> None:
    plan, scenario = vector_scale.resolved(), vector_scale.scenario()
    took_s = []
    for seed in range(3):
        started = time.monotonic()
        side = case.backend.start_baseline(case.baseline_folder, "plain", plan, scenario, 8)
        took_s.append(round(time.monotonic() - started, 3))
        assert not isinstance(side, Fault), side
        given = vector_scale.inputs(seed=seed)
        for slot in range(8):
            side.fill(slot, given, 0)
        ran = side.run(range(8), 20.0)
        assert isinstance(ran, Ran)
        assert 0 < ran.elapsed_us < 8 * 1000
        np.testing.assert_allclose(to_host(side.read(7)["y"]), vector_scale.expected(given), rtol=1e-6)
        side.close()
    print("seconds to start a baseline, first and warm:", took_s)


def test_a_baseline_that_writes_past_the_end_is_our_fault(case: Case) -> None:
    side = case.backend.start_baseline(case.baseline_folder, "vandal", vector_scale.resolved(), vector_scale.scenario(), 1)
    assert not isinstance(side, Fault), side
    side.fill(0, vector_scale.inputs(), 0)
    assert isinstance(side.run([0], 20.0), Ran)
    fault = side.audit()
    side.close()
    assert fault is not None
    assert fault.verdict is Verdict.HARNESS_FAULT
    assert "past the end of 'y'" in fault.message


def test_a_baseline_that_writes_its_inputs_is_our_fault_and_its_process_is_replaced(case: Case) -> None:
    plan, scenario = vector_scale.resolved(), vector_scale.scenario()
    fault = case.backend.start_baseline(case.baseline_folder, "writer", plan, scenario, 1)
    if not isinstance(fault, Fault):  # a driver that can't map read-only
        side = fault
        side.fill(0, vector_scale.inputs(), 0)
        side.run([0], 20.0)
        fault = side.audit()  # type: ignore[assignment]
        side.close()
    assert isinstance(fault, Fault)
    assert fault.verdict is Verdict.HARNESS_FAULT
    again = case.backend.start_baseline(case.baseline_folder, "plain", plan, scenario, 1)
    assert not isinstance(again, Fault), again
    again.close()


def test_a_lease_tells_what_was_used(case: Case) -> None:
    with case.backend.lease("a test") as lease:
        assert case.backend.pressure() is not None
        side = case.backend.start_baseline(case.baseline_folder, "plain", vector_scale.resolved(), vector_scale.scenario(), 2)
        assert not isinstance(side, Fault), side
        side.fill(0, vector_scale.inputs(), 0)
        assert isinstance(side.run([0], 20.0), Ran)
        side.close()
        case.backend.pressure()
        facts = lease.facts()
    assert facts["gpu_busy_s"] > 0
    assert facts["lease_s"] > facts["gpu_busy_s"]
    assert facts["sm_clock_mhz"] > 0
    assert facts["plain_variants"] == "n1000: the only one"
    print(dict(facts))


def test_the_probe_finds_this_gpu_well() -> None:
    health = probe(0)
    assert health.problem is None
    print(health.abilities)


def test_a_quarantined_gpu_is_not_used(tmp_path: Path, case: Case) -> None:
    from evaluator.cuda.device import find_gpu

    uuid = find_gpu(0).uuid
    mark = Quarantine(lease_path(uuid, tmp_path))
    mark.set(uuid, "a test", time.time())
    with pytest.raises(GpuQuarantinedError, match="a test"):
        CudaBackend(tmp_path / "cache", lease_folder=tmp_path)
    mark.lift()
    CudaBackend(tmp_path / "cache", lease_folder=tmp_path).close()


def test_a_kernel_that_hangs_leaves_the_gpu_well(case: Case) -> None:
    plan = vector_scale.resolved()
    build = case.backend.build(HANGS, plan)
    assert isinstance(build, Build)
    program = Program(candidate_id="hangs", scenario=vector_scale.scenario(), build=build, resolved=plan)
    side = case.backend.start(program, 1)
    assert not isinstance(side, Fault), side
    side.fill(0, vector_scale.inputs(), 0)
    fault = side.run([0], 1.0)
    side.close()
    assert isinstance(fault, Fault)
    assert fault.verdict is Verdict.TIMEOUT
    with case.backend.lease("after a hang"):
        TestCudaBackend().test_both_sides_compute_every_slot(case)


@pytest.mark.parametrize("effort", list(Effort))
def test_a_whole_evaluation(case: Case, tmp_path: Path, effort: Effort) -> None:
    tiny = Path(__file__).parent.parent / "evaluator" / "tiny_task"
    folder = tmp_path / "tiny"
    shutil.copytree(tiny, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "baselines.py").write_text(TINY_BASELINES)
    candidate = Candidate(id=hash_text(TINY), normal_id=hash_text(TINY), language=Language.CUDA, source=TINY)
    harness = Harness(load_task(str(folder)), "three", case.backend, cuda_settings("quick"))
    found = harness.evaluate(Request(candidate=candidate, effort=effort))
    print(found.message, dict(found.facts), found.noise_floor_pct, found.notes)
    assert found.verdict in (Verdict.OK, Verdict.AMBIGUOUS), (found.message, found.fault)
    assert found.fitness is not None
    assert all(check.passed for check in found.checks)
    assert found.facts["graph_replays"]
    assert any(name.endswith(".blocks_per_sm") for name in found.facts)
    assert found.facts["lease_s"] > found.facts["gpu_busy_s"] > 0
    wrong = TINY.replace("2.0f * row[i]", "2.1f * row[i]")
    bad = Candidate(id=hash_text(wrong), normal_id=hash_text(wrong), language=Language.CUDA, source=wrong)
    assert harness.evaluate(Request(candidate=bad, effort=effort)).verdict is Verdict.WRONG
