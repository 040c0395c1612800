"""Checked calls of the CUDA driver. Importing this module or the bindings initialises nothing; ``use_device`` does.

Names and meanings are those of NVIDIA's "CUDA Driver API" reference; handles and addresses travel as the bindings give them.
"""

from typing import Any

from cuda.bindings import driver as api

__all__ = ["CudaError", "api", "attribute", "call", "use_device"]


class CudaError(RuntimeError):
    """A driver call that failed: ``name`` and ``code`` of its CUresult (CUDA_ERROR_LAUNCH_FAILED, 719), and which call it was.

    ``launch`` is the index of the launch that was being made or waited for, where one was.
    """

    def __init__(self, name: str, code: int, call: str) -> None:
        super().__init__(f"{call} failed: {name} ({code})")
        self.name, self.code, self.call = name, code, call
        self.launch: int | None = None


def call(function: str, *arguments: Any) -> Any:
    """What the driver function returns beside its status: nothing, one value or a tuple. Raises CudaError."""
    status, *values = getattr(api, function)(*arguments)
    if status != api.CUresult.CUDA_SUCCESS:
        raise CudaError(status.name, int(status), function)
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


def use_device(ordinal: int) -> None:
    """Make the device's primary context current in this thread; CuPy and torch use the same one. Raises CudaError.

    A process can't do this if an ancestor did so, or compiled with NVRTC, before it forked.
    """
    call("cuInit", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", ordinal)))


def attribute(name: str, ordinal: int) -> int:
    """A device attribute such as "MULTIPROCESSOR_COUNT". Raises CudaError."""
    key = getattr(api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(call("cuDeviceGetAttribute", key, call("cuDeviceGet", ordinal)))
