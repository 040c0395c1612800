"""Attention in torch, row block by row block, so that 16k rows fit into bounded memory: the oracle, and plain maths.

It runs where its inputs lie: numpy arrays on the CPU, cupy arrays without a copy on their GPU.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evaluator.arrays import array_module
from evaluator.backend import Array
from evaluator.baseline import Symbols
from evaluator.dtypes import decode, encode
from evaluator.tasks.attention_forward.masks import visible

_MOST_SCORES = {"cpu": 1 << 22, "cuda": 1 << 27}
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
    dtype, xp = str(symbols["dtype"]), array_module(inputs["q"])
    with _careful(symbols):
        q, k, v = (_tensor(decode(inputs[name], dtype), torch.float64) for name in "qkv")
        if q.device.type == "cuda":
            from evaluator.cuda.kernels import weigh

            groups = k.shape[2]
            if kv_heads is not None:
                head_map = torch.from_numpy(kv_heads).to(q.device)
                k, v, groups = k[:, :, head_map], v[:, :, head_map], q.shape[2]
            out, lse = in_few_passes(q, k, v, scale, bounds or visible(symbols), groups, partial(_weighed, weigh=weigh, xp=xp))
        else:
            out, lse = _attend(q, k, v, scale, bounds or visible(symbols), kv_heads)
    return {"out": _array(out, xp), "lse": _array(lse, xp)}


def rounded(symbols: Symbols, inputs: Mapping[str, Array], scale: float, order: int) -> dict[str, Array]:
    """``out`` and ``lse`` as a tensor core computes them: products of the declared type summed in float32.

    Weights exp(score - maximum) are rounded to the declared type before they meet v, their sum isn't, and ``out`` is rounded at
    the end. Even orders scale q, take exp, and let matrix products choose their order of summation. Odd ones scale the scores by
    float32(scale log2 e) and take exp2, as flash kernels do; on the CPU they add up every sum term by term as loops do, on a GPU
    16-bit values are multiplied on its tensor cores; 16-bit weights are divided by their sum before rounding. Orders above 1 take
    the keys from the last to the first, and sum the channels of q k^T in another order, the largest early.
    """
    dtype, xp = str(symbols["dtype"]), array_module(inputs["q"])
    with _careful(symbols):
        q, k, v = (_tensor(decode(inputs[name], dtype), torch.float32) for name in "qkv")
        bounds = visible(symbols)
        if order > 1:
            channels, keys = _largest_early(q, k, order), k.shape[1]
            q, k, v = q[..., channels], k[..., channels].flip(1), v.flip(1)
            bounds = keys - 1 - bounds[1], keys - 1 - bounds[0]
        out, lse = _attend(q, k, v, scale, bounds, None, _ROUNDED.get(dtype), order % 2 == 1)
    return {"out": encode(_array(out, xp), dtype), "lse": _array(lse, xp)}


def _largest_early(q: torch.Tensor, k: torch.Tensor, seed: int) -> torch.Tensor:
    """The channels in random order, the one with the largest products in the first half of them.

    What is added to a large product is rounded at its size, and which terms that are makes the error: at the very front it would
    be the same error in every order.
    """
    sizes = q.abs().flatten(0, 2).amax(0) * k.abs().flatten(0, 2).amax(0)
    shuffled = torch.from_numpy(np.random.default_rng(seed).permutation(q.shape[-1])).to(q.device)
    place = int((shuffled == sizes.argmax()).nonzero())
    return shuffled if place < len(shuffled) / 2 else shuffled.flip(0)


@contextmanager
def _careful(symbols: Symbols) -> Iterator[None]:
    """float32 products without TF32, 16-bit ones summed in float32, whatever the process allows; one CPU thread for small work.

    On a busy machine threads that wait for one another cost five times what they save.
    """
    matmul = torch.backends.cuda.matmul
    threads, precision = torch.get_num_threads(), matmul.fp32_precision
    reduced = matmul.allow_bf16_reduced_precision_reduction, matmul.allow_fp16_reduced_precision_reduction
    work = math.prod(int(symbols[name]) for name in ("b", "h", "sq", "sk", "d"))
    torch.set_num_threads(threads if work > _WORTH_THREADS else 1)
    matmul.fp32_precision = "ieee"
    matmul.allow_bf16_reduced_precision_reduction = matmul.allow_fp16_reduced_precision_reduction = False
    try:
        yield
    finally:
        matmul.fp32_precision = precision
        matmul.allow_bf16_reduced_precision_reduction, matmul.allow_fp16_reduced_precision_reduction = reduced
        torch.set_num_threads(threads)


def _tensor(values: Any, dtype: torch.dtype) -> torch.Tensor:
    """The array as a tensor of that type on its own device; cupy's arrays come by DLPack."""
    tensor = torch.from_numpy(values) if isinstance(values, np.ndarray) else torch.from_dlpack(values)
    return tensor.to(dtype)


