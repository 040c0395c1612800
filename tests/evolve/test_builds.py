"""CUDA runs on a machine without a GPU: what is assembled, compiled ahead and refused."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.cuda.device import Gpu, NoGpuError
from evaluator.request import Request
from evaluator.task import load_task
from evolve import evaluators, parts
from evolve.api import resume, run
from evolve.builds import FIRST_ARCH, Builds, ahead_of, target_of
from evolve.config import ConfigError, RunConfig
from evolve.errors import EnvironmentUnfit
from evolve.evaluators import gpus_here, settings_of
from evolve.parts import assemble
from evolve.stopping import StopReason
from population.candidate import Language
from population.novelty import candidate_of
from results.folder import holds_run
from tests.evolve.simulation import TINY_TASK, config, stored

KERNEL = """/* plan
[knobs]
ROWS = { value = 4, when = [["n > 16", 8]], choices = [4, 8] }
[[launch]]
kernel = "rows"
grid = ["1", "1", "1"]
block = ["32", "1", "1"]
args = ["x", "y", "total"]
*/
extern "C" __global__ void rows(const float* x, float* y, float* total) { if (threadIdx.x < ROWS) y[threadIdx.x] = x[0]; }
"""
GPU = Gpu(
    ordinal=0, uuid="GPU-1", name="some GPU", capability=80, sm_count=108, shared_bytes=166_912, memory_bytes=1, clock_khz=1,
    memory_clock_khz=1, bus_bits=1, driver_api="13.0",
)  # fmt: skip


def request(source: str = KERNEL) -> Request:
    return Request(candidate=candidate_of(source, Language.CUDA))


def builds(*gpus: Gpu, folder: Path = Path("cache")) -> Builds:
    task = load_task(str(TINY_TASK))
    return Builds(task=task, card=task.card("five"), target=target_of(gpus), folder=folder)


def cuda(tmp_path: Path, **executor: object) -> RunConfig:
    seed = tmp_path / "rows.cu"
    seed.write_text(KERNEL)
    return config(
        task={"backend": "cuda"}, population={"seeds": [str(seed)]}, executor={"kind": "inline", "workers": 1, **executor}
    )


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[Gpu, ...]:
        raise NoGpuError("no CUDA driver answers")

    monkeypatch.setattr(evaluators, "find_gpus", none)


def test_a_candidate_has_a_job_for_each_distinct_build_and_it_travels() -> None:
    jobs = builds()(request())
    assert [job.resolved.defines["ROWS"] for job in jobs] == ["4", "8"]  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(jobs)) == jobs


@pytest.mark.parametrize("source", ["no plan", KERNEL.replace('"x", "y"', '"nobody", "y"')])
def test_a_candidate_that_fails_the_screen_has_no_job(source: str) -> None:
    assert builds()(request(source)) == ()


def test_the_target_is_the_gpu_that_is_here_or_the_first_architecture() -> None:
    here, none = target_of([GPU, replace(GPU, capability=90)]), target_of([])
    assert (here.arch, here.facts["sm_count"]) == ("sm_80", 108)
    assert (none.arch, none.facts["sm_count"]) == (FIRST_ARCH, 132)


def test_a_job_leaves_its_build_where_the_evaluator_looks(tmp_path: Path) -> None:
    for job in builds(folder=tmp_path / "builds")(request()):
        job()
    assert len(list((tmp_path / "builds").glob("??/*/artefact"))) == 2


def test_compiling_ahead_needs_a_folder_for_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise OSError("no folder for compiled kernels")

    monkeypatch.setattr("evolve.builds.default_folder", homeless)
    task = load_task(str(TINY_TASK))
    with pytest.raises(EnvironmentUnfit, match="no folder for compiled kernels"):
        ahead_of(task, task.card("five"), (), 1)


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("kind", ["inline", "processes", "ray"])
def test_without_a_gpu_no_run_begins_and_it_is_said_how_one_can(tmp_path: Path, kind: str) -> None:
    with pytest.raises(EnvironmentUnfit, match=r"no CUDA driver answers; `--no-evaluate` asks and compiles here"):
        run(cuda(tmp_path, kind=kind), root=tmp_path / "runs")
    assert not holds_run(tmp_path / "runs" / "sim")


@pytest.mark.usefixtures("without_gpu")
def test_without_a_gpu_a_run_begins_compiles_ahead_and_leaves_its_evaluations_open(tmp_path: Path) -> None:
    begun = run(cuda(tmp_path), root=tmp_path / "runs", evaluate=False)
    assert begun.stopped_by is StopReason.EVALUATION
    assert len(list((tmp_path / "cache" / "askevolve" / "builds").glob("??/*/artefact"))) == 2
    before = len(stored(begun.folder))
    assert resume(begun.folder, evaluate=False).stopped_by is StopReason.EVALUATION
    assert len(stored(begun.folder)) <= before + 2, "stopping anew and its time are all that is added"
    with pytest.raises(EnvironmentUnfit, match="no CUDA driver answers"):
        resume(begun.folder)


def test_each_process_sees_one_gpu_and_more_workers_than_gpus_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, object]] = []
    monkeypatch.setattr(evaluators, "find_gpus", lambda: (GPU, replace(GPU, uuid="GPU-2")))
    monkeypatch.setattr(parts, "ProcessExecutor", lambda spec, **terms: made.append(terms))
    assemble(cuda(tmp_path, kind="processes", workers=2)).executor()
    assert made[0]["environments"] == [{"CUDA_VISIBLE_DEVICES": "GPU-1"}, {"CUDA_VISIBLE_DEVICES": "GPU-2"}]
    with pytest.raises(ConfigError, match="workers = 3, but this process may use 2 GPUs"):
        assemble(cuda(tmp_path, kind="processes", workers=3)).executor()


def test_a_driver_that_shows_no_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluators, "find_gpus", tuple)
    assert gpus_here() == ((), "the driver shows this process no GPU (CUDA_VISIBLE_DEVICES hides them where it is set)")


def test_every_backend_has_settings_for_both_paces() -> None:
    found = {(backend, pace): settings_of(backend, pace) for backend in ("cpu", "cuda") for pace in ("full", "quick")}
    assert len(set(found.values())) == 4
    assert all(settings_of(backend, pace, 1).looks == (8,) for backend, pace in found)
