"""Memory, processes and launches on a real GPU: right results, and the right verdict for each way to go wrong."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cupy")
pytest.importorskip("cuda.bindings.driver")

import cupy

from evaluator.backend import Build, Program, Ran
from evaluator.cache import BuildCache
from evaluator.cuda.allocations import Pool
from evaluator.cuda.candidates import CandidateProcesses
from evaluator.cuda.driver import CudaError, attribute, call
from evaluator.cuda.layout import Guard
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.cuda.side import CandidateSide
from evaluator.outcome import Fault, Verdict
from evaluator.plan.resolved import Argument, ArgumentKind, Buffer, Resolved, ResolvedLaunch, TensorMap
from evaluator.task_card import Scenario
from tests.contracts import vector_scale


def has_gpu() -> bool:
    try:
        return bool(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_gpu(), reason="CuPy sees no CUDA device")]

N = 1000
HEAD = (
    'extern "C" __global__ void scale(const float* x, float* y, int n, float s) { int i = blockIdx.x * blockDim.x + threadIdx.x; '
)
BODIES = {
    "right": "if (i < n) y[i] = s * x[i];",
    "trap": 'if (i == 3) asm volatile("trap;");',
    "far": "if (i < n) y[i] = x[i + 4096];",
    "over_read": "if (i < n + 64) { float v = x[i]; if (i < n) y[i] = s * v; else if (v == 1.f) y[0] = v; }",
    "misaligned": "if (i == 0) *(double*)((char*)y + 4) = 1.0;",
    "hang": "while (true) __nanosleep(1000);",
    "write_input": "if (i < n) { y[i] = s * x[i]; ((float*)x)[i] = 1.f; }",
    "restore_input": "if (i < n) { y[i] = s * x[i]; ((volatile float*)x)[i] = 1.f; ((float*)x)[i] = y[i] / s; }",
    "past_end": "if (i < n + 1) y[i] = i < n ? s * x[i] : 1.f;",
    "whereabouts": "if (i == 0) y[0] = (float)(((long long)y - (long long)x) >> 21);",
    "before_start": "if (i < n) y[i] = s * x[i]; if (i == 0) y[-2] = 1.f;",
}
TMA = """
struct alignas(64) TensorMap { char bytes[128]; };
extern "C" __global__ void copy(const __grid_constant__ TensorMap map, unsigned short* out) {
    extern __shared__ unsigned short tile[];
    __shared__ alignas(8) unsigned long long full;
    const unsigned bar = __cvta_generic_to_shared(&full), raw = __cvta_generic_to_shared(tile), target = (raw + 1023) & ~1023u;
    const unsigned short* data = tile + (target - raw) / 2;
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(64 * 64 * 2) : "memory");
        asm volatile(
            "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(target),
            "l"(&map), "r"(0), "r"(0), "r"(rank), "r"(blockIdx.y), "r"(0), "r"(bar)
            : "memory");
    }
    __syncthreads();
    asm volatile(
        "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0; @!done bra again; }" ::"r"(bar)
        : "memory");
    for (int i = threadIdx.x; i < 64 * 64; i += blockDim.x) {
        int row = i / 64, column = (i % 64) ^ ((row & 7) * 8);
        out[(row * 2 + blockIdx.y) * 128 + rank * 64 + i % 64] = data[row * 64 + column];
    }
}
"""


class Bench:
    """Processes on device 0 with fresh builds; every probe of its health is noted and answered "well"."""

    def __init__(self, folder: Path, guard: Guard | None = None) -> None:
        self.cache = BuildCache(folder)
        self.probes = 0
        self.pool = Pool(0, guard)
        self.processes = CandidateProcesses(0, self.pool, self._probe)
        major, minor = (attribute(f"COMPUTE_CAPABILITY_{part}", 0) for part in ("MAJOR", "MINOR"))
        self.arch = f"sm_{major}{minor}{'a' if major >= 9 else ''}"

    def _probe(self) -> str | None:
        self.probes += 1
        return None

    def start(self, source: str, plan: Resolved, slots: int = 3) -> CandidateSide | Fault:
        build = compile_cuda(source, plan, self.arch, self.cache)
        assert isinstance(build, Build), build
        scenario = Scenario(name=plan.scenario, symbols={})
        return self.processes.start(Program(candidate_id=build.key, scenario=scenario, build=build, resolved=plan), slots)

    def started(self, source: str, plan: Resolved, slots: int = 3) -> CandidateSide:
        side = self.start(source, plan, slots)
        assert isinstance(side, CandidateSide), side
        return side

    def close(self) -> None:
        self.processes.close()
        self.pool.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("cache"))
    yield made
    made.close()


def plan(**launch: Any) -> Resolved:
    base = vector_scale.resolved(N)
    settings = {"block": (64, 1, 1)} | launch
    return dataclasses.replace(base, launches=(dataclasses.replace(base.launches[0], **settings),))


def source(name: str, before: str = "") -> str:
    return before + HEAD + BODIES[name] + " }"


def filled(side: CandidateSide) -> list[dict[str, Any]]:
    given = [vector_scale.inputs(N, seed) for seed in range(side.slots)]
    for slot, inputs in enumerate(given):
        side.fill(slot, {name: cupy.asarray(array) for name, array in inputs.items()}, slot % 3)
    return given


def assert_right(side: CandidateSide) -> Ran:
    given = filled(side)
    ran = side.run(list(reversed(range(side.slots))), 20.0)
    assert isinstance(ran, Ran), ran
    for slot, inputs in enumerate(given):
        np.testing.assert_array_equal(cupy.asnumpy(side.read(slot)["y"]), vector_scale.expected(inputs))
    assert side.audit() is None
    return ran


def verdict_of(bench: Bench, name: str, deadline_s: float = 10.0, **launch: Any) -> Fault:
    side = bench.start(source(name), plan(**launch))
    if isinstance(side, Fault):
        return side
    filled(side)
    found = side.run([0, 1], deadline_s)
    fault = found if isinstance(found, Fault) else side.audit()
    side.close()
    assert fault is not None
    return fault


def test_here_memory_lies_between_unmapped_pages(bench: Bench) -> None:
    assert bench.pool.guard == "pages"


def test_right_results_and_device_time(bench: Bench) -> None:
    side = bench.started(source("right"), plan())
    ran = assert_right(side)
    assert side.facts["graph_replays"]
    assert 0 < ran.elapsed_us < 3 * 200
    assert side.facts["scale.registers"] > 0
    assert side.facts["scale.blocks_per_sm"] > 0
    assert bench.probes == 0
    side.close()


def test_no_distance_leads_from_one_buffer_to_another(bench: Bench) -> None:
    distances = []
    for _ in range(3):
        side = bench.started(source("whereabouts"), plan())
        filled(side)
        assert isinstance(side.run([0, 1, 2], 10.0), Ran)
        distances += [float(cupy.asnumpy(side.read(slot)["y"])[0]) for slot in range(3)]
        side.close()
    assert len(set(distances)) == 9


@pytest.mark.parametrize("body", ["trap", "misaligned"])
def test_a_crash(bench: Bench, body: str) -> None:
    assert verdict_of(bench, body).verdict is Verdict.CRASH


@pytest.mark.parametrize("body", ["far", "over_read", "past_end", "before_start"])
def test_out_of_bounds(bench: Bench, body: str) -> None:
    grid = {"grid": (17, 1, 1)} if body == "over_read" else {}
    assert verdict_of(bench, body, **grid).verdict is Verdict.OUT_OF_BOUNDS


@pytest.mark.parametrize("body", ["write_input", "restore_input"])
def test_a_write_into_an_input(bench: Bench, body: str) -> None:
    fault = verdict_of(bench, body)
    assert fault.verdict in ({Verdict.INPUT_MUTATED} if body == "write_input" else {Verdict.INPUT_MUTATED, Verdict.OUT_OF_BOUNDS})


def test_a_hang_and_then_a_good_kernel(bench: Bench) -> None:
    assert verdict_of(bench, "hang", deadline_s=1.0).verdict is Verdict.TIMEOUT
    side = bench.started(source("right"), plan())
    assert_right(side)
    side.close()


@pytest.mark.parametrize(
    "launch",
    [{"shared_bytes": 300_000}, {"block": (1024, 2, 1)}, {"grid": (10_000, 1, 1), "cooperative": True}, {"grid": (1, 70_000, 1)}],
    ids=lambda launch: next(iter(launch)),
)
def test_a_launch_that_the_device_refuses(bench: Bench, launch: dict[str, Any]) -> None:
    assert verdict_of(bench, "right", **launch).verdict is Verdict.LAUNCH_ERROR


def test_a_cooperative_launch(bench: Bench) -> None:
    side = bench.started(source("right"), plan(cooperative=True))
    assert_right(side)
    side.close()


def test_several_launches_and_workspaces(bench: Bench) -> None:
    counter = Buffer(name="counter", role="workspace", dtype="int32", shape=(3,), init="zero", self_resetting=True)
    zeroed = Buffer(name="zeroed", role="workspace", dtype="bf16", shape=(3,), init="zero")
    both = plan()
    add = dataclasses.replace(
        both.launches[0],
        kernel="add",
        args=(both.launches[0].args[1], *(Argument(name=name, kind=ArgumentKind.WORKSPACE) for name in ("counter", "zeroed"))),
    )
    text = (
        source("right")
        + """
    extern "C" __global__ void add(float* y, int* counter, unsigned short* zeroed) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < 1000) y[i] += zeroed[0] + zeroed[2] + counter[0];
        if (i == 0) zeroed[1] = 7;
    }"""
    )
    side = bench.started(text, dataclasses.replace(both, workspaces=(counter, zeroed), launches=(*both.launches, add)))
    assert_right(side)
    assert_right(side)
    side.close()


def test_a_workspace_that_is_not_reset(bench: Bench) -> None:
    counter = Buffer(name="counter", role="workspace", dtype="int32", shape=(3,), init="zero", self_resetting=True)
    text = HEAD.replace("float s)", "float s, int* counter)") + "if (i < n) y[i] = s * x[i]; counter[1] = 5; }"
    base = plan()
    args = (*base.launches[0].args, Argument(name="counter", kind=ArgumentKind.WORKSPACE))
    changed = dataclasses.replace(base, workspaces=(counter,), launches=(dataclasses.replace(base.launches[0], args=args),))
    side = bench.started(text, changed)
    filled(side)
    assert isinstance(side.run([0], 10.0), Ran)
    fault = side.audit()
    side.close()
    assert fault is not None
    assert fault.verdict is Verdict.STALE_OUTPUT
    assert "byte 4" in fault.message


def test_a_constant_table_is_watched_and_intact(bench: Bench) -> None:
    text = "__constant__ float table[4] = {1.f, 1.f, 1.f, 1.f};\n" + HEAD + "if (i < n) y[i] = s * table[i & 3] * x[i]; }"
    side = bench.started(text, plan())
    assert_right(side)
    side.close()


@pytest.mark.parametrize("fixed", [False, True])
def test_a_split_tensor_map_with_a_cluster(bench: Bench, fixed: bool) -> None:
    """x has shape (b 1, s 64, h 2, d 128); each cluster of two blocks fetches the two halves of d of one head."""
    if not bench.arch.startswith("sm_9"):
        pytest.skip("written for sm_90a")
    tensors = tuple(
        Buffer(name=name, role=role, dtype="bf16", shape=(1, 64, 2, 128)) for name, role in (("x", "input"), ("y", "output"))
    )
    tensor_map = TensorMap(
        name="x_map",
        tensor="x",
        dtype="bf16",
        dims=(64, 64, 2, 2, 1),
        strides_bytes=(512, 128, 256, 32_768),
        box=(64, 64, 1, 1, 1),
        swizzle="128B",
        l2_promotion=256,
    )
    launch = ResolvedLaunch(
        kernel="copy",
        grid=(2, 2, 1),
        block=(128, 1, 1),
        cluster=(2, 1, 1),
        cooperative=False,
        shared_bytes=64 * 64 * 2 + 1024,
        args=(Argument(name="x_map", kind=ArgumentKind.TENSOR_MAP), Argument(name="y", kind=ArgumentKind.TENSOR)),
    )
    wanted = dataclasses.replace(vector_scale.resolved(), tensors=tensors, tensor_maps=(tensor_map,), launches=(launch,))
    text = TMA.replace("void copy", "void __cluster_dims__(2, 1, 1) copy") if fixed else TMA
    side = bench.started(text, wanted, slots=2)
    given = np.random.default_rng(1).integers(0, 1 << 16, (1, 64, 2, 128)).astype(np.uint16)
    for slot in (0, 1):
        side.fill(slot, {"x": given}, 0)
    ran = side.run([0, 1], 10.0)
    assert isinstance(ran, Ran), ran
    np.testing.assert_array_equal(cupy.asnumpy(side.read(1)["y"]), given)
    assert side.audit() is None
    assert side.facts["copy.clusters"] > 0
    side.close()


def test_the_next_scenario_of_a_candidate_uses_its_process(bench: Bench) -> None:
    pids = []
    for _ in range(2):
        side = bench.started(source("right"), plan())
        assert_right(side)
        pids.append(side.pid)
        side.close()
    assert pids[0] == pids[1]


def test_two_candidates_at_once(bench: Bench) -> None:
    sides = [bench.started(source("right", f"// {number}\n"), plan()) for number in range(2)]
    assert sides[0].pid != sides[1].pid
    for side in sides:
        assert_right(side)
    for side in sides:
        side.close()


def test_guard_bands_where_pages_cannot_be_had(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "bands")
    try:
        side = bench.started(source("right"), plan())
        assert_right(side)
        side.close()
        assert verdict_of(bench, "past_end").verdict is Verdict.OUT_OF_BOUNDS
        assert verdict_of(bench, "before_start").verdict is Verdict.OUT_OF_BOUNDS
        assert verdict_of(bench, "write_input").verdict is Verdict.INPUT_MUTATED
    finally:
        bench.close()


def test_this_process_and_its_context_survive_all_that(bench: Bench) -> None:
    call("cuCtxSynchronize")
    assert int(cupy.arange(10).sum()) == 45
    with pytest.raises(CudaError, match="cuMemCreate"):
        bench.pool.take(1 << 50)
