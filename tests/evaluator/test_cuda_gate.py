"""The gate on cubin and PTX: honest kernels pass on every architecture, attacks and mistakes don't.

Codes D1 ... D44 number the attacks of device-only candidates; those here are the ones that leave a trace in the artefact.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.backend import Build
from evaluator.cache import BuildCache
from evaluator.cuda.cubin import CubinError, read_cubin
from evaluator.cuda.gate import gate_cuda
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.cuda.ptx import device_variables, read_entries, recursive_function
from evaluator.outcome import Stage, Verdict
from evaluator.plan.resolved import Resolved
from tests.evaluator.cuda_cases import DATA, EACH_ARCH, EACH_HONEST, HONEST, launch, plan

PLAN = plan(launch("k", "x:p n:i"))
HEAD = 'extern "C" __global__ void k(float* x, int n) {'


@pytest.fixture(scope="module")
def cache(cuda_cache: BuildCache) -> BuildCache:
    return cuda_cache


def message_of(source: str, resolved: Resolved, cache: BuildCache, arch: str = "sm_90a") -> str:
    """The gate's message, empty where it lets the build pass."""
    build = compile_cuda(source, resolved, arch, cache)
    assert isinstance(build, Build), build
    fault = gate_cuda(build, resolved)
    if fault is None:
        return ""
    assert (fault.verdict, fault.stage) == (Verdict.GATE_VIOLATION, Stage.GATE)
    return fault.message


@pytest.mark.parametrize(("name", "arch"), EACH_HONEST)
def test_honest_kernels_pass(name: str, arch: str, cache: BuildCache) -> None:
    assert message_of((DATA / name).read_text(), HONEST[name][1], cache, arch) == ""


@pytest.mark.parametrize(
    "body",
    [
        'asm volatile("trap;");',
        "__nanosleep(100);",
        'unsigned s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); x[0] = s;',
        'asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(x));',
        'unsigned long long p; asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(p)); x[0] = p;',
        'asm volatile("griddepcontrol.wait;");',
        "float* gate_clock = x; gate_clock[0] = n; /* globaltimer */",
    ],
)
def test_what_is_allowed_passes(body: str, cache: BuildCache) -> None:
    assert message_of(f"{HEAD} {body} }}", PLAN, cache) == ""


def test_helpers_tables_and_templates_pass(cache: BuildCache) -> None:
    source = f"""
__constant__ float table[4] = {{1.f, 2.f, 3.f, 4.f}};
template<int N> __device__ __noinline__ float power(float v) {{ return N ? v * power<N ? N - 1 : 0>(v) : 1.f; }}
static __device__ __noinline__ float twice(float v) {{ return 2.f * v; }}
{HEAD} x[n] = power<3>(x[n]) + twice(table[n & 3]); }}
"""
    assert message_of(source, PLAN, cache) == ""


STATE = {
    "D1 device cache": f"__device__ float cache[100]; {HEAD} x[n] = cache[n]; cache[n] = x[n + 1]; }}",
    "D1 initialised": f"__device__ int calls = 1; {HEAD} x[n] = calls++; }}",
    "D1 static": f"{HEAD} static __device__ int calls; x[n] = calls++; }}",
    "D1 inline assembly": f'{HEAD} unsigned c; asm volatile("{{.global .u32 calls; ld.global.u32 %0, [calls]; '
    f'st.global.u32 [calls], 5;}}" : "=r"(c)); x[n] = c; }}',
    "D4 managed": f"__managed__ float cache[4]; {HEAD} x[n] = cache[n]; cache[n] = 1.f; }}",
    "D34 giant static": f"__device__ char big[8ull << 30]; {HEAD} big[n * 1000ull] = 1; x[n] = big[n]; }}",
    "string": f'{HEAD} const char* text = "hello"; x[n] = text[n]; }}',
}


