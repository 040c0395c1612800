"""How much error is allowed: derived from what plain maths at the declared precision makes on the same inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluator.arrays import array_module, floats
from evaluator.backend import Array
from evaluator.dtypes import decode, unit_in_last_place

MAX_FACTOR = 2.0
RMS_FACTOR = 1.5

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """The allowed error of one output tensor on one set of inputs.

    An element may be off by ``row_allowed`` of its row (float64, the expected shape without its last axis), the root mean
    square over all finite elements by ``rms_allowed``. ``dtype`` is the element type of the output, ``finite`` whether every
    expected value is finite, and ``plain_max`` and ``plain_rms`` are the measured errors of plain maths. Absolute values
    in the output's unit.
    """

    dtype: str
    row_allowed: NDArray[np.float64]
    rms_allowed: float
    plain_max: float
    plain_rms: float
    finite: bool


def derive(
    expected: Floats, plains: Sequence[Array], dtype: str, least_floor: float = 0.0, plain_expected: Floats | None = None
) -> Tolerance:
    """The tolerance of one output: max error 2 x plain's + floor, RMS error 1.5 x plain's + floor.

    The floor is one unit in the last place of the output's dtype at the row's largest |expected| (a row is the last axis),
    but at least ``least_floor`` (which the task states, such as 1e-4 for a log-sum-exp); for the RMS it is the root mean square
    of the rows' floors. A unit in the last place of float32 lies below 1e-5 x max|v| by itself, since |out| <= max|v|.

    ``plains`` are outputs of plain maths in stored form. Several (other orders of summation) guard against a lucky one in small
    tensors: the largest error counts. ``plain_expected`` is what was expected of them where they belong to a part of the work.
    ValueError where plain maths has NaN or infinities in other places than the reference, because no tolerance can then be
    derived.
    """
    xp = array_module(expected)
    finite = xp.isfinite(expected)
    all_finite = bool(finite.all())
    plain_max, plain_rms = _plain_errors(expected if plain_expected is None else plain_expected, plains, dtype)
    sizes = xp.abs(expected) if all_finite else xp.where(finite, xp.abs(expected), 0.0)
    largest = sizes if not sizes.ndim else sizes.max(axis=-1) if sizes.size else xp.zeros(sizes.shape[:-1])
    floor = xp.maximum(unit_in_last_place(largest, dtype), least_floor)
    rms_floor = float(xp.sqrt(xp.mean(xp.square(floor)))) if floor.size else 0.0
    return Tolerance(
        dtype=dtype,
        row_allowed=MAX_FACTOR * plain_max + floor,
        rms_allowed=RMS_FACTOR * plain_rms + rms_floor,
        plain_max=plain_max,
        plain_rms=plain_rms,
        finite=all_finite,
    )


def _plain_errors(expected: Floats, plains: Sequence[Array], dtype: str) -> tuple[float, float]:
    """The largest error of plain maths and the largest of its root mean squares."""
    xp = array_module(expected)
    finite = xp.isfinite(expected)
    all_finite = bool(finite.all())
    wanted = expected.reshape(-1) if all_finite else expected[finite]
    plain_max = plain_rms = 0.0
    for plain in plains:
        values = decode(plain, dtype)
        if not bool(xp.array_equal(xp.isfinite(values), finite)):
            raise ValueError("plain maths is not finite in the same places as the reference: change the inputs")
        found = values.astype(np.float64)
        errors = xp.abs((found.reshape(-1) if all_finite else found[finite]) - wanted)
        if errors.size:
            largest_error, rms = floats(errors.max(), xp.sqrt(xp.mean(xp.square(errors))))
            plain_max, plain_rms = max(plain_max, largest_error), max(plain_rms, rms)
    return plain_max, plain_rms


Tolerances = Mapping[str, Tolerance]
"""The tolerance of every output by tensor name."""
