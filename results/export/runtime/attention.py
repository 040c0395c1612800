"""The entry points of attention forward: torch's own form, and FlashAttention-3's."""

from typing import Any

import torch
from torch.nn import functional

from .outside import tell

Handle = Any


class Attention:
    """Both entry points over the operator ``handle`` (q, k, v as (b, s, h, d), scale, causal, window -> out, lse)."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def scaled_dot_product_attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """What torch's function of that name gives for (b, h, s, d): its causal mask is top-left, autocast casts the inputs.

        A mask tensor, dropout, fewer than four axes, values of another width, and a top-left mask over unequal lengths are
        outside the kernel's domain.
        """
        kind = query.device.type
        if torch.is_autocast_enabled(kind):
            wanted = torch.get_autocast_dtype(kind)
            query, key, value = query.to(wanted), key.to(wanted), value.to(wanted)
        why = _outside(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
        if why:
            if torch.compiler.is_compiling():
                pass  # a warning would break the graph; the operator itself still warns of sizes
            else:
                tell(why, "scaled_dot_product_attention", "torch's own")
            return functional.scaled_dot_product_attention(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        q, k, v = (tensor.transpose(1, 2) for tensor in (query, key, value))
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        out: torch.Tensor = self._handle(q, k, v, factor, int(is_causal), 0)[0]
        return out.transpose(1, 2)

    def flash_attn_func(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        softmax_scale: float | None = None,
        causal: bool = False,
        window_size: tuple[int, int] = (-1, -1),
        return_attn_probs: bool = False,
    ) -> Any:
        """``out`` for (b, s, h, d), with ``lse`` (b, h, s) beside it where ``return_attn_probs``; bottom-right causal mask.

        ``window_size`` is (-1, -1), or (W, 0) with W above 0. ValueError for any other.
        """
        left, right = window_size
        if not (left < 0 and right < 0) and not (left > 0 and right == 0):
            if not (left < 0 and right == 0):
                raise ValueError(f"window_size {window_size}: this kernel knows (-1, -1), (-1, 0) and (W, 0) with W > 0")
            causal = True
        window = max(left, 0)
        factor = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
        out, lse = self._handle(q, k, v, factor, int(causal or window > 0), window)
        return (out, lse) if return_attn_probs else out

    def transformers_attention(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        scaling: float | None = None,
        dropout: float = 0.0,
        **unused: Any,
    ) -> tuple[torch.Tensor, None]:
        """What Hugging Face Transformers expects of an attention function: ``out`` as (b, s, h, d), and no weights.

        Register it with ``transformers.AttentionInterface.register(NAME, transformers_attention)``. Without a mask it is causal
        where the module is, as their own SDPA function is.
        """
        causal = attention_mask is None and query.shape[2] > 1 and bool(getattr(module, "is_causal", True))
        out = self.scaled_dot_product_attention(
            query, key, value, attention_mask, dropout, causal, scale=scaling, enable_gqa=query.shape[1] != key.shape[1]
        )
        return out.transpose(1, 2).contiguous(), None


def _outside(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    enable_gqa: bool,
) -> str:
    """Why torch's own function has to be called; empty where the operator means the same."""
    if attn_mask is not None:
        return "attn_mask is a tensor"
    if dropout_p > 0:
        return "dropout"
    if not query.dim() == key.dim() == value.dim() == 4:
        return "not four axes"
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        return "an input requires a gradient"
    if query.shape[-1] != value.shape[-1] or key.shape != value.shape or query.shape[0] != key.shape[0]:
        return "q, k and v of different batch or width"
    if is_causal and query.shape[2] != key.shape[2]:
        return "a top-left causal mask over unequal lengths"
    if query.shape[1] != key.shape[1] and (not enable_gqa or query.shape[1] % key.shape[1] != 0):
        return "head counts that don't divide"
    return ""
