"""A grammar of the mistakes that models make in device code, and a few traps. Each spoils what follows the plan."""

import re
from collections.abc import Mapping, Sequence
from random import Random

from tests.evaluator.plan_mistakes import Mistake

HOST_HEADERS = (
    "iostream", "cstdio", "vector", "algorithm", "cmath", "torch/extension.h", "cuda_runtime.h", "mma.h",
    "cooperative_groups.h", "cutlass/cutlass.h", "cuda/std/limits", "stdio.h", "immintrin.h", "omp.h", "thread", ".", "..",
    "/", "a/..", "~/x",
)  # fmt: skip
STATEMENTS = (
    'printf("%d\\n", 1);', "std::vector<float> v(8);", "std::cout << 1;", "float z = std::max(1.0f, 2.0);",
    "auto z = undefined_name + 1;", "int z = __shfl_xor_sync(1);", "float4 z = make_float4(1, 2);", "__syncthreads(1, 2);",
    "throw 1;", "try { } catch (...) { }", "int* z = new int[4]; z[0] = 1;", "kernel<<<1, 2>>>();", "static int z; z++;",
    "assert(0);", "long z = clock();", "long z = clock64();", 'asm volatile("mov.u32 %0, %%tidx;" : "=r"(z));',
    'asm volatile("mma.sync.m16n8k16 {%0};" : : "r"(1));', 'asm("nonsense");',
    'asm volatile("cp.async.cg.shared.global [%0], [%1], 3;" :: "r"(0), "l"(0ull));', 'asm volatile("{");',
    'asm(".incbin \\"/etc/passwd\\"");', 'asm volatile("mov.f32 %0, %1;" : "=f"(1.0f));', "constexpr int z = 1 / 0;",
    "int z[-1];", "int z = 5 % 0;", "goto nowhere;", "return 5;", "__shared__ float z[1 << 20];",
    "float z[1 << 24]; z[threadIdx.x] = 1;", "while (true) { }", "for (;;);", "int z = *(int*)0;", "__trap();",
    "template<int N> int z;", "auto z = [](auto a) { return a; }(1, 2);", "half z = 1.0h;",
    "__nv_bfloat16 z = __float2bfloat16(1, 2);", "wgmma::fence();", "cuda::barrier<cuda::thread_scope_block> z;",
    "cudaMalloc(0, 4);", "thread_local int z;", "#error stop here", '#line 3 "/etc/passwd"\nint z = nonsense;',
    "int z = sizeof(void);", "using namespace std;", "alignas(3) int z;", "co_return 1;",
    "extern int elsewhere; elsewhere = 1;", "extern \"C\" void missing(); missing();", "volatile int z = 0; z = z / z;",
    "// } \\", "/* open",
)  # fmt: skip
TOP = (
    "__device__ float cache[64];", "static float table[64];", "__constant__ float big[1 << 20];", "int main() { return 0; }",
    "import torch", "template<int N> struct F { static const int v = F<N - 1>::v; }; int z = F<5>::v;", "namespace {",
    "class K : Unknown { };", "%%writefile x", "__managed__ int shared_flag;", "constexpr float inf = 1.0 / 0.0;",
    "float counter = compute();", "#define float double", "#if 1", "#endif", "#define if while", '#include "{canary}"',
    "#include <{canary}>", '#include "/proc/self/environ"', "#pragma unroll 1000000", "@triton.jit",
    "__attribute__((constructor)) void early() { }", 'asm(".globl evil");', 'asm(".include \\"{canary}\\"");',
    "using T = decltype(nothing);", "__global__ void extra(float* x) { x[0] = 1; }", "}", "{", ";", "\\", "#", "...",
    "<the rest as before>", "```", "\u201cquoted\u201d", "\x07",
    "__device__ int deep(int n) { return n ? deep(n - 1) + deep(n - 2) : 1; }",
    "static_assert(sizeof(int) == 8, \"{canary}\");", "#include",
)  # fmt: skip
SIGNS = {
    "(": "[",
    ";": ",",
    "{": "(",
    "*": "&",
    "<": "<<",
    "=": "==",
    "float": "floot",
    "int": "size",
    "[": "(",
    "+": "++",
    "0": "O",
}


def _code(source: str) -> int:
    """Where the code begins."""
    end = source.find("*/")
    return end + 2 if end >= 0 else 0