@pytest.mark.parametrize("attack", sorted(STATE))
def test_state_that_outlives_a_launch_is_refused(attack: str, cache: BuildCache) -> None:
    assert "outlive a launch" in message_of(STATE[attack], PLAN, cache)


@pytest.mark.parametrize("arch", EACH_ARCH)
def test_state_is_seen_on_every_architecture(arch: str, cache: BuildCache) -> None:
    assert "device variables (cache), which outlive a launch" in message_of(STATE["D1 device cache"], PLAN, cache, arch)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("malloc", "float* p = (float*)malloc(4 * n); p[0] = 1.f; x[n] = p[n - 1];"),
        ("free", "free(x);"),
        ("vprintf", 'printf("speedup 100x");'),
        ("__assertfail", "if (n < 3) __assertfail(0, 0, 0, 0, 0);"),
    ],
)
def test_functions_of_the_driver_are_refused(name: str, body: str, cache: BuildCache) -> None:
    declared = 'extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);'
    message = message_of(f"{declared}\n{HEAD} {body} }}", PLAN, cache)
    assert message.startswith("the source calls ")
    assert name in message


TIME = {
    "clock": "x[n] = clock();",
    "clock64": "x[n] = clock64();",
    "globaltimer": 'unsigned long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); x[n] = t;',
    "timer_lo": 'unsigned t; asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(t)); x[n] = t;',
    "clock_hi": 'unsigned t; asm volatile("mov.u32 %0, %%clock_hi;" : "=r"(t)); x[n] = t;',
    "pasted": "x[n] = PASTE(clo, ck64)();",
    "digraphs": "<% x<:n:> = clock64(); %>",
    "split string": 'unsigned long long t; asm volatile("mov.u64 %0, %%glo" "baltimer;" : "=l"(t)); x[n] = t;',
    "escaped": 'unsigned long long t; asm volatile("mov.u64 %0, %%\\x63lock64;" : "=l"(t)); x[n] = t;',
    "behind a comment": 'unsigned long long t; asm volatile(".pragma \\"/*\\"; mov.u64 %0, %%clock64; .pragma \\"*/\\";"'
    ' : "=l"(t)); x[n] = t;',
    "counter": 'unsigned t; asm volatile("mov.u32 %0, %%pm0;" : "=r"(t)); x[n] = t;',
    "gridid": 'unsigned long long t; asm volatile("mov.u64 %0, %%gridid;" : "=l"(t)); x[n] = t;',
    "graph": 'unsigned long long t; asm volatile("mov.u64 %0, %%current_graph_exec;" : "=l"(t)); x[n] = t;',
    "envreg": 'unsigned t; asm volatile("mov.u32 %0, %%envreg2;" : "=r"(t)); x[n] = t;',
}


@pytest.mark.parametrize("way", sorted(TIME))
def test_clocks_and_launch_counters_are_refused(way: str, cache: BuildCache) -> None:
    source = f"#define PASTE(a, b) a##b\n{HEAD} {TIME[way]} }}"
    message = message_of(source, PLAN, cache)
    assert message.startswith("the kernel ")
    assert "is not allowed" in message


@pytest.mark.parametrize("text", ["griddepcontrol.launch_dependents;", "griddepcontrol\\n.launch_dependents;"])
def test_early_dependent_launch_is_refused(text: str, cache: BuildCache) -> None:
    message = message_of(f'{HEAD} asm volatile("{text}"); x[n] = 1.f; }}', PLAN, cache)
    assert "releases dependent launches early" in message


@pytest.mark.parametrize(
    ("source", "reaches"),
    [
        (STATE["D1 static"], "state that outlives a launch"),
        (f"{HEAD} x[n] = clock64(); }}", "reads a clock"),
        (f'{HEAD} printf("x"); }}', ""),
        (HEAD.replace("int n", "float n") + " x[0] = n; }", ""),
        (HEAD.replace('extern "C" ', "") + " x[n] = 1.f; }", ""),
    ],
)
def test_what_lets_a_kernel_cheat_is_told_from_a_mistake(source: str, reaches: str, cache: BuildCache) -> None:
    build = compile_cuda(source, PLAN, "sm_90a", cache)
    assert isinstance(build, Build)
    fault = gate_cuda(build, PLAN)
    assert fault is not None
    assert fault.reaches == fault.cheats == reaches


