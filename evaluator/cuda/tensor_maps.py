"""Encodes the plan's tensor maps with the driver: 128-byte TMA descriptors with a slot's addresses baked in.

Meaning and limits of every field: ``cuTensorMapEncodeTiled`` in NVIDIA's driver documentation.
"""

import ctypes
from dataclasses import dataclass

from evaluator.cuda.driver import api, call
from evaluator.plan.resolved import TensorMap

MAP_BYTES = 128
DTYPES = {"bf16": "BFLOAT16", "fp16": "FLOAT16", "fp32": "FLOAT32", "float32": "FLOAT32", "int32": "INT32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """The driver's arguments but the address: names of its enumerators, sizes innermost first, strides in bytes."""

    dtype: str
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    interleave: str
    swizzle: str
    l2_promotion: str

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.dims)


def encoding(tensor_map: TensorMap) -> Encoding:
    """The map in the driver's terms."""
    promotion = f"L2_{tensor_map.l2_promotion}B" if tensor_map.l2_promotion else "NONE"
    return Encoding(
        dtype=f"CU_TENSOR_MAP_DATA_TYPE_{DTYPES[tensor_map.dtype]}",
        dims=tensor_map.dims,
        strides_bytes=tensor_map.strides_bytes,
        box=tensor_map.box,
        interleave=f"CU_TENSOR_MAP_INTERLEAVE_{tensor_map.interleave.upper()}",
        swizzle=f"CU_TENSOR_MAP_SWIZZLE_{tensor_map.swizzle.upper()}",
        l2_promotion=f"CU_TENSOR_MAP_L2_PROMOTION_{promotion}",
    )


def encode(tensor_map: TensorMap, pointer: int) -> bytes:
    """The descriptor for the tensor at ``pointer``. Raises CudaError where the driver refuses it."""
    wanted = encoding(tensor_map)
    unread_stride = (wanted.dims[0] * 16,)  # an axis has no stride of its own at rank 1, but the list mustn't be empty
    encoded = call(
        "cuTensorMapEncodeTiled",
        getattr(api.CUtensorMapDataType, wanted.dtype),
        wanted.rank,
        pointer,
        [api.cuuint64_t(size) for size in wanted.dims],
        [api.cuuint64_t(stride) for stride in wanted.strides_bytes or unread_stride],
        [api.cuuint32_t(size) for size in wanted.box],
        [api.cuuint32_t(1)] * wanted.rank,
        getattr(api.CUtensorMapInterleave, wanted.interleave),
        getattr(api.CUtensorMapSwizzle, wanted.swizzle),
        getattr(api.CUtensorMapL2promotion, wanted.l2_promotion),
        api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    return ctypes.string_at(int(encoded.getPtr()), MAP_BYTES)
