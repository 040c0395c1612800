"""CUDA builds in the sandbox, on a machine without a GPU."""

import os
import sys
from pathlib import Path

import pytest

from evaluator.backend import Build
from evaluator.cache import BuildCache
from evaluator.cuda import nvrtc
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.cuda.toolkit import find_toolkit
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.sandbox import Limits, landlock_abi
from tests.evaluator.cuda_cases import DATA, EACH_HONEST, HONEST, launch, plan

SECRET = "hunter2_is_the_password"
KERNEL = 'extern "C" __global__ void k(float* x) { x[0] = 1.f; }\n'
PLAN = plan(launch("k", "x:p"))
SMALL = Limits(cpu_s=2, wall_s=8.0, memory_bytes=1 << 30, file_bytes=1 << 20)
needs_landlock = pytest.mark.skipif(landlock_abi() == 0, reason="this kernel has no Landlock")


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    return BuildCache(tmp_path / "cache")


def built(result: Build | Fault) -> Build:
    assert isinstance(result, Build), result
    return result


def failed(result: Build | Fault) -> Fault:
    assert isinstance(result, Fault)
    assert result.stage is Stage.BUILD
    return result


@pytest.mark.parametrize(("name", "arch"), EACH_HONEST)
def test_cubin_ptx_log_and_facts_from_one_compile(name: str, arch: str, cuda_cache: BuildCache) -> None:
    build = built(compile_cuda((DATA / name).read_text(), HONEST[name][1], arch, cuda_cache))
    assert build.path.read_bytes()[:4] == b"\x7fELF"
    assert f".target {arch}" in build.ptx
    assert f"for '{arch}'" in build.log
    assert 8 <= int(build.facts["registers"]) <= 255
    assert build.facts["spill_bytes"] == 0
    assert "wgmma_serialized" not in build.facts


def test_facts_of_several_kernels_agree_with_ptxas(cache: BuildCache) -> None:
    source = """
extern "C" __global__ void large(float* x, int n) {
    __shared__ float tile[1000];
    float local[64];
    for (int i = 0; i < 64; ++i) local[i] = x[i * n];
    for (int i = 0; i < n; ++i) local[int(x[i]) & 63] += x[i];
    tile[threadIdx.x] = local[n & 63];
    __syncthreads();
    x[n] = tile[threadIdx.x ^ 1];
}
extern "C" __global__ void small(float* x, int n) { x[n] = 1.f; }
"""
    build = built(compile_cuda(source, PLAN, "sm_90a", cache))
    used = {line.split("Used ")[1] for line in build.log.splitlines() if "Used" in line}
    facts = build.facts
    assert facts["large.static_shared_bytes"] == facts["static_shared_bytes"] == 4000
    assert facts["large.stack_bytes"] == 256
    assert (facts["small.static_shared_bytes"], facts["small.barriers"], facts["large.barriers"]) == (0, 0, 1)
    assert f"{facts['small.registers']} registers, used 0 barriers" in used
    assert f"{facts['large.registers']} registers, used 1 barriers, 256 bytes cumulative stack size, 4000 bytes smem" in used


def test_spills_are_counted(cache: BuildCache) -> None:
    source = """
extern "C" __global__ void k(float* x) {
    float v[120];
    #pragma unroll
    for (int i = 0; i < 120; ++i) v[i] = x[i * 128 + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 120; ++i) x[(119 - i) * 128 + threadIdx.x] = v[i] * v[(i * 7) % 120];
}
"""
    many = built(compile_cuda(source, PLAN, "sm_90a", cache))
    few = built(compile_cuda(source, plan(launch("k", "x:p"), maxrregcount=32), "sm_90a", cache))
    assert many.facts["spill_bytes"] == 0
    assert int(few.facts["spill_bytes"]) > 400
    assert few.facts["registers"] == 32


def test_serialized_wgmma_is_the_first_fact(cache: BuildCache) -> None:
    source = (DATA / "wgmma.cu").read_text()
    build = built(compile_cuda(source, plan(HONEST["wgmma.cu"][1].launches[0], defines={"LOST": "1"}), "sm_90a", cache))
    assert next(iter(build.facts)) == "wgmma_serialized"
    assert "(C75" in str(build.facts["wgmma_serialized"])
    assert "(C75" in build.log.splitlines()[0]


def test_defines_and_flags_reach_the_compiler_and_the_key(cache: BuildCache) -> None:
    source = 'extern "C" __global__ void k(float* x) { x[0] = x[1] / x[2] + VALUE; }\n'
    plain = built(compile_cuda(source, plan(launch("k", "x:p"), defines={"VALUE": "7"}), "sm_80", cache))
    fast = built(compile_cuda(source, plan(launch("k", "x:p"), defines={"VALUE": "7"}, fast_math=True), "sm_80", cache))
    other = built(compile_cuda(source, plan(launch("k", "x:p"), defines={"VALUE": "8"}), "sm_80", cache))
    assert "div.rn.f32" in plain.ptx
    assert "div.approx.ftz.f32" in fast.ptx
    assert len({plain.key, fast.key, other.key}) == 3
    assert "x[2] + VALUE" not in failed(compile_cuda(source, PLAN, "sm_80", cache)).message


