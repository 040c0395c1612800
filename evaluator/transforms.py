"""Exact changes of a task's inputs: new contents whose outputs are known from those of the old, bit for bit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from evaluator.arrays import array_module
from evaluator.backend import Array
from evaluator.dtypes import decode, element_type, encode

Arrays = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """``apply`` turns inputs into new inputs, ``undo`` turns the outputs for those into outputs for the old inputs.

    Neither changes its argument, and both return new mappings. Rounding isn't touched: ``undo(f(apply(x)))`` and ``f(x)`` differ
    by no more than two runs of an honest kernel may.
    """

    apply: Callable[[Arrays], Arrays]
    undo: Callable[[Arrays], Arrays]


IDENTITY = Transform(apply=dict, undo=dict)
"""For a task that has no exact transform."""


def flip_signs(array: Array, flips: NDArray[np.bool_]) -> Array:
    """The stored array with the sign bit turned where ``flips`` (of the host, broadcast over the array) is true."""
    width = array.dtype.itemsize * 8
    unsigned = np.dtype(f"uint{width}")
    mask = array_module(array).asarray(np.where(flips, unsigned.type(1 << (width - 1)), unsigned.type(0)))
    return cast(Array, (array.view(unsigned) ^ mask).view(array.dtype))


def times_power_of_two(array: Array, dtype: str, exponent: int) -> Array:
    """The stored array times 2^exponent: exact while nothing over- or underflows."""
    if exponent == 0:
        return array
    if element_type(dtype).storage.kind == "f":
        xp = array_module(array)
        return cast(Array, xp.asarray(xp.ldexp(array, exponent)))
    return encode(decode(array, dtype) * np.float32(2.0**exponent), dtype)


def take(array: Array, indices: NDArray[np.int64], axis: int) -> Array:
    """The entries of an axis in the order of ``indices``, which are of the host."""
    xp = array_module(array)
    return cast(Array, xp.take(array, xp.asarray(indices), axis=axis))
