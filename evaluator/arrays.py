"""Where arrays live: numpy arrays on the host, cupy arrays on the device, and the few steps that differ between the two.

Everything else that works on array contents takes its module from the arrays (``array_module``) and is written once for both.
A module of arrays never mixes with another: what one needs of another is copied by ``to_host`` and ``xp.asarray``. Each reading
of a device value as a Python number waits for the device, so ``floats`` reads several at once.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluator.backend import Array

_HIGHEST_SEED_BIT = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a mask is true: how many elements, the first in C order, and the lowest and highest index along each axis."""

    count: int
    first: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]


class _WideSeed(np.random.SeedSequence):
    """A seed sequence that gives 63 bits a word: cupy takes one word for a generator, and asks for no more than 32 bits of it.

    cuRAND itself takes 64, of which cupy's kernels can't use the highest.
    """

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[np.uint64]:
        """``n_words`` words of 63 random bits."""
        return np.asarray(super().generate_state(n_words, np.uint64) >> np.uint64(64 - _HIGHEST_SEED_BIT), dtype=np.uint64)


def array_module(array: Any) -> Any:
    """The module whose functions take this array: numpy or cupy, which is never imported here. TypeError where it is no array."""
    if isinstance(array, np.ndarray | np.generic):
        return np
    module = sys.modules.get(type(array).__module__.partition(".")[0])
    if not isinstance(array, getattr(module, "ndarray", ())):
        raise TypeError(f"expected a numpy or cupy array, got {type(array).__module__}.{type(array).__qualname__}")
    return module


def module_for(backend_kind: str) -> Any:
    """The module whose arrays a backend's harness works on: cupy for "cuda", else numpy. ImportError where cupy is missing."""
    return importlib.import_module("cupy") if backend_kind == "cuda" else np


def is_cupy(array: Any) -> bool:
    """Whether the array lies on a CUDA device, where kernels of ours take it."""
    return bool(array_module(array).__name__ == "cupy")


def to_host(array: Any) -> Any:
    """The array as a numpy array; no copy where it is one."""
    xp = array_module(array)
    return array if xp is np else xp.asnumpy(array)


def floats(*scalars: Any) -> tuple[float, ...]:
    """Scalars (Python numbers, zero-dimensional arrays) as Python floats, brought from the device together."""
    device = next((item for item in scalars if hasattr(item, "dtype") and array_module(item) is not np), None)
    if device is None:
        return tuple(float(item) for item in scalars)
    xp = array_module(device)
    return tuple(to_host(xp.stack([xp.asarray(item, dtype=np.float64) for item in scalars])).tolist())


def sum_of_squares(values: Any) -> Any:
    """The sum of squares of all elements, in the values' type, as a scalar of their module."""
    flat = values.reshape(-1)
    if array_module(values) is np:
        # np.dot would wake BLAS threads, which spin on for tens of milliseconds and disturb what is timed next
        return np.einsum("i,i->", flat, flat)
    return (flat * flat).sum()


def places(mask: Any) -> Places | None:
    """Where the mask is true; None where it nowhere is."""
    xp = array_module(mask)
    count, flat = floats(xp.count_nonzero(mask), xp.argmax(mask.reshape(-1)))
    if not count:
        return None
    spread = []
    for axis in range(mask.ndim):
        others = tuple(other for other in range(mask.ndim) if other != axis)
        spread.append(np.flatnonzero(to_host(mask.any(axis=others) if others else mask)))
    return Places(
        count=int(count),
        first=tuple(int(i) for i in np.unravel_index(int(flat), mask.shape)),
        low=tuple(int(found[0]) for found in spread),
        high=tuple(int(found[-1]) for found in spread),
    )


def bulk_generator(xp: Any, rng: np.random.Generator) -> Any:
    """A generator of large arrays of the module: ``rng`` itself for numpy, else one on the device seeded by ``rng``.

    Both have ``standard_normal``, ``random`` and ``integers``; cupy's has no ``permutation``, ``choice`` or ``shuffle``.
    """
    if xp is np:
        return rng
    seed = _WideSeed(int.from_bytes(rng.bytes(32)))
    return xp.random.Generator(xp.random.Philox4x3210(seed))


def on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which knows numpy arrays only, for arrays of any module.

    Positional arguments that map names to arrays are brought to the host; arrays in the result go back to where they came from.
    """

    def call(*arguments: Any) -> Any:
        xp: Any = np
        given = []
        for argument in arguments:
            arrays = isinstance(argument, Mapping) and any(hasattr(item, "dtype") for item in argument.values())
            if arrays:
                xp = array_module(next(iter(argument.values())))
            given.append({name: to_host(item) for name, item in argument.items()} if arrays else argument)
        result = function(*given)
        return result if xp is np else _sent(result, xp)

    return call


def _sent(result: Any, xp: Any) -> Any:
    """The result with every array in its (nested) mappings as one of ``xp``; anything else as it is."""
    if isinstance(result, Mapping):
        return {name: _sent(item, xp) for name, item in result.items()}
    return xp.asarray(result) if isinstance(result, np.ndarray) else result


Arrays = Mapping[str, Array]
"""Arrays of one module by tensor name."""