def test_an_entry_point_injected_by_assembly_is_refused(cache: BuildCache) -> None:
    source = f'{HEAD} asm volatile("ret;}}\\n.visible .entry evil(.param .u64 p) {{"); }}'
    assert "entry point evil" in message_of(source, PLAN, cache)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (HEAD.replace('extern "C" ', "") + " x[n] = 1.f; }", ('extern "C" __global__ void k(...)', "_Z1kPfi")),
        (HEAD.replace(" k(", " other(") + " x[n] = 1.f; }", ("has no such kernel", "plan launches k")),
        (HEAD + ' x[n] = 1.f; } extern "C" __global__ void extra(float* x) { x[0] = 2.f; }', ("entry point extra",)),
    ],
)
def test_kernels_must_be_those_of_the_plan(source: str, words: tuple[str, ...], cache: BuildCache) -> None:
    message = message_of(source, PLAN, cache)
    assert all(word in message for word in words), message


def test_a_kernel_that_this_scenario_does_not_launch_passes(cache: BuildCache) -> None:
    source = HEAD + ' x[n] = 1.f; } extern "C" __global__ void tail(float* x) { x[0] = 2.f; }'
    assert message_of(source, plan(launch("k", "x:p n:i"), kernels=("k", "tail")), cache) == ""


STRUCT = "struct alignas(64) M { char b[128]; }; struct W { char b[128]; }; struct S { char b[8]; };"


@pytest.mark.parametrize(
    ("parameters", "args", "words"),
    [
        ("float* a, int n", "a:p n:i scale:f", "takes 2 parameters, the plan passes 3: a, n, scale"),
        ("float* a, int n, float s, int m", "a:p n:i s:f", "takes 4 parameters, the plan passes 3"),
        ("", "a:p", "takes 0 parameters, the plan passes 1: a"),
        ("float* a, long long n", "a:p n:i", "parameter 2: the plan passes n as an int, the kernel takes a pointer or 64-bit"),
        ("float* a, int n", "a:p b:w", "parameter 2: the plan passes b as a pointer, the kernel takes an int"),
        ("float* a, float n", "a:p n:i", "passes n as an int, the kernel takes a float"),
        ("float* a, int s", "a:p s:f", "passes s as a float, the kernel takes an int"),
        ("float* a, double s", "a:p s:f", "the kernel takes a double"),
        ("float* a, short n", "a:p n:i", "the kernel takes a 2-byte value"),
        ("float* a, int n", "n:i a:p", "parameter 1: the plan passes n as an int"),
        ("const __grid_constant__ W m, float* a", "m:m a:p", "a struct of 128 bytes aligned to 1"),
        ("const M* m, float* a", "m:m a:p", "passes m as a 128-byte struct with alignas(64), by value"),
        ("const __grid_constant__ M m, float* a", "m:p a:p", "a struct of 128 bytes aligned to 64"),
    ],
)
def test_arguments_must_match(parameters: str, args: str, words: str, cache: BuildCache) -> None:
    source = f'{STRUCT} extern "C" __global__ void k({parameters}) {{ }}'
    assert words in message_of(source, plan(launch("k", args)), cache, "sm_90a")


@pytest.mark.parametrize("arch", EACH_ARCH)
def test_arguments_of_every_kind_pass(arch: str, cache: BuildCache) -> None:
    source = f"""{STRUCT}
    extern "C" __global__ void k(const __grid_constant__ M m, float* __restrict__ a, const unsigned short* w, unsigned n,
         float s, const __grid_constant__ M m2, int last) {{ a[n] = s * w[last] + m.b[n] + m2.b[last]; }}"""
    assert message_of(source, plan(launch("k", "m:m a:p w:w n:i s:f m2:m last:i")), cache, arch) == ""


