"""A task of two lines: y = 2 x, total = row sums of x."""

import numpy as np

from evaluator.transforms import Transform

SCALES = {"normal": 1.0, "large": 64.0}


def inputs(symbols, distribution, rng):
    shape = (symbols["n"], symbols["m"])
    if distribution == "ones":
        return {"x": np.ones(shape, np.float32)}
    return {"x": (SCALES[distribution] * rng.standard_normal(shape)).astype(np.float32)}


def reference(symbols, inputs):
    x = inputs["x"].astype(np.float64)
    return {"y": 2.0 * x, "total": x.sum(axis=1)}


def plain(symbols, inputs, order):
    x = inputs["x"]
    return {"y": np.float32(2.0) * x, "total": x.sum(axis=1, dtype=np.float32)}


def transform(symbols, rng):
    rows = rng.permutation(symbols["n"])
    back = np.argsort(rows)
    return Transform(
        apply=lambda old: {"x": np.ascontiguousarray(old["x"][rows])},
        undo=lambda new: {"y": new["y"][back], "total": new["total"][back]},
    )


def hidden(rng, symbols):
    return {"n": int(symbols["n"]) + int(rng.integers(1, 3)), "m": int(symbols["m"]) + 1}
