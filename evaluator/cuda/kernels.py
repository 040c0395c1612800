"""Launches the kernels of ``arrays.cu`` on CuPy's arrays: one pass over memory where array functions would take many.

What they compute is defined by the code for numpy arrays in ``evaluator.transforms``, ``evaluator.compare`` and the tasks, with
which the tests compare them.
"""

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

from evaluator.compare import Errors

THREADS = 256
MOST_BLOCKS = 528  # four on each of the 132 multiprocessors of an H200
MOST_ELEMENTS = 1 << 31
VECTOR_BYTES = 16
AXES = 4
TERMS = 15  # as many words as `arrays.cu` names
COLUMNS = 10
KINDS = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32", "float32": "fp32"}


def terms_of(
    shape: tuple[int, ...], order: Mapping[int, NDArray[np.int64]], flips: NDArray[np.bool_] | None, exponent: int
) -> NDArray[np.uint32]:
    """What the kernel ``move`` needs to know, as words: sizes, tables of indices, and the flips as bits.

    ``shape`` has up to four axes, ``order`` holds indices for any but the last, ``flips`` has as many axes as ``shape``, each a
    whole number of times shorter.
    """
    missing = AXES - len(shape)
    sizes = (1,) * missing + shape
    tables = [order.get(axis - missing) for axis in range(AXES - 1)]
    flipped = (1,) * AXES if flips is None else (1,) * missing + flips.shape
    each = [max(1, size // short) for size, short in zip(sizes, flipped, strict=True)]
    offset, offsets, parts = TERMS, [], []
    for table in tables:
        offsets.append(0 if table is None else offset)
        if table is not None:
            parts.append(table.astype(np.uint32))
            offset += len(table)
    if flips is not None:
        bits = np.packbits(flips.reshape(-1), bitorder="little")
        parts.append(np.pad(bits, (0, -len(bits) % 4)).view(np.uint32))
    factor = int(np.float32(2.0**exponent).view(np.uint32))
    head = [sizes[3], sizes[1], sizes[2], *offsets, 0 if flips is None else offset, *each, *flipped[1:], factor]
    return np.concatenate([np.asarray(head, np.uint32), *parts])


def move(array: Any, dtype: str, order: Mapping[int, NDArray[np.int64]], flips: NDArray[np.bool_] | None, exponent: int) -> Any:
    """See ``evaluator.transforms.moved``; None where the array isn't of the kind that the kernel takes."""
    if array.size >= MOST_ELEMENTS or not array.size or array.ndim > AXES or not array.flags.c_contiguous:
        return None
    width = VECTOR_BYTES // array.dtype.itemsize
    if array.shape[-1] % width or array.data.ptr % VECTOR_BYTES:
        width = 1
    result = cupy.empty_like(array)
    groups = array.size // width
    terms = cupy.asarray(terms_of(array.shape, order, flips, exponent))
    kernel = _kernel(f"move_{KINDS[dtype]}_{width}")
    kernel((min(math.ceil(groups / THREADS), 8 * MOST_BLOCKS),), (THREADS,), (array, result, terms, np.uint32(groups)))
    return result


def judge(expected: Any, got: Any, dtype: str, row_allowed: Any) -> Errors | None:
    """What the errors of ``got`` amount to, for one wait; None where the arrays aren't of the kind that the kernel takes.

    ``expected`` is float64 or float32 and has rows along its last axis, ``row_allowed`` float64 with one value a row.
    """
    arrays = (expected, got, row_allowed)
    if expected.size >= MOST_ELEMENTS or not all(array.size and array.flags.c_contiguous for array in arrays):
        return None
    blocks = min(math.ceil(expected.size / THREADS), MOST_BLOCKS)
    lines = cupy.empty((blocks, COLUMNS), np.float64)
    columns = np.uint32(expected.shape[-1])
    kernel = _kernel(f"judge_{KINDS[dtype]}_{expected.dtype.itemsize}")
    kernel((blocks,), (THREADS,), (got, expected, row_allowed, np.uint32(expected.size), columns, lines))
    return together(cupy.asnumpy(lines))


def together(lines: NDArray[np.float64]) -> Errors:
    """One result from those of all blocks of ``judge``."""
    first = np.lexsort((lines[:, 1], -lines[:, 0]))[0]
    share, at, error, allowed, got, want = (float(value) for value in lines[first, :6])
    squares, over, misplaced, finite = (float(value) for value in lines[:, 6:].sum(axis=0))
    return Errors(
        share=share,
        at=int(at),
        error=error,
        allowed=allowed,
        got=got,
        want=want,
        squares=squares,
        over=int(over),
        misplaced=int(misplaced),
        finite=int(finite),
    )


def weigh(scores: Any, first: Any, last: Any) -> tuple[Any, Any]:
    """Turn float64 ``scores`` (.., rows, keys) into exp(score - peak) in place; each row's peak and sum, (.., rows).

    Row r sees the keys ``first[r]`` to ``last[r]`` (int32); without any, its weights, peak and sum are 0.
    """
    rows, keys = scores.shape[-2:]
    peaks, sums = (cupy.empty(scores.shape[:-1], np.float64) for _ in range(2))
    arguments = (scores, peaks, sums, first, last, np.uint32(rows), np.uint32(keys))
    _kernel("weigh")((peaks.size,), (THREADS,), arguments)
    return peaks, sums


@functools.cache
def _module() -> Any:
    """The compiled kernels, which CuPy keeps on disk and loads on each device that asks."""
    return cupy.RawModule(code=Path(__file__).with_name("arrays.cu").read_text(), options=("-std=c++17",))


@functools.cache
def _kernel(name: str) -> Any:
    return _module().get_function(name)
