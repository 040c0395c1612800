"""Stands in for ``cuda.bindings.driver`` where there is no GPU: device memory is shared host memory, kernels are functions here.

Mappings and rights are kept as the driver would, and an access outside them is error 700. A cubin is JSON: kernel name -> what
it does.
"""
# ruff: noqa: N802

import ctypes
import enum
import json
import mmap
import os
import struct
import time

GRANULE = 64 << 10
PROT_NONE, PROT_RW = 0, mmap.PROT_READ | mmap.PROT_WRITE
MAP_FIXED = 0x10

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701
    CUDA_ERROR_MISALIGNED_ADDRESS = 716
    CUDA_ERROR_LAUNCH_FAILED = 719
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900


class Names:
    def __getattr__(self, name):
        return name


class Struct:
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        value = Struct()
        setattr(self, name, value)
        return value


CUdevice_attribute = CUmemAllocationHandleType = CUmemAllocationType = CUmemLocationType = CUmemAccess_flags = Names()
CUmemAllocationGranularity_flags = CUfunction_attribute = CUlaunchAttributeID = CUstreamCaptureMode = Names()
CUevent_flags = CUstream_flags = Names()
CUmemAllocationProp = CUmemAccessDesc = CUlaunchConfig = CUlaunchAttribute = Struct

OK = (CUresult.CUDA_SUCCESS,)
ranges: dict[int, tuple[int, bool]] = {}
state = {"failed": CUresult.CUDA_SUCCESS, "capture": None}
ATTRIBUTES = {"L2_CACHE_SIZE": 4096, "VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED": 1}


def good(value):
    return CUresult.CUDA_SUCCESS, value


def anonymous(address, size, protection, flags=0):
    return libc.mmap(address or None, size, protection, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags, -1, 0)


def allowed(address, size, *, write):
    return any(
        start <= address and address + size <= start + length and (rw or not write) for start, (length, rw) in ranges.items()
    )


def load(address):
    if not allowed(address, 4, write=False):
        state["failed"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
        return 0.0
    return ctypes.c_float.from_address(address).value


def store(address, value):
    if not allowed(address, 4, write=True):
        state["failed"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    else:
        ctypes.c_float.from_address(address).value = value


def scale(x, y, n, s):
    for i in range(n):
        store(y + 4 * i, load(x + 4 * i) * s)


def run(kernel, x, y, n, s):
    """One execution of a kernel."""
    if kernel == "hang":
        time.sleep(1000)
    if kernel == "die":
        os._exit(3)
    if kernel == "trap":
        state["failed"] = CUresult.CUDA_ERROR_LAUNCH_FAILED
    if kernel == "misaligned":
        state["failed"] = CUresult.CUDA_ERROR_MISALIGNED_ADDRESS
    if kernel == "write_input":
        store(x, 1.0)
    if kernel == "far":
        load(x + 4 * (n + 64))
    if kernel == "restore_input":
        before = load(x)
        store(x, 1.0)
        store(x, before)
    if kernel == "past_end":
        store(y + 4 * n, 1.0)
    if kernel == "before_start":
        store(y - 8, 1.0)
    if kernel == "whereabouts":
        store(y, (y - x) >> 21)
    elif kernel != "nothing":
        scale(x, y, n, s)


def cuInit(_):
    return OK


def cuDeviceGet(ordinal):
    return good(ordinal)


def cuDevicePrimaryCtxRetain(device):
    return good(device)


def cuCtxSetCurrent(_):
    return OK


def cuCtxGetDevice():
    return good(0)


def cuDeviceGetAttribute(name, _):
    return good(ATTRIBUTES[name.removeprefix("CU_DEVICE_ATTRIBUTE_")])


def cuMemGetAllocationGranularity(_properties, _flag):
    return good(GRANULE)


def cuMemCreate(size, _properties, _flags):
    descriptor = os.memfd_create("physical")
    os.truncate(descriptor, size)
    return good(descriptor)


def cuMemRelease(handle):
    os.close(handle)
    return OK


def cuMemExportToShareableHandle(handle, _kind, _flags):
    return good(os.dup(handle))


def cuMemImportFromShareableHandle(descriptor, _kind):
    return good(os.dup(descriptor))


def cuMemAddressReserve(size, _alignment, address, _flags):
    return good(anonymous(address, size, PROT_NONE))  # without MAP_FIXED an address is a wish


def cuMemAddressFree(address, size):
    libc.munmap(address, size)
    return OK


def cuMemMap(address, size, _offset, handle, _flags):
    libc.mmap(address, size, PROT_RW, mmap.MAP_SHARED | MAP_FIXED, handle, 0)
    return OK


def cuMemSetAccess(address, size, descriptors, _count):
    ranges[address] = (size, descriptors[0].flags.endswith("READWRITE"))
    return OK


def cuMemUnmap(address, size):
    del ranges[address]
    anonymous(address, size, PROT_NONE, MAP_FIXED)
    return OK


def cuMemAlloc(size):
    address = anonymous(0, size, PROT_RW)
    ranges[address] = (size, True)
    return good(address)


def cuMemFree(address):
    libc.munmap(address, ranges.pop(address)[0])
    return OK


def cuModuleLoadData(image):
    return good(json.loads(image))


def cuModuleUnload(_):
    return OK


def cuModuleGetFunction(module, name):
    return good(module[name.decode()])


def cuFuncSetAttribute(_function, _name, value):
    return (CUresult.CUDA_ERROR_INVALID_VALUE,) if value > 232_448 else OK


def cuFuncGetAttribute(_name, _function):
    return good(32)


def cuOccupancyMaxActiveBlocksPerMultiprocessor(_function, threads, _shared):
    return good(2048 // threads)


def cuStreamCreate(_):
    return good(1)


def cuStreamDestroy(_):
    return OK


def cuStreamSynchronize(_):
    return (state["failed"],)


def enqueue(work):
    if state["capture"] is None:
        work()
    else:
        state["capture"].append(work)
    return OK


def cuStreamBeginCapture(_stream, _mode):
    state["capture"] = []
    return OK


def cuStreamEndCapture(_):
    captured, state["capture"] = state["capture"], None
    return good(captured)


def cuGraphInstantiate(graph, _flags):
    return good(graph)


def cuGraphUpload(_graph, _stream):
    return OK


def cuGraphDestroy(_):
    return OK


def cuGraphExecDestroy(_):
    return OK


def cuGraphLaunch(graph, _stream):
    for work in graph:
        work()
    return OK


def cuMemsetD32Async(address, value, count, _stream):
    return enqueue(lambda: ctypes.memmove(address, struct.pack("<I", value) * count, 4 * count))


def cuEventCreate(_):
    return good([0])


def cuEventDestroy(_):
    return OK


def cuEventRecordWithFlags(event, _stream, flags):
    assert bool(flags) == (state["capture"] is not None)
    return enqueue(lambda: event.__setitem__(0, time.perf_counter_ns()))


def cuEventElapsedTime(first, second):
    return good((second[0] - first[0]) / 1e6)


def cuLaunchKernelEx(_config, function, parameters, _extra):
    if function == "refused":
        return (CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,)
    if function == "no_capture" and state["capture"] is not None:
        return (CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,)
    places = (ctypes.c_void_p * 4).from_address(parameters)
    kinds = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int32, ctypes.c_float)
    values = [kind.from_address(place).value for kind, place in zip(kinds, places, strict=True)]
    return enqueue(lambda: run(function, *values))
