"""Input values of attention by distribution: ordinary ones, and those that break shortcuts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluator.arrays import array_module, bulk_generator
from evaluator.baseline import Symbols
from evaluator.tasks.attention_forward.masks import visible

Floats = NDArray[np.float32]
_SCALES = {"normal": 1.0, "tiny": 1e-3, "large": 8.0, "huge": 64.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Randomness:
    """``rng`` draws what is small, on the host; ``bulk`` draws large arrays where the values live."""

    rng: np.random.Generator
    bulk: Any


def values(symbols: Symbols, distribution: str, rng: np.random.Generator, xp: Any = np) -> dict[str, Floats]:
    """q, k and v as float32 arrays of ``xp``, not yet rounded to the declared type."""
    b, sq, sk, h, hkv, d = (int(symbols[name]) for name in ("b", "sq", "sk", "h", "hkv", "d"))
    bulk = bulk_generator(xp, rng)
    q = bulk.standard_normal((b, sq, h, d), dtype=np.float32)
    k = bulk.standard_normal((b, sk, hkv, d), dtype=np.float32)
    v = bulk.standard_normal((b, sk, hkv, d), dtype=np.float32)
    if distribution in _SCALES:
        factor = np.float32(_SCALES[distribution])
        return {"q": q * factor, "k": k * factor, "v": v * factor}
    _SHAPERS[distribution](symbols, q, k, v, Randomness(rng=rng, bulk=bulk))
    return {"q": q, "k": k, "v": v}


def _root(symbols: Symbols) -> float:
    """1 / scale."""
    return float(int(symbols["d"]) ** 0.5)


def _outlier_key(symbols: Symbols, q: Floats, k: Floats, v: Floats, draws: Randomness) -> None:
    """Score +-30 at one key of the last tenth, by the sign of the query's first channel."""
    keys = k.shape[1]
    q[..., 0] = (q[..., 0] > 0) * 8.0 - 4.0
    k[..., 0] = 0.0
    k[:, int(draws.rng.integers(keys - max(1, keys // 10), keys)), :, 0] = 30.0 * _root(symbols) / 4.0


def _equal_scores(symbols: Symbols, q: Floats, k: Floats, v: Floats, draws: Randomness) -> None:
    k[:, 1:] = k[:, :1]


def _very_negative(symbols: Symbols, q: Floats, k: Floats, v: Floats, draws: Randomness) -> None:
    size = (50_000.0 * _root(symbols)) ** 0.5
    q[..., 0] = size
    k[..., 0] = -size


def _rising(symbols: Symbols, q: Floats, k: Floats, v: Floats, draws: Randomness) -> None:
    q[..., 0] = _root(symbols)
    k[..., 0] = array_module(k).asarray(np.linspace(-20.0, 20.0, k.shape[1], dtype=np.float32))[:, None]


def _falling(symbols: Symbols, q: Floats, k: Floats, v: Floats, draws: Randomness) -> None:
    q[..., 0] = _root(symbols)
    k[..., 0] = array_module(k).asarray(np.linspace(20.0, -20.0, k.shape[1], dtype=np.float32))[:, None]


def _cancelling(symbols: Symbols, q: Floats, k: Floats, v: Floats, draws: Randomness) -> None:
    q *= 0.25
    signs = np.where(np.arange(v.shape[1]) % 2 == 0, 1.0, -1.0).astype(np.float32)
    v += 16.0 * array_module(v).asarray(signs)[:, None, None]


def _integers(symbols: Symbols, q: Floats, k: Floats, v: Floats, draws: Randomness) -> None:
    """Keys are their own number in bits +-1, queries 64 / scale times the bits of a visible key: all other weights underflow."""
    keys, d = k.shape[1], k.shape[3]
    bits = min(d, max(1, (keys - 1).bit_length()))
    code = ((np.arange(keys)[:, None] >> np.arange(bits)) & 1) * 2.0 - 1.0
    first, last = visible(symbols)
    chosen = np.clip(first + draws.rng.integers(0, np.maximum(last - first + 1, 1)), 0, keys - 1)
    q[:], k[:] = 0.0, 0.0
    xp = array_module(k)
    k[..., :bits] = xp.asarray(code)[:, None, :]
    q[..., :bits] = xp.asarray(2.0 ** np.ceil(np.log2(64.0 * _root(symbols))) * code[chosen])[:, None, :]
    v[:] = draws.bulk.integers(0, 9, v.shape) - 4


def _blended(symbols: Symbols, q: Floats, k: Floats, v: Floats, draws: Randomness) -> None:
    """About one row in 64 has 12 times its size; one late key of one head is an outlier for everyone."""
    b, sq, h, _ = q.shape
    rng, keys = draws.rng, k.shape[1]
    stressed = draws.bulk.random((b, sq, h)) < 1 / 64
    stressed[int(rng.integers(b)), -1, int(rng.integers(h))] = True
    q *= (1 + 11 * stressed.astype(np.float32))[..., None]
    k[int(rng.integers(b)), int(rng.integers(keys - max(1, keys // 10), keys)), int(rng.integers(k.shape[2]))] *= 6.0


_SHAPERS: Mapping[str, Callable[[Symbols, Floats, Floats, Floats, Randomness], Any]] = {
    "outlier_key": _outlier_key,
    "equal_scores": _equal_scores,
    "very_negative": _very_negative,
    "rising": _rising,
    "falling": _falling,
    "cancelling": _cancelling,
    "integers": _integers,
    "blended": _blended,
}
