"""Attention forward by torch: in float64 as the oracle, by SDPA as the fallback. Layout (b, s, h, d), causal bottom-right."""

import torch
from torch.nn import functional

MOST_SCORES = 1 << 24


def visible(sq: int, sk: int, causal: int, window: int, device: torch.device) -> torch.Tensor | None:
    """Which key (column) each query (row) sees: boolean (sq, sk), None where all see all."""
    if not causal and not window:
        return None
    distance = torch.arange(sq, device=device)[:, None] + (sk - sq) - torch.arange(sk, device=device)
    return (distance >= 0) & (distance <= window) if window else distance >= 0


def by_torch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: int, window: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """``out`` by torch's scaled_dot_product_attention and ``lse`` in float32 by row blocks; rows without keys give 0 and -inf."""
    out = sdpa(q, k, v, scale, causal, window).contiguous()
    return out, _attend(q.float(), k.float(), v, scale, causal, window, lse_only=True)[1]


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: int, window: int) -> torch.Tensor:
    """``out`` alone, with a mask tensor only where torch's own causal mask, which is top-left, means something else."""
    top_left = causal and not window and q.shape[1] == k.shape[1]
    mask = None if top_left else visible(q.shape[1], k.shape[1], causal, window, q.device)
    queries, keys, values = (tensor.transpose(1, 2) for tensor in (q, k, v))
    grouped = q.shape[2] != k.shape[2]
    out = functional.scaled_dot_product_attention(
        queries, keys, values, mask, is_causal=bool(top_left), scale=scale, enable_gqa=grouped
    )
    if mask is not None:
        out = out.masked_fill(~mask.any(1)[:, None], 0.0)
    return out.transpose(1, 2)


def exact(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: int, window: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """``out`` and ``lse`` in float64."""
    return _attend(q.double(), k.double(), v.double(), scale, causal, window, lse_only=False)


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: int, window: int, *, lse_only: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    b, sq, h, _ = q.shape
    out, lse = torch.zeros_like(q), q.new_full((b, h, sq), -torch.inf)
    mask = visible(sq, k.shape[1], causal, window, q.device)
    rows = max(1, MOST_SCORES // max(1, h * k.shape[1]))
    each = h // k.shape[2]
    for entry in range(b):
        keys, values = (tensor[entry].repeat_interleave(each, 1).transpose(0, 1) for tensor in (k, v))
        for start in range(0, sq, rows):
            some = slice(start, min(start + rows, sq))
            scores = scale * (q[entry, some].transpose(0, 1) @ keys.transpose(1, 2))
            if mask is not None:
                scores = scores.masked_fill(~mask[some], -torch.inf)
            lse[entry, :, some] = total = torch.logsumexp(scores, -1)
            if not lse_only:
                weights = torch.exp(scores - torch.where(torch.isfinite(total), total, 0.0)[..., None])
                out[entry, some] = (weights @ values).transpose(0, 1)
    return out, lse