def _array(tensor: torch.Tensor, xp: Any) -> Any:
    """The tensor as an array of the module, without a copy."""
    return tensor.numpy() if xp is np else xp.from_dlpack(tensor)


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
    on_cpu = q.device.type == "cpu"
    first, last = bounds
    first_there, last_there = (torch.from_numpy(np.asarray(bound)).to(q.device) for bound in bounds)
    out = q.new_zeros((batch, rows, heads, dim))
    lse = q.new_full((batch, heads, rows), -torch.inf)
    group_of = kv_heads if kv_heads is not None else np.arange(heads) // (heads // k.shape[2])
    head_map = torch.from_numpy(group_of).to(q.device)
    one_by_one = textbook and on_cpu
    times = _term_by_term if one_by_one else torch.matmul
    if textbook and weight_type is not None and not on_cpu:
        times = partial(_on_tensor_cores, dtype=weight_type)
    block = max(1, _MOST_SCORES[q.device.type] // (heads * k.shape[1]))
    for start in range(0, rows, block):
        stop = min(start + block, rows)
        low = int(first[start:stop].min())
        high = min(int(last[start:stop].max()) + 1, k.shape[1])
        if high <= low:
            continue
        hidden = None
        if first[start:stop].max() > low or last[start:stop].min() < high - 1:
            keys = torch.arange(low, high, device=q.device)
            hidden = (keys < first_there[start:stop, None]) | (keys > last_there[start:stop, None])
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


Weigh = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Turns scores (.., rows, keys) into unnormalised weights in place, given each row's first and last key; peaks and sums."""


def in_few_passes(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
    groups: int,
    weigh: Weigh,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What ``_attend`` gives in q's type, with fewer passes over the scores: ``weigh`` does all between the two products.

    The heads of q fall into ``groups`` that share a head of k and v, so that neither is copied for each of them.
    """
    batch, rows, heads, dim = q.shape
    first, last = bounds
    out, lse = torch.empty_like(q), q.new_empty((batch, heads, rows))
    most = _MOST_SCORES[q.device.type] // (heads * k.shape[1])
    block = max(1, min(most, rows))
    entries = max(1, most // block)
    for start in range(0, rows, block):
        stop = min(start + block, rows)
        low = min(max(int(first[start:stop].min()), 0), k.shape[1] - 1)
        high = max(min(int(last[start:stop].max()) + 1, k.shape[1]), low + 1)
        first_seen, last_seen = (
            torch.from_numpy(np.clip(bound[start:stop] - low, least, high - low - 1).astype(np.int32)).to(q.device)
            for bound, least in ((first, 0), (last, -1))
        )
        for entry in range(0, batch, entries):
            some = slice(entry, min(entry + entries, batch))
            queries = (
                q[some, start:stop]
                .unflatten(2, (groups, -1))
                .permute(0, 2, 3, 1, 4)
                .reshape(-1, heads // groups * (stop - start), dim)
            )
            scores = torch.bmm(queries * scale, k[some, low:high].permute(0, 2, 3, 1).flatten(0, 1))
            peaks, sums = weigh(scores.view(-1, heads, stop - start, high - low), first_seen, last_seen)
            lse[some, :, start:stop] = peaks + sums.log()
            found = torch.bmm(scores, v[some, low:high].transpose(1, 2).flatten(0, 1)).view(-1, heads, stop - start, dim)
            out[some, start:stop] = (found / sums.clamp_min(torch.finfo(q.dtype).tiny)[..., None]).transpose(1, 2)
    return out, lse


def _weighed(
    scores: torch.Tensor, first: torch.Tensor, last: torch.Tensor, weigh: Any, xp: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """``Weigh`` by a function of arrays of ``xp``."""
    peaks, sums = weigh(*(xp.from_dlpack(tensor) for tensor in (scores, first, last)))
    return torch.from_dlpack(peaks), torch.from_dlpack(sums)


def _on_tensor_cores(left: torch.Tensor, right: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """left @ right of values that the 16-bit type holds exactly, in float32 sums of tensor cores, which round less carefully."""
    return torch.bmm(left.to(dtype), right.to(dtype), out_dtype=torch.float32)


def _weights(scores: torch.Tensor, hidden: torch.Tensor | None, base_2: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """exp(score - peak), or exp2, and the peak; all zero weights with peak 0 where a row sees no key."""
    if hidden is not None:
        scores.masked_fill_(hidden, -torch.inf)
    peak = scores.amax(dim=-1, keepdim=True)
    peak = torch.where(torch.isfinite(peak), peak, torch.zeros_like(peak))
    weights = scores.sub_(peak).exp2_() if base_2 else scores.sub_(peak).exp_()
    return weights, peak


def _running_sum(weights: torch.Tensor) -> torch.Tensor:
    """The sum over the last axis, kept, with one weight added at a time: nearly equal weights then err all to one side."""
    left = weights.numpy()
    return torch.from_numpy(left.cumsum(axis=-1, dtype=left.dtype)[..., -1:].copy())


def _term_by_term(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left @ right with one product added at a time; in numpy, because thousands of small torch calls wait for threads.

    Beyond about a second of work several terms are added at a time, which rounds less.
    """
    one, other = left.numpy(), np.ascontiguousarray(right.numpy())
    heads, rows, terms = one.shape
    step = max(1, heads * rows * terms * other.shape[2] >> 30)
    result = np.zeros((heads, rows, other.shape[2]), dtype=one.dtype)
    for term in range(0, terms, step):
        if step == 1:
            result += one[:, :, term, None] * other[:, None, term]
        else:
            result += one[:, :, term : term + step] @ other[:, term : term + step]
    return torch.from_numpy(result)
