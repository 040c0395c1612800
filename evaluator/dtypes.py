"""Element types of tensors: how they lie in arrays of the host or the device, and how values are rounded to them.

numpy has no bf16, so a bf16 array is carried as its uint16 bit pattern. ``fp32`` is the value of the symbol ``dtype``,
``float32`` the literal of a tensor that is float32 whatever the symbol says; both are the same type.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evaluator.arrays import array_module
from evaluator.backend import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementType:
    """An element type: its numpy storage, stored mantissa bits, smallest normal exponent, and those of the precision below.

    ``lower_mantissa_bits`` is what a candidate would compute with that quietly used the next lower precision: tf32 (10 bits)
    for fp32, bf16 (7) for fp16, fp8 e4m3 (3) for bf16.
    """

    storage: np.dtype[Any]
    bytes: int
    mantissa_bits: int
    min_exponent: int
    lower_mantissa_bits: int


_FP32 = ElementType(storage=np.dtype(np.float32), bytes=4, mantissa_bits=23, min_exponent=-126, lower_mantissa_bits=10)
_TYPES = {
    "fp32": _FP32,
    "float32": _FP32,
    "fp16": ElementType(storage=np.dtype(np.float16), bytes=2, mantissa_bits=10, min_exponent=-14, lower_mantissa_bits=7),
    "bf16": ElementType(storage=np.dtype(np.uint16), bytes=2, mantissa_bits=7, min_exponent=-126, lower_mantissa_bits=3),
}
NAMES = tuple(_TYPES)


def element_type(dtype: str) -> ElementType:
    """The element type of that name; ValueError names the known ones."""
    if dtype not in _TYPES:
        raise ValueError(f"unknown dtype {dtype!r}; known are {', '.join(NAMES)}")
    return _TYPES[dtype]


def encode(values: NDArray[Any], dtype: str) -> Array:
    """The values rounded to nearest even, in their storage form (float16, float32, or uint16 for bf16)."""
    storage = element_type(dtype).storage
    xp = array_module(values)
    if dtype != "bf16":
        with np.errstate(over="ignore"):
            return cast(Array, xp.ascontiguousarray(values, dtype=storage))
    bits = xp.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = ((bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype(np.uint16)
    rounded[xp.isnan(values)] = 0x7FC0
    return cast(Array, rounded)


def decode(array: Array, dtype: str) -> NDArray[np.float32]:
    """The values of a stored array as float32, which holds every supported type exactly. No copy for float32."""
    if array.dtype != element_type(dtype).storage:
        raise ValueError(f"a {dtype} array is stored as {element_type(dtype).storage}, got {array.dtype}")
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32, copy=False)


def unit_in_last_place(values: NDArray[np.float64], dtype: str) -> NDArray[np.float64]:
    """Distance from each finite |value| to the next larger number of the type; that of subnormals at and near zero."""
    kind = element_type(dtype)
    xp = array_module(values)
    _, exponent = xp.frexp(xp.abs(values))
    ones = xp.ones_like(values, dtype=np.float64)
    return cast(NDArray[np.float64], xp.ldexp(ones, xp.maximum(exponent - 1, kind.min_exponent) - kind.mantissa_bits))


def round_mantissa(values: NDArray[Any], bits: int) -> NDArray[np.float64]:
    """The values rounded to nearest even at ``bits`` stored mantissa bits, with an unbounded exponent, as float64."""
    xp = array_module(values)
    fraction, exponent = xp.frexp(xp.asarray(values, dtype=np.float64))
    return cast(NDArray[np.float64], xp.ldexp(xp.rint(xp.ldexp(fraction, bits + 1)), exponent - bits - 1))
