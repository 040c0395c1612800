"""Device memory that another process can map: allocations that are kept and handed out again, since scenarios repeat."""

import ctypes
import os
from dataclasses import dataclass
from typing import Any

from evaluator.cuda.driver import CudaError, api, attribute, call, use_device
from evaluator.cuda.layout import IPC_STEP_BYTES, Guard
from evaluator.cuda.mapping import POSIX, Region, access, map_guarded, unmap_guarded

IDLE_BYTES = 24 << 30
IPC_HANDLE_BYTES = 64
OUT_OF_MEMORY = int(api.CUresult.CUDA_ERROR_OUT_OF_MEMORY)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Allocation:
    """``size_bytes`` of device memory at ``pointer`` in this process. cuMemAlloc's have no ``handle`` and no ``region``."""

    pointer: int
    size_bytes: int
    handle: Any = None
    region: Region | None = None


class Pool:
    """The allocations of one device, all of one kind of guard. Idle ones are freed, oldest first, beyond ``idle_bytes``.

    ``guard`` None: pages where the driver maps and exports memory, else bands.
    """

    def __init__(self, ordinal: int, guard: Guard | None = None, idle_bytes: int = IDLE_BYTES) -> None:
        use_device(ordinal)
        self.ordinal, self._idle_bytes = ordinal, idle_bytes
        self._idle: list[Allocation] = []
        self._properties = _properties(ordinal)
        self.guard: Guard = guard or ("pages" if self._exports() else "bands")
        self.granularity_bytes = self._granularity() if self.guard == "pages" else IPC_STEP_BYTES

    def take(self, size_bytes: int) -> Allocation:
        """An allocation of exactly this size, whose contents are left over from before. Raises CudaError."""
        use_device(self.ordinal)
        for index, found in enumerate(self._idle):
            if found.size_bytes == size_bytes:
                return self._idle.pop(index)
        try:
            return self._make(size_bytes)
        except CudaError as error:
            if error.code != OUT_OF_MEMORY or not self._idle:
                raise
        self.close()
        return self._make(size_bytes)

    def give(self, allocation: Allocation) -> None:
        """Take back an allocation that no other process maps any more."""
        self._idle.append(allocation)
        while sum(idle.size_bytes for idle in self._idle) > self._idle_bytes:
            self._free(self._idle.pop(0))

    def descriptor(self, allocation: Allocation) -> int:
        """A new file descriptor for an allocation between pages; the caller closes it. Raises CudaError."""
        return int(call("cuMemExportToShareableHandle", allocation.handle, POSIX, 0))

    def ipc_handle(self, allocation: Allocation) -> bytes:
        """The 64 bytes by which another process opens an allocation between bands. Raises CudaError."""
        return ctypes.string_at(int(call("cuIpcGetMemHandle", allocation.pointer).getPtr()), IPC_HANDLE_BYTES)

    def close(self) -> None:
        """Free what is idle."""
        use_device(self.ordinal)
        while self._idle:
            self._free(self._idle.pop())

    def _exports(self) -> bool:
        """Whether memory can be mapped and exported here, found out with one granule."""
        if not attribute("VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED", self.ordinal):
            return False
        try:
            self.granularity_bytes = self._granularity()
            trial = self._map(self.granularity_bytes)
        except CudaError:
            return False
        try:
            os.close(self.descriptor(trial))
        except CudaError:
            return False
        finally:
            self._free(trial)
        return True

    def _granularity(self) -> int:
        flag = api.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        return int(call("cuMemGetAllocationGranularity", self._properties, flag))

    def _make(self, size_bytes: int) -> Allocation:
        if self.guard == "pages":
            return self._map(size_bytes)
        return Allocation(pointer=int(call("cuMemAlloc", size_bytes)), size_bytes=size_bytes)

    def _map(self, size_bytes: int) -> Allocation:
        handle = call("cuMemCreate", size_bytes, self._properties, 0)
        try:
            region = map_guarded(handle, size_bytes, self.granularity_bytes, access(self.ordinal, writable=True))
        except CudaError:
            call("cuMemRelease", handle)
            raise
        return Allocation(pointer=region.pointer, size_bytes=size_bytes, handle=handle, region=region)

    def _free(self, allocation: Allocation) -> None:
        if allocation.region is None:
            call("cuMemFree", allocation.pointer)
            return
        unmap_guarded(allocation.region)
        call("cuMemRelease", allocation.handle)


def _properties(ordinal: int) -> Any:
    properties = api.CUmemAllocationProp()
    properties.type = api.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = ordinal
    properties.requestedHandleTypes = POSIX
    return properties