BIG_STACK = HEAD + " float v[2000]; for (int i = 0; i < n; ++i) v[int(x[i])] = x[i * n]; x[n] = v[n]; }"
STATIC = HEAD + " __shared__ float t[10000]; t[threadIdx.x] = x[n]; __syncthreads(); x[n] = t[threadIdx.x ^ 1]; }"


@pytest.mark.parametrize(
    ("source", "sizes", "arch", "words"),
    [
        (BIG_STACK, {}, "sm_90a", "8000 bytes of stack a thread"),
        (STATIC, {"shared_bytes": 180 * 1024}, "sm_90a", ""),
        (
            STATIC,
            {"shared_bytes": 190 * 1024},
            "sm_90a",
            "40000 bytes of static and 194560 of dynamic shared memory, sm_90a has 232448",
        ),
        (STATIC, {"shared_bytes": 80 * 1024}, "sm_89", "sm_89 has 101376"),
        (
            HEAD.replace("void k", "void __launch_bounds__(64) k") + " x[n] = 1.f; }",
            {},
            "sm_80",
            "built for 64 threads at most, the plan's block has 128",
        ),
        (
            HEAD.replace("void k", "void __cluster_dims__(2, 1, 1) k") + " x[n] = 1.f; }",
            {},
            "sm_90a",
            "requires clusters of (2, 1, 1)",
        ),
        (HEAD.replace("void k", "void __cluster_dims__(2, 1, 1) k") + " x[n] = 1.f; }", {"cluster": (2, 1, 1)}, "sm_90a", ""),
    ],
)
def test_sizes(source: str, sizes: dict[str, object], arch: str, words: str, cache: BuildCache) -> None:
    message = message_of(source, plan(launch("k", "x:p n:i", **sizes)), cache, arch)
    assert words in message
    assert bool(words) == bool(message)


def test_too_many_registers_for_the_block(cache: BuildCache) -> None:
    source = HEAD + " float v[100];\n#pragma unroll\nfor (int i = 0; i < 100; ++i) v[i] = x[i * 512 + threadIdx.x];"
    source += "__syncthreads();\n#pragma unroll\nfor (int i = 0; i < 100; ++i) x[i * n + threadIdx.x] = v[99 - i]; }"
    assert "write __launch_bounds__(1024)" in message_of(source, plan(launch("k", "x:p n:i", block=(1024, 1, 1))), cache)
    assert message_of(source, plan(launch("k", "x:p n:i", block=(256, 1, 1))), cache) == ""


POINTER = "typedef float (*F)(const float*, int);"
RECURSION = {
    "itself": (
        "__device__ __noinline__ float f(const float* x, int n) { return n < 0 ? 1.f : x[n] * f(x, n - 1) + f(x, n - 2); }",
        "f",
    ),
    "each other": (
        "__device__ float g(const float* x, int n);"
        "__device__ __noinline__ float f(const float* x, int n) { return n < 0 ? 1.f : x[n] + g(x, n - 1) * g(x, n - 3); }"
        "__device__ __noinline__ float g(const float* x, int n) { return n < 0 ? 2.f : x[n] * f(x, n - 2) - f(x, n >> 1); }",
        "f",
    ),
    "by its address": (
        POINTER + "__device__ __noinline__ float f(const float* x, int n) { volatile F again = f; "
        "return n < 0 ? 1.f : x[n] + again(x, n - 1); }",
        "f",
    ),
}


