"""Facts of CUDA builds and launches: from the machine code where nvdisasm is there, from the PTX where it isn't."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from evaluator.backend import Build
from evaluator.cache import BuildCache
from evaluator.cuda import nvrtc
from evaluator.cuda.facts import USES, compiler_facts, launch_facts, lowest_occupancy
from evaluator.cuda.gate import gate_cuda
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.cuda.offline import DEVICE_FACTS
from evaluator.cuda.sass import find_disassembler, hot_kernel, kind_counts, limits_missing, read_sass
from evaluator.outcome import Device, Fault
from evaluator.plan.resolved import Resolved
from evaluator.preparation import Prepared, prepare
from mutators.facts import FACTS
from population.candidate import Language
from population.novelty import candidate_of
from tests.evaluator.cuda_cases import DATA, EACH_ARCH, EACH_HONEST, HONEST, launch, plan
from tests.evaluator.tiny_harness import tiny

needs_nvdisasm = pytest.mark.skipif(find_disassembler() is None, reason="no nvdisasm here: pip install nvidia-cuda-nvdisasm")
USED = {
    "mma.cu": {"uses_mma"},
    "tma.cu": {"uses_tma"},
    "wgmma.cu": {"uses_wgmma", "uses_tma"},
    "cooperative.cu": set(),
}
LISTING = """
//--------------------- .text.small ---------------
\t.section\t.text.small,"ax",@progbits
small:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 MUFU.EX2 R7, R0 ;
        /*0020*/               @P0 BRA `(.L_x_1) ;
.L_x_1:
        /*0030*/                   EXIT ;
        /*0040*/                   NOP ;
\t.section\t.text.large,"ax",@progbits
        /*0000*/                   HMMA.16816.F32.BF16 R20, R16, R36, R20 ;
        /*0010*/              @UP0 HMMA.16816.F32.BF16 R20, R16, R36, R20 ;
        /*0020*/                   LDGSTS.E.BYPASS.128 [R3], [R4.64] ;
        /*0030*/                   CS2R R20, SRZ ;
        /*0040*/                   LDSM.16.M88.4 R4, [R2] ;
        /*0050*/                   STL.64 [R1], R2 ;
"""


def built(name: str, arch: str, cache: BuildCache) -> Build:
    build = compile_cuda((DATA / name).read_text(), HONEST[name][1], arch, cache)
    assert isinstance(build, Build), build
    return build


@pytest.fixture(scope="module")
def cache(cuda_cache: BuildCache) -> BuildCache:
    return cuda_cache


@needs_nvdisasm
@pytest.mark.parametrize(("name", "arch"), EACH_HONEST)
def test_what_the_machine_code_uses(name: str, arch: str, cache: BuildCache) -> None:
    facts = built(name, arch, cache).facts
    assert facts["sass_examined"] is True
    assert {use for use in USES if facts[use]} == USED[name]
    assert facts["hot_kernel"] == HONEST[name][1].launches[0].kernel
    assert int(facts["instruction_count"]) > 20
    assert "sass_forbidden" not in facts


@pytest.mark.parametrize(("name", "arch"), EACH_HONEST)
def test_the_ptx_shows_the_same_without_nvdisasm(
    name: str, arch: str, cache: BuildCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvrtc, "find_disassembler", lambda: None)
    facts = built(name, arch, cache).facts
    assert facts["sass_examined"] is False
    assert {use for use in USES if facts[use]} == USED[name]
    assert "hgmma_count" not in facts


@needs_nvdisasm
def test_instructions_of_a_hopper_kernel_are_counted(cache: BuildCache) -> None:
    facts = built("wgmma.cu", "sm_90a", cache).facts
    assert (facts["hgmma_count"], facts["mma_count"], facts["tma_load_count"], facts["tma_store_count"]) == (4, 0, 2, 0)
    assert (facts["wgmma_arrive_count"], facts["wgmma_wait_count"], facts["barrier_count"]) == (1, 1, 1)
    assert int(facts["mbarrier_count"]) >= 3


@needs_nvdisasm
def test_local_memory_exponentials_and_asynchronous_copies_are_counted(cache: BuildCache) -> None:
    source = """
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ alignas(16) float tile[512];
    float local[64];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(x));
    asm volatile("cp.async.wait_all;");
    for (int i = 0; i < n; ++i) local[int(x[i]) & 63] = x[i];
    float e; asm("ex2.approx.f32 %0, %1;" : "=f"(e) : "f"(tile[n]));
    y[n] = local[n & 63] + e;
}
"""
    build = compile_cuda(source, plan(launch("k", "x:p y:p n:i")), "sm_90a", cache)
    assert isinstance(build, Build), build
    facts = build.facts
    assert facts["uses_cp_async"] is True
    assert (facts["cp_async_count"], facts["ex2_count"]) == (1, 1)
    assert min(int(facts["local_load_count"]), int(facts["local_store_count"])) >= 1


def test_a_listing_is_read_with_predicates_and_padding() -> None:
    sass = read_sass(LISTING)
    assert set(sass.kernels) == {"small", "large"}
    assert kind_counts(sass.kernels["small"])["ex2_count"] == 1
    assert kind_counts(sass.kernels["small"])["instruction_count"] == 4
    large = kind_counts(sass.kernels["large"])
    assert (large["mma_count"], large["cp_async_count"], large["ldmatrix_count"], large["local_store_count"]) == (2, 1, 1, 1)
    assert large["hgmma_count"] == 0
    assert sass.forbidden == ()
    assert hot_kernel(sass) == "large"
    assert hot_kernel(read_sass("")) == ""


@pytest.mark.parametrize(
    "line",
    ["CS2R R4, SR_CLOCKLO", "S2UR UR7, SR_CLOCKLO", "CS2UR.32 UR4, SR_GLOBALTIMERHI", "CS2R.32 R4, SR_PM0", "PREEXIT"],
)
def test_clocks_and_early_release_are_seen_in_the_machine_code(line: str) -> None:
    assert read_sass(f'\t.section\t.text.k,"ax",@progbits\n        /*0020*/                   {line} ;\n').forbidden


@needs_nvdisasm
@pytest.mark.parametrize("arch", EACH_ARCH)
def test_the_gate_refuses_a_clock_that_only_the_machine_code_shows(arch: str, cache: BuildCache) -> None:
    resolved = plan(launch("k", "x:p"))
    timed = compile_cuda('extern "C" __global__ void k(float* x) { x[0] = clock64(); }', resolved, arch, cache)
    plain = compile_cuda('extern "C" __global__ void k(float* x) { x[0] = 1.f; }', resolved, arch, cache)
    assert isinstance(timed, Build)
    assert isinstance(plain, Build)
    fault = gate_cuda(replace(timed, ptx=plain.ptx), resolved)
    assert fault is not None
    assert "SR_CLOCKLO, which is not allowed" in fault.message
    assert gate_cuda(plain, resolved) is None


def test_a_host_without_nvdisasm_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluator.cuda.sass.find_disassembler", lambda: None)
    (sentence,) = limits_missing()
    assert "pip install nvidia-cuda-nvdisasm" in sentence


def test_shared_memory_and_occupancy_come_with_the_plan() -> None:
    build = {"registers": 168, "static_shared_bytes": 1024, "barriers": 2}
    wide = launch_facts(build, plan(launch("k", "x:p", block=(384, 1, 1), shared_bytes=200_000)), "sm_90a")
    assert wide == {
        "shared_bytes": 201_024,
        "block_threads": 384,
        "blocks_per_sm": 1,
        "warps_per_sm": 12,
        "occupancy_pct": 18.75,
        "occupancy_limit": "registers, shared memory",
    }
    narrow = launch_facts({**build, "registers": 64}, plan(launch("k", "x:p", block=(128, 1, 1))), "sm_90a")
    assert (narrow["blocks_per_sm"], narrow["warps_per_sm"], narrow["occupancy_limit"]) == (8, 32, "registers")
    lowest = lowest_occupancy({"a": narrow, "b": wide})
    assert (lowest["occupancy_scenario"], lowest["warps_per_sm"], lowest["shared_bytes"]) == ("b", 12, 201_024)
    assert "occupancy_scenario" not in lowest_occupancy({"a": wide, "b": wide})
    assert launch_facts(build, plan(launch("k", "x:p")), "sm_12") == {"shared_bytes": 1024}


def test_the_hot_kernel_is_the_one_that_counts() -> None:
    build = {"hot_kernel": "main", "main.registers": 255, "tail.registers": 16, "registers": 255}
    both = plan(launch("tail", "x:p", grid=(9999, 1, 1)), launch("main", "x:p", block=(256, 1, 1)))
    assert launch_facts(build, both, "sm_90a")["block_threads"] == 256
    assert launch_facts(build, plan(both.launches[0]), "sm_90a")["blocks_per_sm"] == 16


@needs_nvdisasm
def test_every_fact_may_be_named_by_a_question(cache: BuildCache) -> None:
    build = built("wgmma.cu", "sm_90a", cache)
    facts = {**build.facts, **launch_facts(build.facts, HONEST["wgmma.cu"][1], "sm_90a")}
    assert facts.keys() <= FACTS.keys()


def test_a_cubin_alone_gives_facts(cache: BuildCache) -> None:
    cubin = built("mma.cu", "sm_80", cache).path.read_bytes()
    assert compiler_facts("", cubin)["cubin_bytes"] == len(cubin)


CANDIDATE = """/* plan
[constants]
N = "n"

[[launch]]
kernel = "k"
grid = ["n", 1, 1]
block = ["8 * n", 1, 1]
shared = "1024 * n"
args = ["x", "y", "total"]
*/
extern "C" __global__ void k(const float* x, float* y, float* total) { y[N] = total[N] = x[N]; }
"""


class Compiler:
    """As much of a backend as preparing a CUDA candidate takes."""

    language = Language.CUDA
    device = Device(kind="cuda", name="none", arch="sm_90a", cores=2, peak_tflops=1.0, peak_gbs=1.0)

    def __init__(self, cache: BuildCache) -> None:
        self.cache = cache

    def facts(self) -> Mapping[str, int]:
        return DEVICE_FACTS["sm_90a"]

    def build(self, source: str, resolved: Resolved) -> Build | Fault:
        return compile_cuda(source, resolved, "sm_90a", self.cache)

    def gate(self, build: Build, resolved: Resolved) -> Fault | None:
        return gate_cuda(build, resolved)


def test_a_prepared_candidate_has_the_facts_of_all_its_builds_and_launches(cache: BuildCache) -> None:
    session = SimpleNamespace(backend=Compiler(cache), task=tiny(), compiling=lambda purpose: nullcontext())
    prepared = prepare(session, candidate_of(CANDIDATE, Language.CUDA), tiny().card("three"))  # type: ignore[arg-type]
    assert isinstance(prepared, Prepared), prepared
    assert (prepared.facts["builds"], prepared.facts["launches"], prepared.facts["shared_bytes"]) == (3, 1, 16 << 10)
    assert prepared.facts["occupancy_scenario"] in ("n4", "n8", "n16")
    assert int(prepared.facts["blocks_per_sm"]) >= 1
