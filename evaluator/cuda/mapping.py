"""Mapping device memory between inaccessible pages, and the buffers of a side in a process that doesn't own them.

Needs the standard library and the driver only: candidates' processes are forked with this loaded.
"""

import ctypes
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluator.cuda.driver import CudaError, api, call

POSIX = api.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
LAZY_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, the only flag there is
LOWEST, SPAN_BYTES = 1 << 42, 15 << 42
"""Where mappings lie: anywhere in 60 TiB of addresses, which hosts of 47-bit addresses leave to programs."""


def map_guarded(handle: Any, size_bytes: int, granularity_bytes: int, rights: Any) -> int:
    """The address of the memory, mapped with an unmapped granule on each side. Raises CudaError and leaves nothing behind.

    No address leads to another: each is drawn at random, so that a kernel can't find the buffers of the slot beside its own. The
    driver takes the draw as a wish; where it puts the memory elsewhere, that is where it lies.
    """
    reserved_bytes = size_bytes + 2 * granularity_bytes
    wish = LOWEST + granularity_bytes * secrets.randbelow(SPAN_BYTES // granularity_bytes)
    try:
        start = int(call("cuMemAddressReserve", reserved_bytes, granularity_bytes, wish, 0))
    except CudaError:  # a driver that grants no wishes
        start = int(call("cuMemAddressReserve", reserved_bytes, granularity_bytes, 0, 0))
    pointer = start + granularity_bytes
    try:
        call("cuMemMap", pointer, size_bytes, 0, handle, 0)
    except CudaError:
        call("cuMemAddressFree", start, reserved_bytes)
        raise
    try:
        call("cuMemSetAccess", pointer, size_bytes, [rights], 1)
    except CudaError:
        unmap_guarded(pointer, size_bytes, granularity_bytes)
        raise
    return pointer


def unmap_guarded(pointer: int, size_bytes: int, granularity_bytes: int) -> None:
    """Undo ``map_guarded``. Raises CudaError."""
    call("cuMemUnmap", pointer, size_bytes)
    call("cuMemAddressFree", pointer - granularity_bytes, size_bytes + 2 * granularity_bytes)


def access(ordinal: int, *, writable: bool) -> Any:
    """The rights of a device to mapped memory, for ``map_guarded``."""
    rights = api.CUmemAccessDesc()
    rights.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    rights.location.id = ordinal
    flags = api.CUmemAccess_flags
    rights.flags = flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE if writable else flags.CU_MEM_ACCESS_FLAGS_PROT_READ
    return rights


@dataclass(slots=True)
class Mapped:
    """Buffers by slot and name. ``read_only`` tells whether no input can be written through these mappings."""

    read_only: bool = True
    shapes: dict[str, tuple[str, str, tuple[int, ...]]] = field(default_factory=dict)
    _starts: dict[tuple[int, str], int] = field(default_factory=dict)
    _pages: list[tuple[int, int, int]] = field(default_factory=list)
    _opened: list[int] = field(default_factory=list)

    def pointer(self, slot: int, name: str) -> int:
        """Address of the first element; KeyError for a buffer that isn't there."""
        return self._starts[slot, name]

    def close(self) -> None:
        """Unmap all. Nothing may use the memory any more. Raises CudaError."""
        while self._pages:
            unmap_guarded(*self._pages.pop())
        while self._opened:
            call("cuIpcCloseMemHandle", self._opened.pop())
        self._starts.clear()

    def _add(self, share: Mapping[str, Any], descriptors: list[int], ordinal: int, writable: bool) -> None:
        if share["handle"] is None:
            base = self._map(share, descriptors.pop(0), ordinal, writable)
        else:
            base = self._open(bytes.fromhex(share["handle"]))
            self.read_only = self.read_only and share["role"] != "input"
        self._starts[share["slot"], share["name"]] = base + share["start_bytes"]
        self.shapes[share["name"]] = (share["role"], share["dtype"], tuple(share["shape"]))

    def _map(self, share: Mapping[str, Any], descriptor: int, ordinal: int, writable: bool) -> int:
        size, step = share["size_bytes"], share["granularity_bytes"]
        try:
            handle = call("cuMemImportFromShareableHandle", descriptor, POSIX)
        finally:
            os.close(descriptor)
        try:
            base = self._map_import(handle, size, step, ordinal, writable or share["role"] != "input")
        finally:
            call("cuMemRelease", handle)  # the mapping keeps the memory
        self._pages.append((base, size, step))
        return base

    def _map_import(self, handle: Any, size: int, step: int, ordinal: int, writable: bool) -> int:
        if not writable:
            try:
                return map_guarded(handle, size, step, access(ordinal, writable=False))
            except CudaError:  # this driver maps nothing read-only
                self.read_only = False
        return map_guarded(handle, size, step, access(ordinal, writable=True))

    def _open(self, handle: bytes) -> int:
        wrapped = api.CUipcMemHandle()
        ctypes.memmove(int(wrapped.getPtr()), handle, len(handle))
        base = int(call("cuIpcOpenMemHandle", wrapped, LAZY_PEER_ACCESS))
        self._opened.append(base)
        return base


def map_shares(description: Sequence[Mapping[str, Any]], fds: Sequence[int], *, writable_inputs: bool = False) -> Mapped:
    """The buffers that ``DeviceMemory.shares`` describes, in the current context's device. Closes all of ``fds``.

    Inputs are mapped read-only where the driver can, unless ``writable_inputs``. Raises CudaError.
    """
    ordinal = int(call("cuCtxGetDevice"))
    left = list(fds)
    mapped = Mapped(read_only=not writable_inputs)
    try:
        for share in description:
            mapped._add(share, left, ordinal, writable_inputs)
    except CudaError:
        mapped.close()
        raise
    finally:
        for descriptor in left:
            os.close(descriptor)
    return mapped
