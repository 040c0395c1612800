"""A tiny task for tests of backends: y = s * x, with an optional workspace. No task folder needed."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evaluator.backend import Array, Backend
from evaluator.plan.resolved import Argument, ArgumentKind, Buffer, Resolved, ResolvedLaunch
from evaluator.task_card import Scenario

SCALE = 2.5
BLOCK = 64
BASELINES = """
import numpy as np
from evaluator.baseline import Baseline, Bound

def bind(symbols, inputs, outputs):
    results = []
    def call():
        results[:] = [inputs["x"] * np.float32(2.5)]
    def store():
        outputs["y"][...] = results[0]
    return Bound(call=call, store=store)

def fails(symbols, inputs, outputs):
    return Bound(call=lambda: 1 / 0, store=lambda: None)

def vandal(symbols, inputs, outputs):
    longer = np.lib.stride_tricks.as_strided(outputs["y"], (1008,))
    def call():
        longer[1000:] = 7
    return Bound(call=call, store=lambda: None)

def baseline(name, bind, available=lambda: None):
    return Baseline(name=name, backend="cpu", available=available, version=lambda: np.__version__,
                    supports=lambda symbols: symbols["n"] < 1_000_000, bind=bind)

BASELINES = (baseline("plain", bind), baseline("fails", fails), baseline("vandal", vandal),
             baseline("absent", bind, lambda: "there is no such library"))
"""


CUDA_BASELINES = """
import cupy
import torch
from evaluator.baseline import Baseline, Bound

def bind(symbols, inputs, outputs):
    x, y = torch.from_dlpack(inputs["x"]), torch.from_dlpack(outputs["y"])
    results = []
    def call():
        results[:] = [x * 2.5]
    return Bound(call=call, store=lambda: y.copy_(results[0]), chosen="the only one")

def fails(symbols, inputs, outputs):
    return Bound(call=lambda: 1 / 0, store=lambda: None)

def vandal(symbols, inputs, outputs):
    memory = cupy.cuda.UnownedMemory(outputs["y"].data.ptr, 4004, outputs["y"], cupy.cuda.Device().id)
    longer = torch.from_dlpack(cupy.ndarray((1001,), "float32", cupy.cuda.MemoryPointer(memory, 0)))
    return Bound(call=lambda: longer[1000:].fill_(7.0), store=lambda: None)

def writer(symbols, inputs, outputs):
    x, y = torch.from_dlpack(inputs["x"]), torch.from_dlpack(outputs["y"])
    return Bound(call=lambda: x.fill_(1.0), store=lambda: y.copy_(x))

def baseline(name, bind, available=lambda: None):
    return Baseline(name=name, backend="cuda", available=available, version=lambda: torch.__version__,
                    supports=lambda symbols: symbols["n"] < 1_000_000, bind=bind)

BASELINES = (baseline("plain", bind), baseline("fails", fails), baseline("vandal", vandal), baseline("writer", writer),
             baseline("absent", bind, lambda: "there is no such library"))
"""


def scenario(n: int = 1000) -> Scenario:
    """A scenario of ``n`` elements."""
    return Scenario(name=f"n{n}", symbols={"n": n})


def launch(n: int, workspaces: tuple[Buffer, ...] = (), kernel: str = "scale") -> ResolvedLaunch:
    """Tasks of BLOCK elements; arguments x, y, n, s, then the workspaces."""
    args = (
        Argument(name="x", kind=ArgumentKind.TENSOR),
        Argument(name="y", kind=ArgumentKind.TENSOR),
        Argument(name="n", kind=ArgumentKind.INT32, value=n),
        Argument(name="s", kind=ArgumentKind.FLOAT32, value=SCALE),
        *(Argument(name=buffer.name, kind=ArgumentKind.WORKSPACE) for buffer in workspaces),
    )
    tasks = -(-n // BLOCK)
    return ResolvedLaunch(
        kernel=kernel, grid=(tasks, 1, 1), block=(1, 1, 1), cluster=(1, 1, 1), cooperative=False, shared_bytes=0, args=args
    )


def resolved(n: int = 1000, workspaces: tuple[Buffer, ...] = (), dtype: str = "float32") -> Resolved:
    """The plan for ``n`` elements."""
    return Resolved(
        scenario=f"n{n}",
        defines={"BLOCK": str(BLOCK)},
        knobs={"BLOCK": BLOCK},
        fast_math=False,
        maxrregcount=None,
        nondeterministic=False,
        tensors=(
            Buffer(name="x", role="input", dtype=dtype, shape=(n,)),
            Buffer(name="y", role="output", dtype=dtype, shape=(n,)),
        ),
        workspaces=workspaces,
        tensor_maps=(),
        launches=(launch(n, workspaces),),
    )


def with_kernels(plan: Resolved, *kernels: str) -> Resolved:
    """The same plan with one launch per name."""
    return replace(plan, launches=tuple(replace(plan.launches[0], kernel=name) for name in kernels))


def inputs(n: int = 1000, seed: int = 0) -> dict[str, Array]:
    """Normal numbers."""
    return {"x": np.random.default_rng(seed).normal(size=n).astype(np.float32)}


def expected(given: dict[str, Array]) -> Array:
    """What a right kernel writes."""
    y: Array = np.float32(SCALE) * given["x"]
    return y


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the contract test needs: a backend, a right kernel for the task above, and a folder with BASELINES."""

    backend: Backend
    source: str
    baseline_folder: Path
