"""Plans for the CUDA tests, and the parts of a candidate that they share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evaluator.plan.resolved import Argument, ArgumentKind, Resolved, ResolvedLaunch

DATA = Path(__file__).parent.parent / "data"
ARCHS = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
EACH_ARCH = [arch if arch in ("sm_80", "sm_90a") else pytest.param(arch, marks=pytest.mark.slow) for arch in ARCHS]
"""Parameters of tests; the oldest architecture and Hopper stand for all in a fast run."""
KINDS = {
    "p": ArgumentKind.TENSOR,
    "w": ArgumentKind.WORKSPACE,
    "m": ArgumentKind.TENSOR_MAP,
    "i": ArgumentKind.INT32,
    "f": ArgumentKind.FLOAT32,
}


def launch(kernel: str, args: str, **sizes: Any) -> ResolvedLaunch:
    """A launch; ``args`` is "name:kind name:kind ..." with the letters of KINDS."""
    pairs = (item.split(":") for item in args.split())
    arguments = tuple(Argument(name=name, kind=KINDS[kind], value=1 if kind in "if" else None) for name, kind in pairs)
    values = {"grid": (1, 1, 1), "block": (128, 1, 1), "cluster": (1, 1, 1), "cooperative": False, "shared_bytes": 0} | sizes
    return ResolvedLaunch(kernel=kernel, args=arguments, **values)


def plan(*launches: ResolvedLaunch, defines: dict[str, str] | None = None, kernels: Sequence[str] = (), **more: Any) -> Resolved:
    """A resolved plan with these launches."""
    values = {"fast_math": False, "maxrregcount": None} | more
    return Resolved(
        scenario="tiny",
        defines=defines or {},
        knobs={},
        nondeterministic=False,
        tensors=(),
        workspaces=(),
        tensor_maps=(),
        launches=launches,
        kernels=tuple(kernels),
        **values,
    )


HONEST = {
    "mma.cu": (ARCHS, plan(launch("scores", "q:p k:p out:p scale:f d:i", block=(32, 1, 1)))),
    "tma.cu": (ARCHS[2:], plan(launch("copy", "map:m out:p rows:i", shared_bytes=64 * 64 * 2))),
    "wgmma.cu": (("sm_90a",), plan(launch("scores", "q_map:m k_map:m out:p scale:f", shared_bytes=2 * 64 * 128))),
    "cooperative.cu": (
        ARCHS,
        plan(launch("sums", "x:p partial:w counter:w out:p n:i", block=(32, 1, 1), grid=(8, 1, 1), cooperative=True)),
    ),
}
EACH_HONEST = [
    pytest.param(name, arch, marks=() if arch in ("sm_80", "sm_90a") else pytest.mark.slow, id=f"{name}-{arch}")
    for name, (archs, _) in HONEST.items()
    for arch in archs
]
"""Parameters of tests."""
