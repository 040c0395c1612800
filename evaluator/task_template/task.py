"""The functions of the task. This file is loaded by itself: import numpy, torch, evaluator modules, not its neighbours.

Arrays are numpy arrays in stored form: float32 and float16 as they are, bf16 as uint16 bit patterns
(``evaluator.dtypes.encode`` and ``decode`` convert). ``symbols`` maps every symbol to its value in one scenario.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from evaluator.transforms import Transform, flip_signs

Symbols = Mapping[str, Any]
Arrays = Mapping[str, Any]

EPSILON = np.float32(1e-6)


def scalars(symbols: Symbols) -> dict[str, float]:
    """The values of ``[scalars]``. Leave this function out if there are none."""
    return {"epsilon": float(EPSILON)}


def inputs(symbols: Symbols, distribution: str, rng: np.random.Generator) -> dict[str, Any]:
    """Fresh inputs; all randomness comes from ``rng``. Include what breaks shortcuts."""
    x = rng.standard_normal((symbols["batch"], symbols["width"]), dtype=np.float32)
    weight = rng.standard_normal(symbols["width"], dtype=np.float32)
    if distribution == "tiny":
        x *= np.float32(1e-3)
    if distribution == "outlier":
        x[np.arange(len(x)), rng.integers(0, symbols["width"], len(x))] *= 100
    return {"x": x, "weight": weight}


def reference(symbols: Symbols, inputs: Arrays) -> dict[str, Any]:
    """The right outputs in float64, computed from the inputs as they are: the oracle."""
    x = inputs["x"].astype(np.float64)
    mean_square = np.square(x).mean(axis=1, keepdims=True)
    return {"y": inputs["weight"] * x / np.sqrt(mean_square + float(EPSILON))}


def plain(symbols: Symbols, inputs: Arrays, order: int) -> dict[str, Any]:
    """The outputs by ordinary maths at the declared precision: twice its error is what a candidate may have.

    ``order`` counts from 0; use it to add up in other orders, so that every honest way of summing lies in the tolerance.
    Here even orders sum in pairs and odd ones one element at a time.
    """
    x = inputs["x"]
    squares = np.square(x)
    total = squares.cumsum(axis=1, dtype=np.float32)[:, -1:] if order % 2 else squares.sum(axis=1, keepdims=True)
    inverse = 1 / np.sqrt(total / np.float32(symbols["width"]) + EPSILON)
    return {"y": inputs["weight"] * (x * inverse)}


def transform(symbols: Symbols, rng: np.random.Generator) -> Transform:
    """A change of the inputs that changes the outputs in a known, exact way. Optional, but it keeps timed contents fresh.

    Here: rows permuted, and the signs of some columns of x flipped.
    """
    order, flips = rng.permutation(symbols["batch"]), rng.integers(0, 2, symbols["width"]).astype(bool)
    back = np.argsort(order)
    return Transform(
        apply=lambda old: {"x": flip_signs(old["x"][order], flips), "weight": old["weight"]},
        undo=lambda new: {"y": flip_signs(new["y"][back], flips)},
    )


def wrong_answers(symbols: Symbols, inputs: Arrays, expected: Arrays) -> dict[str, dict[str, Any]]:
    """Mistakes that must fail under the first distribution, by name. All zeros and a lower precision are tried anyway."""
    half = {**inputs, "x": inputs["x"][:, : symbols["width"] // 2]}
    norm = np.sqrt(np.square(half["x"]).mean(axis=1, keepdims=True) + EPSILON)
    return {
        "mean over half of the row": {"y": inputs["weight"] * inputs["x"] / norm},
        "weight left out": {"y": (expected["y"] / inputs["weight"]).astype(np.float32)},
        "1 % too large": {"y": (1.01 * expected["y"]).astype(np.float32)},
    }


def hidden(rng: np.random.Generator, symbols: Symbols) -> dict[str, Any]:
    """A variation of a scenario that no set holds, for finals: odd sizes of about the same cost. Optional."""
    return {"batch": int(symbols["batch"] * rng.uniform(0.5, 1)) | 1, "width": int(symbols["width"] * rng.uniform(0.5, 1)) | 1}