def _swapped(rng: Random, source: str, pattern: str, others: Sequence[str]) -> str:
    start = _code(source)
    found = list(re.finditer(pattern, source[start:]))
    if not found:
        return source
    chosen = rng.choice(found)
    return source[: start + chosen.start()] + rng.choice(others) + source[start + chosen.end() :]


def _statement(rng: Random, source: str) -> str:
    """A statement after some opening brace."""
    found = [match.end() for match in re.finditer(r"\{\n", source[_code(source) :])]
    at = _code(source) + (rng.choice(found) if found else 0)
    return f"{source[:at]}\n{rng.choice(STATEMENTS)}\n{source[at:]}"


def _top(rng: Random, source: str) -> str:
    """A line between functions, or anywhere."""
    start = _code(source)
    starts = [start, len(source), start + rng.randrange(len(source) - start + 1)]
    at = rng.choice(starts)
    return f"{source[:at]}\n{rng.choice(TOP)}\n{source[at:]}"


def _sign(rng: Random, source: str) -> str:
    sign = rng.choice(list(SIGNS))
    return _swapped(rng, source, re.escape(sign), (SIGNS[sign], ""))


def _parameters(rng: Random, source: str) -> str:
    """Parameters of the last function lost, doubled, in another order, or of another type."""
    found = list(re.finditer(r"\b\w+\(([^(),]{0,500},[^()]{0,5000})\)\s*\{", source))
    if not found:
        return source
    match = found[-1]
    names = match[1].split(",")
    way = rng.randrange(4)
    if way == 0:
        del names[rng.randrange(len(names))]
    elif way == 1:
        rng.shuffle(names)
    elif way == 2:
        names.append(
            rng.choice(("int extra", "float* extra", "const int& extra", "std::string extra", "extra", "...", "int n = 5"))
        )
    else:
        at = rng.randrange(len(names))
        names[at] = re.sub(
            r"\b(int|float|Element)\b", rng.choice(("long", "double", "half", "void", "auto", "float4", "Tensor")), names[at]
        )
    return source[: match.start(1)] + ",".join(names) + source[match.end(1) :]


def _lines(rng: Random, source: str) -> str:
    start = _code(source)
    lines = source[start:].split("\n")
    at = rng.randrange(len(lines))
    way = rng.randrange(4)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(at, lines[rng.randrange(len(lines))])
    elif way == 2:
        lines = [f"{number}: {line}" for number, line in enumerate(lines, 1)]
    else:
        lines[at] = rng.choice(("+", "-", "> ", "// ", "\\")) + lines[at]
    return source[:start] + "\n".join(lines)


SOURCE_MISTAKES: Mapping[str, Mistake] = {
    "linkage": lambda rng, source: source.replace('extern "C"', rng.choice(("", "extern C", 'extern "C++"', "static")), 1),
    "no kernel": lambda rng, source: source.replace(
        "__global__", rng.choice(("", "__device__", "__host__ __device__", "__globl__")), 1
    ),
    "a sign": _sign,
    "a brace": lambda rng, source: _swapped(rng, source, r"[{}();]", ("", "{", "}", "((", ";;")),
    "a name": lambda rng, source: _swapped(
        rng, source, r"\b[a-z]\w*\b", ("undefined_name", "std::", "this", "0x", "template", "\u0430b")
    ),
    "a statement": _statement,
    "a line between": _top,
    "a header": lambda rng, source: (
        source[: _code(source)] + f"\n#include <{rng.choice(HOST_HEADERS)}>\n" + source[_code(source) :]
    ),
    "a quoted header": lambda rng, source: (
        source[: _code(source)] + f'\n#include "{rng.choice(HOST_HEADERS)}"\n' + source[_code(source) :]
    ),
    "parameters": _parameters,
    "lines": _lines,
    "template arguments": lambda rng, source: _swapped(
        rng, source, r"\b\w+\(", ("f<int, 3>(", "__shfl_down_sync<float>(", "operator(", "f<>(")
    ),
    "cut off": lambda rng, source: source[: rng.randrange(_code(source), len(source) + 1)],
    "twice": lambda rng, source: source + source[_code(source) :],
    "carriage returns": lambda rng, source: source.replace("\n", "\r\n"),
}
