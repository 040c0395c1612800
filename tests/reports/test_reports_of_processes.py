"""Bug reports of other harnesses about one evaluation that spoils another, and about filters of words: what happens here.

A test is named after the repository and the number of its issue or pull request.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from evaluator.backend import Build, Program, Ran, Side
from evaluator.cache import BuildCache
from evaluator.cpu.backend import CpuBackend
from evaluator.cpu.baseline import BaselineSide
from evaluator.cuda.offline import Gated, examine
from evaluator.outcome import Fault, Verdict
from tests.cheats.cuda_cases import GOOD, SET, light_task
from tests.contracts import vector_scale
from tests.evaluator.test_cpu_contract import SOURCE

CHEATS = Path(__file__).parents[1] / "cheats" / "cpu"


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[CpuBackend]:
    opened = CpuBackend(tmp_path / "cache", threads=1)
    yield opened
    opened.close()


@pytest.fixture
def task(tmp_path: Path) -> Path:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "baselines.py").write_text(vector_scale.BASELINES)
    return tmp_path / "task"


def result_of(side: Side | Fault) -> np.ndarray:
    assert not isinstance(side, Fault), side
    side.fill(0, vector_scale.inputs(), 0)
    assert isinstance(side.run([0], 20.0), Ran)
    found = side.read(0)["y"]
    side.close()
    return np.asarray(found)


def started(backend: CpuBackend, source: str) -> Side | Fault:
    plan = vector_scale.resolved()
    build = backend.build(source, plan)
    assert isinstance(build, Build), build
    return backend.start(Program(candidate_id="c", scenario=vector_scale.scenario(), build=build, resolved=plan), 1)


def test_flashinfer_bench_419_a_baseline_outlives_the_worker_that_held_it(backend: CpuBackend, task: Path) -> None:
    def baseline() -> Side | Fault:
        return backend.start_baseline(task, "plain", vector_scale.resolved(), vector_scale.scenario(), 1)

    side = baseline()
    assert isinstance(side, BaselineSide)
    psutil.Process(side.pid).kill()
    side.fill(0, vector_scale.inputs(), 0)
    lost = side.run([0], 20.0)
    assert isinstance(lost, Fault)
    assert lost.verdict is Verdict.HARNESS_FAULT
    side.close()
    np.testing.assert_array_equal(result_of(baseline()), vector_scale.expected(vector_scale.inputs()))


@pytest.mark.parametrize(
    ("name", "verdict"), [("trap", Verdict.CRASH), ("wild_pointer", Verdict.CRASH), ("endless_loop", Verdict.TIMEOUT)]
)
def test_helion_2700_a_fault_poisons_what_comes_after(backend: CpuBackend, name: str, verdict: Verdict) -> None:
    side = started(backend, (CHEATS / f"{name}.cpp").read_text())
    assert not isinstance(side, Fault)
    side.fill(0, vector_scale.inputs(), 0)
    ran = side.run([0], 0.4)
    assert isinstance(ran, Fault)
    assert ran.verdict is verdict
    side.close()
    np.testing.assert_array_equal(result_of(started(backend, SOURCE)), vector_scale.expected(vector_scale.inputs()))


def test_deepgemm_302_two_workers_compile_the_same_key(tmp_path: Path) -> None:
    plan = vector_scale.resolved()
    found: list[Build | Fault] = []
    backends = [CpuBackend(tmp_path / "cache", threads=1) for _ in range(2)]
    workers = [threading.Thread(target=lambda each=each: found.append(each.build(SOURCE, plan))) for each in backends]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert isinstance(found[0], Build)
    assert found[0] == found[1]
    assert len(list((tmp_path / "cache").glob("??/*/entry.json"))) == 2, "the host's own program and one candidate"
    np.testing.assert_array_equal(result_of(started(backends[0], SOURCE)), vector_scale.expected(vector_scale.inputs()))
    for each in backends:
        each.close()


def test_kernelbot_373_an_ordinary_word_is_refused(tmp_path: Path) -> None:
    words = "// stream graph torch cuda sync exec import # event clock64 printf malloc\n"
    words += "static __device__ int stream_of(int n) { return n; }\n"
    source = GOOD.read_text().replace('extern "C"', words + 'extern "C"', 1)
    assert isinstance(examine(source, light_task(), SET, "sm_90a", BuildCache(tmp_path)), Gated)


def test_huggingface_kernels_707_an_architecture_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown architecture sm_70; known are"):
        examine(GOOD.read_text(), light_task(), SET, "sm_70", BuildCache(tmp_path))
