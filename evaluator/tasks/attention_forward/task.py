"""What attention_forward computes: inputs, reference, exact transforms, mistakes that must fail, hidden shapes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluator.arrays import array_module
from evaluator.backend import Array
from evaluator.baseline import Symbols
from evaluator.dtypes import encode
from evaluator.task_card import SymbolValue
from evaluator.tasks.attention_forward.masks import visible
from evaluator.tasks.attention_forward.values import values
from evaluator.transforms import Move, Transform, moved

DEVICE_ARRAYS = True
PART_FLOP = 5e10
"""Arithmetic (dense, without mask) of one run of plain maths, from which tolerances come: some ten milliseconds on a GPU."""

Arrays = Mapping[str, Array]
Expected = Mapping[str, NDArray[np.float64]]


def scalars(symbols: Symbols) -> dict[str, float]:
    """``scale``."""
    return {"scale": int(symbols["d"]) ** -0.5}


def inputs(symbols: Symbols, distribution: str, rng: np.random.Generator, xp: Any = np) -> dict[str, Array]:
    """q, k, v of one distribution in stored form, as arrays of ``xp``."""
    return {name: encode(array, str(symbols["dtype"])) for name, array in values(symbols, distribution, rng, xp).items()}


def reference(symbols: Symbols, inputs: Arrays) -> dict[str, NDArray[np.float64]]:
    """out and lse in float64."""
    from evaluator.tasks.attention_forward.reference import exact

    return exact(symbols, inputs, _scale(symbols))


def plain(symbols: Symbols, inputs: Arrays, order: int) -> dict[str, Array]:
    """out and lse with float32 sums of products of the declared type."""
    from evaluator.tasks.attention_forward.reference import rounded

    return rounded(symbols, inputs, _scale(symbols), order)


def transform(symbols: Symbols, rng: np.random.Generator) -> Transform:
    """Batch entries and heads permuted (query heads within their group), signs of matching q and k channels flipped, v scaled.

    v is scaled by 1, 2 or 4 and never down, so that no value of a 16-bit type leaves the normal range.
    """
    b, h, hkv, d = (int(symbols[name]) for name in ("b", "h", "hkv", "d"))
    dtype = str(symbols["dtype"])
    batch, groups = rng.permutation(b), rng.permutation(hkv)
    heads = np.concatenate([group * (h // hkv) + rng.permutation(h // hkv) for group in groups])
    flips = rng.integers(0, 2, (b, 1, hkv, d), dtype=np.bool_)
    exponent = int(rng.integers(0, 3))
    batch_back, heads_back = np.argsort(batch), np.argsort(heads)

    def apply(old: Arrays) -> Arrays:
        return {
            "q": moved(old["q"], dtype, Move(order={0: batch, 2: heads}, flips=flips)),
            "k": moved(old["k"], dtype, Move(order={0: batch, 2: groups}, flips=flips)),
            "v": moved(old["v"], dtype, Move(order={0: batch, 2: groups}, exponent=exponent)),
        }

    def undo(new: Arrays) -> Arrays:
        return {
            "out": moved(new["out"], dtype, Move(order={0: batch_back, 2: heads_back}, exponent=-exponent)),
            "lse": moved(new["lse"], "float32", Move(order={0: batch_back, 1: heads_back})),
        }

    return Transform(apply=apply, undo=undo)


def part(symbols: Symbols, inputs: Arrays, expected: Expected) -> dict[str, Any]:
    """Some batch entries and heads, as a smaller problem of the same lengths, where all of them need more than PART_FLOP."""
    b, sq, sk, h, hkv, d = (int(symbols[name]) for name in ("b", "sq", "sk", "h", "hkv", "d"))
    heads = max(1, int(PART_FLOP) // (4 * d * sq * sk))
    if heads >= b * h:
        return {"symbols": symbols, "inputs": inputs, "expected": expected}
    entries = min(b, heads)
    each = min(h // hkv, heads // entries)
    groups = min(hkv, heads // (entries * each))
    some = {**symbols, "b": entries, "h": groups * each, "hkv": groups}
    chosen = np.concatenate([group * (h // hkv) + np.arange(each) for group in range(groups)])

    def cut(array: Any, heads_axis: int, kept: NDArray[np.int64]) -> Any:
        xp = array_module(array)
        return xp.ascontiguousarray(xp.take(array[:entries], xp.asarray(kept), axis=heads_axis))

    every = np.arange(groups)
    return {
        "symbols": some,
        "inputs": {"q": cut(inputs["q"], 2, chosen), "k": cut(inputs["k"], 2, every), "v": cut(inputs["v"], 2, every)},
        "expected": {"out": cut(expected["out"], 2, chosen), "lse": cut(expected["lse"], 1, chosen)},
    }


def wrong_answers(symbols: Symbols, inputs: Arrays, expected: Expected) -> dict[str, dict[str, Array]]:
    """Mistakes that happen and shortcuts that pay; those that only touch ``out`` keep the right ``lse``."""
    from evaluator.tasks.attention_forward.reference import exact

    rows, keys, h, hkv = (int(symbols[name]) for name in ("sq", "sk", "h", "hkv"))
    scale, (first, last) = _scale(symbols), visible(symbols)
    groups = np.arange(h) // (h // hkv)
    same_key = np.arange(rows) * keys // rows
    wrong: dict[str, Expected] = {
        "mean of v": {
            **expected,
            "out": exact(symbols, inputs, 0.0, (np.zeros_like(first), np.full_like(last, keys - 1)))["out"],
        },
        "copy of v": {**expected, "out": exact(symbols, inputs, 0.0, (same_key, same_key))["out"]},
        "first tile only": exact(symbols, inputs, scale, (first, np.minimum(last, first + max(1, min(64, keys // 2)) - 1))),
        "scale 1 % too large": exact(symbols, inputs, 1.01 * scale),
    }
    if symbols["causal"] or symbols["window"]:
        wrong["causal off by one"] = exact(symbols, inputs, scale, (first, last + 1))
        if rows != keys:
            top_left = np.arange(rows, dtype=np.int64)
            wrong["causal aligned top-left"] = exact(symbols, inputs, scale, (np.zeros_like(top_left), top_left))
    if symbols["window"]:
        wrong["window off by one"] = exact(symbols, inputs, scale, (np.maximum(first - 1, 0), last))
    if 1 < hkv < h:
        wrong["wrong head map"] = exact(symbols, inputs, scale, kv_heads=np.asarray(np.arange(h) % hkv))
    elif hkv == h > 1:
        wrong["wrong head map"] = exact(symbols, inputs, scale, kv_heads=np.roll(groups, 1))
    dtype = str(symbols["dtype"])
    return {
        name: {"out": encode(outputs["out"], dtype), "lse": encode(outputs["lse"], "float32")} for name, outputs in wrong.items()
    }


def hidden(rng: np.random.Generator, symbols: Symbols) -> dict[str, SymbolValue]:
    """A variation of a scenario of about the same cost: odd lengths, other head counts of the same or a neighbouring ratio."""
    varied = dict(symbols)
    sq, sk = int(symbols["sq"]), int(symbols["sk"])
    factor = float(rng.uniform(0.55, 1.0))
    varied["sq"] = max(1, int(sq * factor) | 1)
    varied["sk"] = varied["sq"] if sq == sk and rng.random() < 0.5 else max(1, int(sk * rng.uniform(0.55, 1.0)) | 1)
    ratio = int(symbols["h"]) // int(symbols["hkv"])
    ratio = int(rng.choice([ratio, 3])) if ratio > 1 else 1
    heads = max(1, int(rng.integers(max(1, int(symbols["hkv"]) // 2), int(symbols["hkv"]) + 2)))
    varied["hkv"], varied["h"] = heads, heads * ratio
    return varied


def _scale(symbols: Symbols) -> float:
    """The scale as the kernel gets it: rounded to float32."""
    return float(np.float32(scalars(symbols)["scale"]))
