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
SPREAD_BYTES = 16 << 30
"""How far a buffer of a candidate may lie from where its reservation begins: one of 8,192 granules of 2 MiB."""
WISH_STEP_BYTES = 32 << 20
"""Driver 580.159 grants no wish for an address that isn't aligned so."""
LOWEST, HIGHEST = 1 << 42, 1 << 46
"""Where reservations are wished for: in 60 TiB of addresses that hosts of 47-bit addresses leave to programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """``size_bytes`` of mapped memory at ``pointer``, within ``reserved_bytes`` of addresses from ``start`` on."""

    pointer: int
    size_bytes: int
    start: int
    reserved_bytes: int


def map_guarded(handle: Any, size_bytes: int, granularity_bytes: int, rights: Any, spread_bytes: int = 0) -> Region:
    """The memory, mapped between unmapped granules. Raises CudaError and leaves nothing behind.

    With ``spread_bytes`` no address leads to another: the reservation's place and the memory's within it are drawn at random, so
    that a kernel can't find the buffers of the slot beside its own. The first draw is a wish, which driver 580.159 often refuses;
    the second one always holds.
    """
    reserved_bytes = size_bytes + 2 * granularity_bytes + spread_bytes
    start = _reserve(reserved_bytes, granularity_bytes, wished=spread_bytes > 0)
    pointer = start + granularity_bytes * (1 + secrets.randbelow(spread_bytes // granularity_bytes + 1))
    region = Region(pointer=pointer, size_bytes=size_bytes, start=start, reserved_bytes=reserved_bytes)
    try:
        call("cuMemMap", pointer, size_bytes, 0, handle, 0)
    except CudaError:
        call("cuMemAddressFree", start, reserved_bytes)
        raise
    try:
        call("cuMemSetAccess", pointer, size_bytes, [rights], 1)
    except CudaError:
        unmap_guarded(region)
        raise
    return region


def unmap_guarded(region: Region) -> None:
    """Undo ``map_guarded``. Raises CudaError."""
    call("cuMemUnmap", region.pointer, region.size_bytes)
    call("cuMemAddressFree", region.start, region.reserved_bytes)


def _reserve(reserved_bytes: int, granularity_bytes: int, *, wished: bool) -> int:
    wish = LOWEST + WISH_STEP_BYTES * secrets.randbelow((HIGHEST - LOWEST) // WISH_STEP_BYTES) if wished else 0
    try:
        return int(call("cuMemAddressReserve", reserved_bytes, granularity_bytes, wish, 0))
    except CudaError:
        if not wish:
            raise
    return int(call("cuMemAddressReserve", reserved_bytes, granularity_bytes, 0, 0))


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
    _pages: list[Region] = field(default_factory=list)
    _opened: list[int] = field(default_factory=list)

    def pointer(self, slot: int, name: str) -> int:
        """Address of the first element; KeyError for a buffer that isn't there."""
        return self._starts[slot, name]

    def close(self) -> None:
        """Unmap all. Nothing may use the memory any more. Raises CudaError."""
        while self._pages:
            unmap_guarded(self._pages.pop())
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
            region = self._map_import(handle, size, step, ordinal, writable or share["role"] != "input")
        finally:
            call("cuMemRelease", handle)  # the mapping keeps the memory
        self._pages.append(region)
        return region.pointer

    def _map_import(self, handle: Any, size: int, step: int, ordinal: int, writable: bool) -> Region:
        if not writable:
            try:
                return map_guarded(handle, size, step, access(ordinal, writable=False), SPREAD_BYTES)
            except CudaError:  # this driver maps nothing read-only
                self.read_only = False
        return map_guarded(handle, size, step, access(ordinal, writable=True), SPREAD_BYTES)

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
