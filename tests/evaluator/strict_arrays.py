"""A module of arrays that stands in for cupy where there is no GPU: numpy underneath, but as strict as cupy about mixing.

Its arrays refuse numpy arrays in arithmetic, as indices and as arguments, refuse to become numpy arrays but by ``asnumpy``, keep
results of reductions as zero-dimensional arrays, and have only what cupy has. ``waits`` counts what would wait for the device.
"""

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

FUNCTIONS = (
    *("abs", "argmax", "array_equal", "ascontiguousarray", "count_nonzero", "frexp", "isfinite", "isnan", "ldexp", "maximum"),
    *("mean", "ones_like", "rint", "sqrt", "square", "stack", "subtract", "take", "where", "zeros", "zeros_like"),
)
SCALARS = (bool, int, float, np.generic)
BINARY = ("add", "sub", "mul", "truediv", "and_", "or_", "xor", "lshift", "rshift", "lt", "le", "gt", "ge", "eq", "ne")
waits = [0]


def _inside(value: Any) -> Any:
    """The numpy value of an argument that cupy would take; TypeError for a numpy array."""
    if isinstance(value, ndarray):
        return value.inner
    if isinstance(value, np.ndarray):
        raise TypeError("a numpy array meets device arrays: upload it by asarray")
    if isinstance(value, tuple | list):
        return type(value)(_inside(item) for item in value)
    return value


def _outside(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_outside(item) for item in value)
    return ndarray(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(self: "ndarray", axis: Any = None) -> Any:
        return _outside(getattr(self.inner, name)(axis=axis))

    return reduce


class ndarray:  # noqa: N801 -- the name that every array module has
    __array_ufunc__ = None

    def __init__(self, inner: NDArray[Any]) -> None:
        self.inner = inner

    shape = property(lambda self: self.inner.shape)
    dtype = property(lambda self: self.inner.dtype)
    size = property(lambda self: self.inner.size)
    ndim = property(lambda self: self.inner.ndim)
    nbytes = property(lambda self: self.inner.nbytes)
    any, all, sum, max, min = (_reduction(name) for name in ("any", "all", "sum", "max", "min"))

    def reshape(self, *shape: int) -> "ndarray":
        return ndarray(self.inner.reshape(*shape))

    def astype(self, dtype: Any, copy: bool = True) -> "ndarray":
        return ndarray(self.inner.astype(dtype, copy=copy))

    def view(self, dtype: np.dtype[Any]) -> "ndarray":
        assert self.inner.flags.c_contiguous, "cupy needs a contiguous last axis"
        return ndarray(self.inner.view(dtype))

    def copy(self) -> "ndarray":
        return ndarray(self.inner.copy())

    def tobytes(self) -> bytes:
        return self.inner.tobytes()

    def __getitem__(self, key: Any) -> Any:
        return _outside(self.inner[_inside(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.inner[_inside(key)] = _inside(value)

    def __invert__(self) -> Any:
        return _outside(~self.inner)

    def __array__(self, *arguments: Any) -> Any:
        raise TypeError("implicit conversion to a numpy array: use to_host")

    def __array_function__(self, function: Any, *arguments: Any) -> Any:
        raise TypeError(f"numpy.{function.__name__} of a device array")

    def __iter__(self) -> Any:
        raise TypeError("a loop over elements of a device array")

    def __bool__(self) -> bool:
        waits[0] += 1
        return bool(self.inner)

    def __float__(self) -> float:
        waits[0] += 1
        return float(self.inner)

    def __int__(self) -> int:
        waits[0] += 1
        return int(self.inner)

    def __dlpack__(self, **options: Any) -> Any:
        return self.inner.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.inner.__dlpack_device__()


def _operator(name: str, swapped: bool) -> Callable[[Any, Any], Any]:
    function = getattr(operator, name)

    def operate(self: ndarray, other: Any) -> Any:
        if not isinstance(other, (ndarray, *SCALARS)):
            raise TypeError(f"a device array {name} {type(other).__name__}")
        pair = (_inside(other), self.inner) if swapped else (self.inner, _inside(other))
        return _outside(function(*pair))

    return operate


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    def operate(self: ndarray, other: Any) -> ndarray:
        if not isinstance(other, (ndarray, *SCALARS)):
            raise TypeError(f"a device array i{name} {type(other).__name__}")
        self.inner = getattr(operator, f"i{name}")(self.inner, _inside(other))
        return self

    return operate


for _name in BINARY:
    _plain = _name.rstrip("_")
    setattr(ndarray, f"__{_plain}__", _operator(_name, swapped=False))
    setattr(ndarray, f"__r{_plain}__", _operator(_name, swapped=True))
for _name in ("add", "sub", "mul"):
    setattr(ndarray, f"__i{_name}__", _in_place(_name))
ndarray.__ior__ = _in_place("or")  # type: ignore[attr-defined]


def _function(name: str) -> Callable[..., Any]:
    def call(*arguments: Any, out: ndarray | None = None, **options: Any) -> Any:
        found = getattr(np, name)(*_inside(arguments), **{key: _inside(value) for key, value in options.items()})
        if out is not None:
            out.inner[...] = found
            return out
        return _outside(np.asarray(found) if isinstance(found, bool | int) else found)

    return call


for _name in FUNCTIONS:
    globals()[_name] = _function(_name)


def asarray(values: Any, dtype: Any = None) -> ndarray:
    """An upload, or the array itself."""
    return ndarray(np.asarray(values.inner if isinstance(values, ndarray) else values, dtype=dtype))


def asnumpy(values: ndarray) -> NDArray[Any]:
    waits[0] += 1
    return values.inner


def from_dlpack(tensor: Any) -> ndarray:
    return ndarray(np.from_dlpack(tensor))


class random:  # noqa: N801 -- as cupy names it
    class Philox4x3210:
        def __init__(self, seed: np.random.SeedSequence) -> None:
            assert isinstance(seed, np.random.SeedSequence)
            self.word = seed.generate_state(1, np.uint32)[0]  # type: ignore[arg-type]

    class Generator:
        def __init__(self, bits: "random.Philox4x3210") -> None:
            self._rng = np.random.default_rng(int(bits.word))

        def standard_normal(self, size: Any, dtype: Any) -> ndarray:
            return ndarray(self._rng.standard_normal(size, dtype=dtype))

        def random(self, size: Any) -> ndarray:
            return ndarray(self._rng.random(size))

        def integers(self, low: int, high: int, size: Any) -> ndarray:
            assert low >= 0
            return ndarray(self._rng.integers(low, high, size))


ndarray.__module__ = "strict_arrays"
sys.modules["strict_arrays"] = sys.modules[__name__]
