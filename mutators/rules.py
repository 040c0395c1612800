"""What a prompt says about a candidate's form: the rules that most often cost one, in short (docs/candidate.md, gates.md)."""

from collections.abc import Mapping

from population.candidate import Language

_PLAN = """Plan: the comment begins with `/* plan` at the start of a line, holds TOML (`#` comments) and ends at the first `*/`.
Only `//` lines may stand above it. Every key must be a known one. Sizes are integers or quoted integer expressions
(`+ - * // %`, comparisons, `and or not`, `a if c else b`, `ceil_div min max`; `/` only where it divides evenly) over
scenario symbols, knobs, `sm_count` and `shared_limit`; `domain`, a launch's `when` and conditions of knobs see
scenario symbols only. Constants and scalars can't stand in other expressions. A knob is `{ value, choices, when =
[[condition, value]] }`: integers, each value among `choices`, first condition that holds wins. Knobs and constants
reach the code as macros, so the code must not define these names. `args` lists the arguments in the order of the
kernel's parameters: a tensor or workspace is a pointer, an integer symbol or `[scalars]` entry an `int`, a float
argument a `float`. Every output must be among the arguments."""

_CUDA = """The source is one file of device code. The harness compiles it with NVRTC (C++17), launches what the plan says, checks
and times it; there is no host code, no launch, no library (no CUTLASS, CuTe, cuBLAS, cuDNN).

- Write `extern "C" __global__ void NAME(...)` for each `[[launch]]`, and no other kernel. A tensor map is a 128-byte
  struct with `alignas(64)`, taken as `const __grid_constant__`.
- Include nothing but `<cuda_fp16.h>` and `<cuda_bf16.h>`: there are no host headers (`<cstdint>`, `<math.h>`,
  `<cuda.h>`), and `<cuda/barrier>`, `<cuda/pipeline>`, `<cooperative_groups.h>` cost many seconds a build. Write
  barriers, TMA and wgmma as inline PTX.
- Constants: an `enum`, a macro, or `constexpr` inside a function. A scalar `constexpr` at namespace scope passes only
  while no instruction names it (take no address or reference of it). Tables that are indexed at run time need
  `__constant__`, 64 KiB in all.
- Nothing may outlive a launch: no `__device__` or `__managed__` variables, no `static`, no string literals, no
  `.global` in inline PTX. Scratch memory is a `[workspace]`; a counter there has `init = "zero", self_resetting =
  true`, and the kernel zeroes it again.
- Refused too: `printf`, `assert`, `malloc`; clocks, timers and performance counters; `%gridid`, `%envreg` (which
  `grid.sync()` reads) and `griddepcontrol.launch_dependents`; recursion, and more than 4 KiB of stack a thread.
- `__launch_bounds__` must admit the plan's `block`, registers must fit it, and static plus dynamic shared memory must
  stay within `shared_limit`.
- Inputs are read-only. Every element of every output is compared, in every scenario of the domain; reads and writes
  beyond a tensor's end are caught."""

_CPP = """The source is one file, compiled with `g++ -std=c++20 -O3 -march=native` without exceptions. The harness calls what
the plan says, checks and times it.

- Write `extern "C" void NAME(long task, void* const* args)` for each `[[launch]]`. It is called once for each task of
  the grid (x fastest), from several threads in no particular order. `args[i]` points to a tensor's first element or
  to a scalar's value.
- A launch has no `block`, `cluster`, `cooperative` or `shared`, a plan no `[tensor_maps]`.
- No threads, OpenMP, heap, input or output. Only `expf exp2f logf sqrtf fmaxf fminf memcpy memmove memset` may be
  called.
- Nothing may outlive a task: no global, `static` or thread-local variables that can be written, no objects with
  constructors at namespace scope. Scratch memory is a `[workspace]`, or the stack (1 MiB).
- Inputs are read-only. Every element of every output is compared, in every scenario of the domain; reads and writes
  beyond a tensor's end are caught."""

RULES: Mapping[Language, str] = {Language.CUDA: f"{_CUDA}\n\n{_PLAN}", Language.CPP: f"{_CPP}\n\n{_PLAN}"}
"""The rules for candidates of each language."""
