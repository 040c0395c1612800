"""Exact changes of a task's inputs: new contents whose outputs are known from those of the old, bit for bit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from evaluator.arrays import array_module, is_cupy
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """An exact change of one tensor: entries reordered, then signs flipped, then all times 2^exponent.

    ``order`` gives for an axis (any but the last) which old entry stands at each place. ``flips`` has as many axes as the
    tensor, each of them shorter by a whole factor: one flip then holds for that many neighbours.
    """

    order: Mapping[int, NDArray[np.int64]]
    flips: NDArray[np.bool_] | None = None
    exponent: int = 0


def moved(array: Array, dtype: str, move: Move) -> Array:
    """The stored array so changed, as a new array; on the device in one pass over memory."""
    if is_cupy(array):
        from evaluator.cuda.kernels import move as move_there

        done = move_there(array, dtype, move.order, move.flips, move.exponent)
        if done is not None:
            return cast(Array, done)
    for axis, indices in move.order.items():
        array = take(array, indices, axis)
    if move.flips is not None:
        flips = move.flips
        for axis, (size, short) in enumerate(zip(array.shape, flips.shape, strict=True)):
            flips = flips if short in (1, size) else np.repeat(flips, size // short, axis=axis)
        array = flip_signs(array, flips)
    return times_power_of_two(array, dtype, move.exponent)


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
