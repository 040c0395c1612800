"""How buffers of a plan lie in memory, on any backend: storage types, sizes, and the patterns that poison them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from evaluator.dtypes import NAMES, element_type
from evaluator.plan.resolved import Buffer

NUMPY_TYPES: Mapping[str, np.dtype[Any]] = {name: element_type(name).storage for name in NAMES} | {"int32": np.dtype(np.int32)}
"""How a buffer's elements lie in memory: those of tensors, and int32, which workspaces may have too."""

POISONS: Mapping[str, tuple[int, int, int]] = {
    "bf16": (0x7FC5, 0x715E, 0x3D18),
    "fp16": (0x7E5A, 0x7B53, 0x28C0),
    "fp32": (0x7FC5A5A5, 0x715E2C7A, 0x3D17F62B),
    "float32": (0x7FC5A5A5, 0x715E2C7A, 0x3D17F62B),
    "int32": (0x7FC5A5A5, 0x40003039, 7),
}
"""Bit patterns per type: NaN, large and finite (1.1e30; fp16: 60,000), small and ordinary (0.037)."""


def elements(buffer: Buffer) -> int:
    """Number of elements of a buffer."""
    count = 1
    for extent in buffer.shape:
        count *= extent
    return count


def size_bytes(buffer: Buffer) -> int:
    """Bytes of a buffer's elements."""
    return elements(buffer) * NUMPY_TYPES[buffer.dtype].itemsize


def pattern_type(buffer: Buffer) -> np.dtype[Any]:
    """The unsigned type as wide as an element, in which a poison is written."""
    return np.dtype({2: np.uint16, 4: np.uint32}[NUMPY_TYPES[buffer.dtype].itemsize])
