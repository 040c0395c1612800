"""What common kernel benchmarks do with one candidate: build a torch extension, compare by ``allclose``, time by events.

Written from how such benchmarks describe themselves (KernelBench: five trials of correctness, a hundred timed executions of
candidate and reference after three to warm up), around the same kernel and launches as the harness has. It shows what that costs;
its numbers are not to be believed.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from evaluator.plan.resolved import ArgumentKind, Resolved
from evaluator.screen import Screened
from evaluator.task_card import Scenario

TRIALS = 5
WARM_RUNS = 3
TIMED_RUNS = 100
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
LAUNCHER = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
namespace candidate {
%s
}
void run(std::vector<at::Tensor> t, double scale, std::vector<int64_t> n, int64_t grid, int64_t block, int64_t shared) {
    auto kernel = candidate::attention_forward;
    C10_CUDA_CHECK(cudaFuncSetAttribute((const void*)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    using Bits = candidate::Bits;
    kernel<<<grid, block, shared, at::cuda::getCurrentCUDAStream()>>>(
        (const Bits*)t[0].data_ptr(), (const Bits*)t[1].data_ptr(), (const Bits*)t[2].data_ptr(), (Bits*)t[3].data_ptr(),
        (float*)t[4].data_ptr(), (float)scale, %s);
    C10_CUDA_CHECK(cudaGetLastError());
}
"""
DECLARATION = "void run(std::vector<at::Tensor>, double, std::vector<int64_t>, int64_t, int64_t, int64_t);"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Seconds for one candidate: all, its build, everything else."""

    whole_s: float
    build_s: float
    run_s: float


def missing() -> str | None:
    """What this host lacks for ``load_inline``; None where all is there."""
    from torch.utils.cpp_extension import CUDA_HOME

    if CUDA_HOME is None or not (Path(CUDA_HOME) / "bin" / "nvcc").exists():
        return "torch finds no CUDA toolkit with nvcc (set CUDA_HOME)"
    return None if shutil.which("ninja") else "ninja isn't installed: pip install ninja"


def loop_over(source: str, screened: Screened, folder: Path) -> Loop:
    """Build the kernel (one build for all scenarios, which must agree on their defines), check and time it in each of them."""
    defines = {tuple(sorted(resolved.defines.items())) for resolved in screened.resolved}
    if len(defines) != 1:
        raise ValueError(f"one build was expected for these scenarios, the plan asks for {len(defines)}")
    began = time.monotonic()
    module = _built(source, screened.resolved[0], folder)
    build_s = time.monotonic() - began
    for scenario, resolved in zip(screened.scenarios, screened.resolved, strict=True):
        _checked_and_timed(module, scenario, resolved)
    whole_s = time.monotonic() - began
    return Loop(whole_s=whole_s, build_s=build_s, run_s=whole_s - build_s)


def _built(source: str, resolved: Resolved, folder: Path) -> Any:
    from torch.utils.cpp_extension import load_inline

    integers = sum(argument.kind is ArgumentKind.INT32 for argument in resolved.launches[0].args)
    code = LAUNCHER % (source, ", ".join(f"(int)n[{index}]" for index in range(integers)))
    return load_inline(
        name=f"candidate_{time.time_ns()}",
        cpp_sources=DECLARATION,
        cuda_sources=code,
        functions=["run"],
        extra_cuda_cflags=["-O3", "--expt-relaxed-constexpr", *(f"-D{name}={text}" for name, text in resolved.defines.items())],
        build_directory=str(folder),
    )


def _checked_and_timed(module: Any, scenario: Scenario, resolved: Resolved) -> tuple[float, float]:
    """Mean times (ms) of candidate and torch, by the host's launches. SystemExit where the outputs aren't close."""
    symbols = scenario.symbols
    b, sq, sk, h, hkv, d = (int(symbols[name]) for name in ("b", "sq", "sk", "h", "hkv", "d"))
    dtype = DTYPES[str(symbols["dtype"])]
    launch = resolved.launches[0]
    integers = [int(argument.value or 0) for argument in launch.args if argument.kind is ArgumentKind.INT32]
    out, lse = torch.empty((b, sq, h, d), dtype=dtype, device="cuda"), torch.empty((b, h, sq), device="cuda")
    for trial in range(TRIALS):
        torch.manual_seed(trial)
        q = torch.randn((b, sq, h, d), dtype=dtype, device="cuda")
        k, v = (torch.randn((b, sk, hkv, d), dtype=dtype, device="cuda") for _ in range(2))
        tensors = [q, k, v, out, lse]

        def candidate(tensors: list[torch.Tensor] = tensors) -> None:
            module.run(tensors, d**-0.5, integers, launch.grid[0], launch.block[0], launch.shared_bytes)

        def reference(tensors: list[torch.Tensor] = tensors) -> torch.Tensor:
            heads_first = (tensor.transpose(1, 2) for tensor in tensors[:3])
            causal = bool(symbols["causal"])
            return torch.nn.functional.scaled_dot_product_attention(*heads_first, is_causal=causal, enable_gqa=h != hkv)

        candidate()
        if not torch.allclose(out, reference().transpose(1, 2), rtol=1e-2, atol=1e-2):
            raise SystemExit(f"the loop finds the kernel wrong in {scenario.name}")
    return _mean_ms(candidate), _mean_ms(reference)


def _mean_ms(call: Callable[[], object]) -> float:
    for _ in range(WARM_RUNS):
        call()
    total_ms = 0.0
    for _ in range(TIMED_RUNS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        total_ms += start.elapsed_time(end)
    return total_ms / TIMED_RUNS
