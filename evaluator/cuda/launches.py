"""Kernel launches as the driver wants them: arguments packed in memory, a configuration with attributes, functions made ready."""

import contextlib
import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.cuda.driver import CudaError, api, call
from evaluator.cuda.tensor_maps import MAP_BYTES
from evaluator.plan.resolved import Argument, ArgumentKind, ResolvedLaunch

MAP_ALIGN_BYTES = 64
POINTER_BYTES = 8
PORTABLE_CLUSTER = 8
FORMATS = {
    ArgumentKind.TENSOR: "<Q",
    ArgumentKind.WORKSPACE: "<Q",
    ArgumentKind.INT32: "<i",
    ArgumentKind.FLOAT32: "<f",
}

ValueOf = Callable[[Argument], int | float | bytes]
"""What an argument is in one slot: an address, a number, or the 128 bytes of a tensor map."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The values of one launch and an array of pointers to them at ``address``; both live as long as this object."""

    address: int
    values: Any
    pointers: Any


def pack(args: Sequence[Argument], value_of: ValueOf) -> Packed:
    """The arguments in order, tensor maps at multiples of 64 bytes, everything else of 8."""
    places, end = [], 0
    for argument in args:
        is_map = argument.kind is ArgumentKind.TENSOR_MAP
        step = MAP_ALIGN_BYTES if is_map else POINTER_BYTES
        start = -(-end // step) * step
        places.append(start)
        end = start + (MAP_BYTES if is_map else POINTER_BYTES)
    values = ctypes.create_string_buffer(end + MAP_ALIGN_BYTES)
    base = -(-ctypes.addressof(values) // MAP_ALIGN_BYTES) * MAP_ALIGN_BYTES
    for argument, place in zip(args, places, strict=True):
        value = value_of(argument)
        content = value if isinstance(value, bytes) else struct.pack(FORMATS[argument.kind], value)
        ctypes.memmove(base + place, content, len(content))
    pointers = (ctypes.c_void_p * max(1, len(places)))(*(base + place for place in places))
    return Packed(address=ctypes.addressof(pointers), values=values, pointers=pointers)


def configuration(launch: ResolvedLaunch, stream: Any, *, fixed_cluster: bool) -> Any:
    """The driver's launch configuration. A cluster that is fixed in the source isn't asked for again."""
    config = api.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
    config.sharedMemBytes = launch.shared_bytes
    config.hStream = stream
    attributes = []
    if cluster_size(launch) > 1 and not fixed_cluster:
        cluster = api.CUlaunchAttribute()
        cluster.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        cluster.value.clusterDim.x, cluster.value.clusterDim.y, cluster.value.clusterDim.z = launch.cluster
        attributes.append(cluster)
    if launch.cooperative:
        cooperative = api.CUlaunchAttribute()
        cooperative.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        cooperative.value.cooperative = 1
        attributes.append(cooperative)
    config.attrs = attributes
    config.numAttrs = len(attributes)
    return config


def cluster_size(launch: ResolvedLaunch) -> int:
    """Blocks in a cluster."""
    x, y, z = launch.cluster
    return x * y * z


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A kernel of the loaded module, allowed the shared memory and cluster size that the plan gives it."""

    handle: Any
    fixed_cluster: bool
    registers: int
    local_bytes: int
    static_shared_bytes: int


def prepare_function(module: Any, kernel: str, launches: Sequence[ResolvedLaunch]) -> Function:
    """The kernel, made ready for all launches of it. Raises CudaError where the device can't give what they ask for."""
    handle = call("cuModuleGetFunction", module, kernel.encode())
    keys = api.CUfunction_attribute
    shared_bytes = max(launch.shared_bytes for launch in launches)
    if shared_bytes:
        call("cuFuncSetAttribute", handle, keys.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
    if max(cluster_size(launch) for launch in launches) > PORTABLE_CLUSTER:
        call("cuFuncSetAttribute", handle, keys.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)

    def attribute(name: str) -> int:
        return int(call("cuFuncGetAttribute", getattr(keys, f"CU_FUNC_ATTRIBUTE_{name}"), handle))

    return Function(
        handle=handle,
        fixed_cluster=any(cluster_size(launch) > 1 for launch in launches) and attribute("REQUIRED_CLUSTER_WIDTH") > 0,
        registers=attribute("NUM_REGS"),
        local_bytes=attribute("LOCAL_SIZE_BYTES"),
        static_shared_bytes=attribute("SHARED_SIZE_BYTES"),
    )


def launch_facts(function: Function, launch: ResolvedLaunch) -> dict[str, int]:
    """What the driver says of a kernel, and how many blocks (clusters: on the whole device) fit at once where it can tell."""
    x, y, z = launch.block
    found = {
        "registers": function.registers,
        "local_bytes": function.local_bytes,
        "static_shared_bytes": function.static_shared_bytes,
        "dynamic_shared_bytes": launch.shared_bytes,
    }
    with contextlib.suppress(CudaError):  # the launch itself will tell what is wrong
        blocks = call("cuOccupancyMaxActiveBlocksPerMultiprocessor", function.handle, x * y * z, launch.shared_bytes)
        found["blocks_per_sm"] = int(blocks)
        if cluster_size(launch) > 1:
            config = configuration(launch, 0, fixed_cluster=function.fixed_cluster)
            found["clusters"] = int(call("cuOccupancyMaxActiveClusters", function.handle, config))
    return found
