"""Attention in torch, row block by row block, so that 16k rows fit into bounded memory: the oracle, and plain maths."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evaluator.backend import Array
from evaluator.baseline import Symbols
from evaluator.dtypes import decode, encode
from evaluator.tasks.attention_forward.masks import visible

_MOST_SCORES = 1 << 22
_LOG2_E = math.log2(math.e)
_WORTH_THREADS = 1 << 28
_ROUNDED = {"bf16": torch.bfloat16, "fp16": torch.float16}


def exact(
    symbols: Symbols,
    inputs: Mapping[str, Array],
    scale: float,
    bounds: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    kv_heads: NDArray[np.int64] | None = None,
) -> dict[str, NDArray[np.float64]]:
    """``out`` and ``lse`` in float64 from the rounded inputs.

    ``bounds`` (first and last visible key of each row) and ``kv_heads`` (the key head of each query head) replace the right
    ones, which makes wrong answers.
    """
    dtype = str(symbols["dtype"])
    with _threads(symbols):
        q, k, v = (_torch(decode(inputs[name], dtype), torch.float64) for name in "qkv")
        out, lse = _attend(q, k, v, scale, bounds or visible(symbols), kv_heads)
    return {"out": out.cpu().numpy(), "lse": lse.cpu().numpy()}


def rounded(symbols: Symbols, inputs: Mapping[str, Array], scale: float, order: int) -> dict[str, Array]:
    """``out`` and ``lse`` as a tensor core computes them: products of the declared type summed in float32.

    Weights exp(score - maximum) are rounded to the declared type before they meet v, their sum isn't, and ``out`` is rounded at
    the end. Even orders scale q, take exp, and let matrix products choose their order of summation. Odd ones scale the scores by
    float32(scale log2 e) and take exp2, as flash kernels do; in fp32 they add up every sum term by term as a loop does, and
    divide 16-bit weights by their sum before rounding them. Orders above 1 sum the channels of q k^T in another order.
    """
    dtype = str(symbols["dtype"])
    with _threads(symbols):
        q, k, v = (_torch(decode(inputs[name], dtype), torch.float32) for name in "qkv")
        if order > 1:
            channels = torch.from_numpy(np.random.default_rng(order).permutation(int(symbols["d"]))).to(q.device)
            q, k = q[..., channels], k[..., channels]
        out, lse = _attend(q, k, v, scale, visible(symbols), None, _ROUNDED.get(dtype), order % 2 == 1)
    return {"out": encode(out.cpu().numpy(), dtype), "lse": lse.cpu().numpy()}


@contextmanager
def _threads(symbols: Symbols) -> Iterator[None]:
    """One thread for small work: on a busy machine threads that wait for one another cost five times what they save."""
    before = torch.get_num_threads()
    work = math.prod(int(symbols[name]) for name in ("b", "h", "sq", "sk", "d"))
    torch.set_num_threads(before if work > _WORTH_THREADS else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _torch(values: NDArray[Any], dtype: torch.dtype) -> torch.Tensor:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.from_numpy(values).to(device=device, dtype=dtype)


def _attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
    kv_heads: NDArray[np.int64] | None = None,
    weight_type: torch.dtype | None = None,
    textbook: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``out`` (b, sq, h, d) and ``lse`` (b, h, sq) in the element type of q."""
    batch, rows, heads, dim = q.shape
    first, last = (torch.from_numpy(np.asarray(bound)).to(q.device) for bound in bounds)
    out = q.new_zeros((batch, rows, heads, dim))
    lse = q.new_full((batch, heads, rows), -torch.inf)
    head_map = kv_heads if kv_heads is not None else np.arange(heads) // (heads // k.shape[2])
    one_by_one = textbook and weight_type is None
    times = _term_by_term if one_by_one else torch.matmul
    block = max(1, _MOST_SCORES // (heads * k.shape[1]))
    for start in range(0, rows, block):
        stop = min(start + block, rows)
        low = int(first[start:stop].min())
        high = min(int(last[start:stop].max()) + 1, k.shape[1])
        if high <= low:
            continue
        keys = torch.arange(low, high, device=q.device)
        hidden = (keys < first[start:stop, None]) | (keys > last[start:stop, None])
        for entry in range(batch):
            queries = q[entry, start:stop].transpose(0, 1) * (1.0 if textbook else scale)
            scores = times(queries, k[entry, low:high][:, head_map].permute(1, 2, 0))
            weights, peak = _weights(scores.mul_(scale * _LOG2_E) if textbook else scores, hidden, textbook)
            total = _running_sum(weights) if one_by_one else weights.sum(dim=-1, keepdim=True)
            lse[entry, :, start:stop] = ((peak + total.log2()) / _LOG2_E if textbook else peak + total.log())[..., 0]
            total = total.clamp_min(torch.finfo(q.dtype).tiny)
            if weight_type is not None:
                if textbook:
                    weights, total = weights / total, torch.ones_like(total)
                weights = weights.to(weight_type).to(q.dtype)
            values = v[entry, low:high][:, head_map].transpose(0, 1)
            out[entry, start:stop] = (times(weights, values) / total).transpose(0, 1)
    return out, lse


def _weights(scores: torch.Tensor, hidden: torch.Tensor, base_2: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """exp(score - peak), or exp2, and the peak; all zero weights with peak 0 where a row sees no key."""
    scores.masked_fill_(hidden, -torch.inf)
    peak = scores.amax(dim=-1, keepdim=True)
    peak = torch.where(torch.isfinite(peak), peak, torch.zeros_like(peak))
    weights = scores.sub_(peak).exp2_() if base_2 else scores.sub_(peak).exp_()
    return weights, peak


def _running_sum(weights: torch.Tensor) -> torch.Tensor:
    """The sum over the last axis, kept, with one weight added at a time: nearly equal weights then err all to one side."""
    left = weights.cpu().numpy()
    return torch.from_numpy(left.cumsum(axis=-1, dtype=left.dtype)[..., -1:].copy()).to(weights.device)


def _term_by_term(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left @ right with one product added at a time; in numpy, because thousands of small torch calls wait for threads.

    Beyond about a second of work several terms are added at a time, which rounds less.
    """
    one, other = left.cpu().numpy(), np.ascontiguousarray(right.cpu().numpy())
    heads, rows, terms = one.shape
    step = max(1, heads * rows * terms * other.shape[2] >> 30)
    result = np.zeros((heads, rows, other.shape[2]), dtype=one.dtype)
    for term in range(0, terms, step):
        if step == 1:
            result += one[:, :, term, None] * other[:, None, term]
        else:
            result += one[:, :, term : term + step] @ other[:, term : term + step]
    return torch.from_numpy(result).to(left.device)