@pytest.mark.parametrize("way", sorted(RECURSION))
def test_recursion_shows_in_the_ptx_alone(way: str, cache: BuildCache) -> None:
    source, name = RECURSION[way]
    resolved = plan(launch("k", "x:p n:i"))
    build = compile_cuda(f"{source} {HEAD} x[n] = f(x, n); }}", resolved, "sm_90a", cache)
    assert isinstance(build, Build)
    found = recursive_function(build.ptx, "k")
    assert found is not None
    assert f"{len(name)}{name}" in found  # mangled
    assert f"kernel k calls {found}, which calls itself" in message_of(f"{source} {HEAD} x[n] = f(x, n); }}", resolved, cache)


def test_calls_without_a_cycle_are_no_recursion() -> None:
    ptx = """.version 9.0
.target sm_90a
.extern .func (.param .b32 r) outside(.param .b32 a);
.func (.param .b32 func_retval0) leaf(.param .b32 leaf_param_0) { ret; }
.func  (.param .b32 func_retval0) middle(
    .param .b32 middle_param_0
)
{ { call.uni (r), leaf, (p); } call.uni (r), leaf, (p); ret; }
.func loop(.param .b32 a) .noreturn { call.uni loop, (a); } // call loop
.visible .entry k(.param .u64 k_param_0) { mma {%r1, %r2}; call.uni (r), middle, (p); call (r), outside, (p); ret; }
.visible .entry spins(.param .u64 p) { call.uni loop, (p); }
"""
    assert recursive_function(ptx, "k") is None
    assert recursive_function(ptx, "spins") == "loop"
    assert recursive_function(ptx.replace("{ ret; }", "{ call.uni middle, (p); ret; }"), "k") == "middle"
    assert recursive_function(ptx.replace("(r), leaf", "(r), /* leaf */ far_leaf"), "k") is None


def test_a_huge_cubin_is_refused(cache: BuildCache, tmp_path: Path) -> None:
    build = compile_cuda(f"{HEAD} x[n] = 1.f; }}", PLAN, "sm_80", cache)
    assert isinstance(build, Build)
    big = tmp_path / "big"
    big.write_bytes(build.path.read_bytes() + bytes(5 << 20))
    fault = gate_cuda(replace(build, path=big), PLAN)
    assert fault is not None
    assert "unroll less" in fault.message


def test_the_cubin_counts_and_not_only_the_ptx(cache: BuildCache) -> None:
    honest = compile_cuda(f"{HEAD} x[n] = 1.f; }}", PLAN, "sm_80", cache)
    attack = compile_cuda(STATE["D1 device cache"], PLAN, "sm_80", cache)
    assert isinstance(honest, Build)
    assert isinstance(attack, Build)
    fault = gate_cuda(replace(attack, ptx=honest.ptx), PLAN)
    assert fault is not None
    assert "outlive a launch" in fault.message


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"not an object", bytes(1000)])
def test_what_is_no_cubin_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(CubinError):
        read_cubin(data)
    path = tmp_path / "x.cubin"
    path.write_bytes(data)
    fault = gate_cuda(Build(key="0", path=path), PLAN)
    assert fault is not None
    assert fault.verdict is Verdict.GATE_VIOLATION


def test_ptx_reader_on_spellings_that_a_compiler_does_not_write() -> None:
    ptx = """.version 9.0
.target sm_90a
// .global .u32 in_a_comment;
.visible .global .align 4 .b8 first[400] = {1, 2};
/* .entry hidden() {} */
.weak .entry k(.param .u64 .ptr .global .align 16 k_param_0, .param .align 64 .b8 k_param_1[128])
.maxntid 128, 2
.reqnctapercluster 2
{ .pragma "; .global .u32 text;"; ld
.global.u32 %r1, [first]; L: .global .u64 second; ret; }
"""
    assert device_variables(ptx) == ("first", "second")
    (entry,) = read_entries(ptx)
    assert (entry.name, entry.max_threads, entry.required_block, entry.required_cluster) == ("k", 256, None, (2, 1, 1))
    assert [(p.size_bytes, p.align_bytes) for p in entry.parameters] == [(8, 8), (128, 64)]