def test_second_build_comes_from_the_cache(cache: BuildCache, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_cuda(KERNEL, PLAN, "sm_80", cache)
    monkeypatch.setattr(nvrtc, "run_sandboxed", None)
    assert compile_cuda(KERNEL, PLAN, "sm_80", cache) == first


def test_errors_say_what_and_where(cache: BuildCache) -> None:
    fault = failed(compile_cuda(KERNEL.replace("1.f", "one"), PLAN, "sm_90a", cache))
    assert fault.verdict is Verdict.COMPILE_ERROR
    assert fault.message == 'candidate.cu(1): error: identifier "one" is undefined'
    assert "x[0] = one" in fault.detail


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("#include <cstdio>\n", "no host headers"),
        ('#include "nope.h"\n', 'cannot open source file "nope.h"'),
        ('extern "C" __global__ void k(float* x) { asm volatile("mma.nonsense;"); }', "ptxas"),
        (
            'extern "C" __global__ void k(float* x) { __shared__ float t[1 << 20]; t[threadIdx.x] = 1; x[0] = t[5]; }',
            "shared data",
        ),
        ('#include "/no/such/file.h\0"\n', "zero byte"),
        (
            'asm(".include \\"/etc/passwd\\"");extern "C" __global__ void k(float* x) { asm(".incbin \\"/etc/passwd\\";"); }',
            "ptxas",
        ),
    ],
)
def test_compile_errors(source: str, words: str, cache: BuildCache) -> None:
    fault = failed(compile_cuda(source, PLAN, "sm_90a", cache))
    assert fault.verdict is Verdict.COMPILE_ERROR
    assert words in fault.message
    assert "root:" not in fault.detail


SPELLINGS = {
    "quotes": '#include "{path}"\n',
    "angles": "#include <{path}>\n",
    "digraph": '%:include "{path}"\n',
    "macro": '#define H "{path}"\n#include H\n',
    "splice": '#inc\\\nlude "{path}"\n',
    "comment": '#/* */include/* */"{path}"\n',
    "up": '#include "../../../../../../../../../..{path}"\n',
    "up_angles": "#include <cuda/../../../../../../../../../../../../..{path}>\n",
    "double_slash": '#include "/{path}"\n',
    "through_headers": '#include "{headers}/../../../../../../../../../../../..{path}"\n',
}


@needs_landlock
@pytest.mark.parametrize("spelling", sorted(SPELLINGS))
def test_no_spelling_includes_a_secret(spelling: str, cache: BuildCache, tmp_path: Path) -> None:
    toolkit = find_toolkit()
    assert toolkit is not None
    secret = tmp_path / "secret.h"
    secret.write_text(f"{SECRET}\n")
    source = SPELLINGS[spelling].replace("{path}", str(secret)).replace("{headers}", str(toolkit.includes[0]))
    fault = failed(compile_cuda(source + KERNEL, PLAN, "sm_90a", cache))
    assert fault.verdict is Verdict.SANDBOX
    assert SECRET not in fault.message + fault.detail


@needs_landlock
@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/self/cmdline", "/etc/passwd", "/etc/shadow", "/dev/stdin", "/proc/self/maps"]
)
def test_nothing_of_the_machine_shows(path: str, cache: BuildCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", SECRET)
    fault = failed(compile_cuda(f'#include "{path}"\n{KERNEL}', PLAN, "sm_90a", cache))
    assert fault.verdict is Verdict.SANDBOX
    for text in (SECRET, "root:", str(Path.home()), sys.prefix, os.environ["PATH"]):
        assert text not in fault.detail


def test_a_valid_secret_header_gives_no_build(cache: BuildCache, tmp_path: Path) -> None:
    (tmp_path / "valid.h").write_text("#define FOUND 1\n")
    source = f'#include "{tmp_path / "valid.h"}"\n{KERNEL}'
    if landlock_abi():
        assert failed(compile_cuda(source, PLAN, "sm_90a", cache)).verdict is Verdict.SANDBOX
    else:
        built(compile_cuda(source, PLAN, "sm_90a", cache))


BOMBS = {
    "templates": """template<int D, long P> struct T : T<D - 1, 2 * P>, T<D - 1, 2 * P + 1> {};
template<long P> struct T<0, P> {};
__constant__ int size = sizeof(T<30, 0>);
""",
    "unroll": """extern "C" __global__ void k(float* x) {
    #pragma unroll
    for (int i = 0; i < 500; ++i)
        #pragma unroll
        for (int j = 0; j < 500; ++j) x[i * j] = x[i + j] * x[i ^ j] + x[j];
}
""",
    "macros": "#define A B B B B B B B B\n#define B C C C C C C C C\n#define C D D D D D D D D\n#define D E E E E E E E E\n"
    "#define E F F F F F F F F\n#define F G G G G G G G G\n#define G H H H H H H H H\n#define H +1\n"
    "constexpr int x = 0 A A A A;\n",
}


@pytest.mark.parametrize("bomb", [pytest.param(bomb, marks=() if bomb == "macros" else pytest.mark.slow) for bomb in BOMBS])
def test_a_compile_bomb_meets_its_limit(bomb: str, cache: BuildCache) -> None:
    fault = failed(compile_cuda(BOMBS[bomb], PLAN, "sm_90a", cache, SMALL))
    assert fault.verdict is Verdict.COMPILE_LIMIT
    assert "compiling took more than" in fault.message


def test_without_a_compiler_the_fault_is_ours(cache: BuildCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "find_toolkit", lambda: None)
    fault = failed(compile_cuda(KERNEL, PLAN, "sm_90a", cache))
    assert fault.verdict is Verdict.HARNESS_FAULT
    assert "pip install nvidia-cuda-nvrtc" in fault.message
