"""The light task of the CUDA pack: y = x w by columns, total = row sums. Sizes leave slack behind every buffer."""

import numpy as np

from evaluator.dtypes import decode, encode
from evaluator.transforms import Transform

SCALES = {"normal": 1.0, "large": 64.0}


def inputs(symbols, distribution, rng):
    shape, dtype = (symbols["n"], symbols["m"]), symbols["dtype"]
    if distribution == "ones":
        return {"x": encode(np.ones(shape, np.float32), dtype), "w": np.ones(shape[1], np.float32)}
    values = (SCALES[distribution] * rng.standard_normal(shape)).astype(np.float32)
    return {"x": encode(values, dtype), "w": rng.standard_normal(shape[1]).astype(np.float32)}


def reference(symbols, inputs):
    products = decode(inputs["x"], symbols["dtype"]).astype(np.float64) * inputs["w"].astype(np.float64)
    return {"y": products, "total": products.sum(axis=1)}


def plain(symbols, inputs, order):
    products = decode(inputs["x"], symbols["dtype"]).astype(np.float32) * inputs["w"]
    columns = np.random.default_rng(order).permutation(products.shape[1])
    return {"y": encode(products, symbols["dtype"]), "total": products[:, columns].sum(axis=1, dtype=np.float32)}


def transform(symbols, rng):
    rows = rng.permutation(symbols["n"])
    back = np.argsort(rows)
    return Transform(
        apply=lambda old: {"x": np.ascontiguousarray(old["x"][rows]), "w": old["w"]},
        undo=lambda new: {"y": new["y"][back], "total": new["total"][back]},
    )


def hidden(rng, symbols):
    return {**symbols, "n": int(symbols["n"]) + int(rng.integers(1, 9)), "m": int(symbols["m"]) + 8}
