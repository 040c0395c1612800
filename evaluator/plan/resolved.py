"""A launch plan worked out for one scenario: every number known, ready to build and launch."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class ArgumentKind(StrEnum):
    """How an argument is passed to a kernel."""

    TENSOR = "tensor"  # pointer to the first element of a task tensor
    WORKSPACE = "workspace"  # pointer to scratch memory
    TENSOR_MAP = "tensor_map"  # 128-byte struct by value (CUDA only)
    INT32 = "int32"
    FLOAT32 = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One kernel argument; ``value`` is set for the two scalar kinds."""

    name: str
    kind: ArgumentKind
    value: int | float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A tensor or workspace in memory: contiguous, ``dtype`` one of bf16, fp16, fp32, float32, int32.

    ``role`` is "input", "output" or "workspace". ``init`` ("poison" or "zero") and ``self_resetting`` matter for workspaces.
    """

    name: str
    role: str
    dtype: str
    shape: tuple[int, ...]
    init: str = "poison"
    self_resetting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMap:
    """A TMA descriptor, innermost axis first as the driver wants it; strides in bytes, without the innermost."""

    name: str
    tensor: str
    dtype: str
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str = "none"
    l2_promotion: int = 0
    interleave: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedLaunch:
    """One kernel launch. On the CPU ``grid`` numbers independent tasks and the other sizes are 1."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    cooperative: bool
    shared_bytes: int
    args: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The whole plan for one scenario.

    ``defines`` are knobs and constants as text for ``-DNAME=value``: scenarios with equal defines share one build.
    ``kernels`` are all kernels that the plan names, those included that this scenario doesn't launch.
    """

    scenario: str
    defines: Mapping[str, str]
    knobs: Mapping[str, int]
    fast_math: bool
    maxrregcount: int | None
    nondeterministic: bool
    tensors: tuple[Buffer, ...]
    workspaces: tuple[Buffer, ...]
    tensor_maps: tuple[TensorMap, ...]
    launches: tuple[ResolvedLaunch, ...]
    kernels: tuple[str, ...] = ()
