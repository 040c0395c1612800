"""Sources that want a compiler's whole machine: each ends in a verdict within its limits, with its memory, and leaves nothing."""

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluator.backend import Build
from evaluator.cache import BuildCache
from evaluator.cpu.build import build_candidate
from evaluator.cpu.gate import gate as gate_cpu
from evaluator.cuda.gate import gate_cuda
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.outcome import Fault, Verdict
from evaluator.plan.resolved import Resolved
from evaluator.sandbox import Limits
from tests.evaluator.cuda_cases import launch, plan
from tests.evaluator.fuzzing import check_fault, nothing_left

LIMITS = Limits(cpu_s=4, wall_s=15.0, memory_bytes=1 << 30, file_bytes=16 << 20)
RESOLVED = plan(launch("k", "x:p n:i"))
KERNEL = {
    "cu": 'extern "C" __global__ void k(float* x, int n) {{ {body} }}\n',
    "cpp": 'extern "C" void k(long n, void* const* args) {{ float* x = (float*)args[0]; {body} }}\n',
}
INLINE = {"cu": "__forceinline__ __device__", "cpp": "__attribute__((always_inline)) inline"}
TABLE = {"cu": "__constant__", "cpp": "extern const"}
DOUBLED = "".join(f"#define A{i} A{i + 1} A{i + 1}\n" for i in range(40))
BOTH = {
    "deep templates": ("template<long N> struct F { static const long v = F<N + 1>::v + 1; }; constexpr long z = F<0>::v;", ""),
    "wide templates": (
        "template<int D, long P> struct T : T<D - 1, 2 * P>, T<D - 1, 2 * P + 1> {}; template<long P> struct T<0, P> {};"
        "constexpr int z = sizeof(T<30, 0>);",
        "",
    ),
    "constexpr loop": (
        "constexpr long f() { long s = 0; for (long i = 0; i < (1L << 40); ++i) s += i * i; return s; } constexpr long z = f();",
        "",
    ),
    "constexpr recursion": ("constexpr long f(long n) { return n < 2 ? n : f(n - 1) + f(n - 2); } constexpr long z = f(90);", ""),
    "constexpr table": ("struct S { float v[1 << 28]; constexpr S() : v() { v[5] = 1; } }; {table} S z = S();", "x[0] = z.v[n];"),
    "macros": (DOUBLED + "#define A40 +1\n", "x[0] = 0 A0;"),
    "pasted text": (DOUBLED + '#define A40 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"\n', "x[0] = sizeof(A0);"),
    "inlined calls": (
        "{inline} float f0(float v) { return v * v + 1.f; }\n"
        + "".join(
            f"{{inline}} float f{i}(float v) {{ return f{i - 1}(v + {i}.f) * f{i - 1}(v - {i}.f); }}\n" for i in range(1, 24)
        ),
        "x[0] = f23(x[n]);",
    ),
    "a large array": ("{table} float z[1 << 28] = {1.f, 2.f};", "x[0] = z[n];"),
    "includes itself": ("#include __FILE__\n#include __FILE__\n", ""),
    "error flood": ("".join(f'#warning "{"w" * 200}{i}"\n' for i in range(900)), "nonsense;" * 20_000),
}
ONE = {
    "long names": (
        "cu",
        "template<class A, class B> struct P {}; "
        "template<int N> struct N_ { using t = P<typename N_<N - 1>::t, typename N_<N - 1>::t>; };"
        "template<> struct N_<0> { using t = int; };"
        "template<class T> struct Q { static const T* v; }; auto z = Q<N_<28>::t>::v;",
        "",
    ),
    "parentheses": ("cpp", "", f"x[0] = {'(' * 60_000}n{')' * 60_000};"),
    "unrolling": ("cu", "", "\n#pragma unroll\nfor (int i = 0; i < 700; ++i)\n#pragma unroll\nfor (int j = 0; j < 700; ++j) "
                  "x[i * j] = x[i + j] * x[i ^ j] + x[j];"),
    "giant assembly": ("cu", DOUBLED + '#define A40 "add.f32 %0, %0, %0;"\n', 'asm volatile(A20 : "+f"(x[0]));'),
    "repeated assembly": ("cpp", 'asm(".rept 1000000000\\n nop\\n .endr");', ""),
    "nested repetition": ("cpp", 'asm(".macro m n\\n.if \\\\n\\n m \\\\n-1\\n m \\\\n-1\\n.endif\\n.endm\\n m 60");', ""),
    "filled assembly": ("cpp", 'asm(".fill 4000000000, 1, 7");', ""),
    "assembly reads a device": ("cpp", 'asm(".incbin \\"/dev/zero\\"");', ""),
    "an endless header": ("cpp", '#include "/dev/zero"\n', ""),
    "an embedded device": ("cpp", 'const unsigned char z[] = {\n#embed "/dev/zero"\n};', ""),
    "unrolled loops": ("cpp", "", "\n#pragma GCC unroll 65534\nfor (int i = 0; i < 65534; ++i)\n#pragma GCC unroll 65534\n"
                       "for (int j = 0; j < 65534; ++j) x[i * j] = x[i + j] * x[i ^ j] + x[j];"),
}  # fmt: skip
CASES = {f"{name}, {language}": (language, *parts) for name, parts in BOTH.items() for language in KERNEL} | ONE


def judge(language: str, source: str, cache: BuildCache) -> Fault | None:
    build = (
        compile_cuda(source, RESOLVED, "sm_90a", cache, LIMITS)
        if language == "cu"
        else build_candidate(source, RESOLVED, cache, LIMITS)
    )
    gate: Callable[[Build, Resolved], Fault | None] = gate_cuda if language == "cu" else gate_cpu
    return build if isinstance(build, Fault) else gate(build, RESOLVED)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", CASES)
def test_a_bomb_ends_in_a_verdict_within_its_limits(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    language, top, body = CASES[name]
    top = top.replace("{inline}", INLINE[language]).replace("{table}", TABLE[language])
    largest: list[int] = []
    wait4 = os.wait4

    def watched(pid: int, options: int) -> tuple[int, int, resource.struct_rusage]:
        found = wait4(pid, options)
        largest.append(found[2].ru_maxrss * 1024)
        return found

    monkeypatch.setattr(os, "wait4", watched)
    cache = BuildCache(tmp_path / "cache")
    with nothing_left(tmp_path, monkeypatch):
        fault = judge(language, f"{top}\n{KERNEL[language].format(body=body)}", cache)
    print(fault and (fault.verdict, fault.message))
    assert fault is not None
    assert fault.verdict in (Verdict.COMPILE_LIMIT, Verdict.COMPILE_ERROR)
    check_fault(fault)
    assert max(largest) <= LIMITS.memory_bytes
