"""The peers of attention_forward by name: torch on the CPU; flash and cuDNN through torch, FlashAttention-3 on CUDA.

All take the bottom-right causal mask of the contract: FlashAttention has it, torch's CPU kernel and cuDNN mask top-left, which is
the same only where sq = sk. FlashAttention-3 comes from two wheels, each with one split, its default, and with its split
heuristic, which is faster for few rows; ``fa3`` is the fastest of these in each scenario. torch is imported by the functions, not
by this file.
"""

import functools
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from evaluator.baseline import Baseline, Bound, Symbols
from evaluator.tasks.attention_forward.fa3 import best_of, fastest
from evaluator.tasks.attention_forward.masks import visible

Tensors = Mapping[str, Any]
Compute = Callable[[], tuple[Any, Any]]
"""Computes out (b, sq, h, d) and an lse that reshapes to (b, h, sq)."""
Prepare = Callable[[Symbols, Tensors, float], Compute]
"""From symbols, torch tensors q k v in (b, s, h, d) and the scale."""


def _torch_missing(device: str) -> str | None:
    if importlib.util.find_spec("torch") is None:
        return "torch isn't installed"
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        return "torch sees no CUDA device"
    return None


def _module_missing(module: str, package: str) -> str | None:
    if importlib.util.find_spec(module) is None:
        return f"{module} isn't installed: pip install {package}"
    return _torch_missing("cuda")


@functools.cache  # it reads the metadata of every installed package, seconds on a large installation
def _module_version(module: str) -> str:
    """Name and version of the distribution that ships the module, so that two builds of one interface can be told apart."""
    owners = importlib.metadata.packages_distributions().get(module, [])
    return ", ".join(f"{owner} {importlib.metadata.version(owner)}" for owner in owners) or f"{module}, version unknown"


def _torch_cpu_version() -> str:
    import torch

    return f"torch {torch.__version__}, fused CPU attention, {torch.backends.cpu.get_cpu_capability()}"


def _cudnn_version() -> str:
    import torch

    return f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"


def _flash_version() -> str:
    import torch

    return f"torch {torch.__version__} flash attention, CUDA {torch.version.cuda}"


def as_torch(array: Any, dtype: str) -> Any:
    """The buffer as a torch tensor without a copy: numpy, or anything with DLPack; uint16 bits of bf16 viewed as bfloat16."""
    import torch

    tensor = torch.from_numpy(array) if isinstance(array, np.ndarray) else torch.from_dlpack(array)
    return tensor.view(torch.bfloat16) if dtype == "bf16" else tensor


def binding(prepare: Prepare) -> Callable[[Symbols, Mapping[str, Any], Mapping[str, Any]], Bound]:
    """A baseline's ``bind`` from a function that prepares the call."""

    def bind(symbols: Symbols, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Bound:
        dtype = str(symbols["dtype"])
        tensors = {name: as_torch(inputs[name], dtype) for name in "qkv"}
        compute = prepare(symbols, tensors, float(np.float32(int(symbols["d"]) ** -0.5)))
        out, lse = as_torch(outputs["out"], dtype), as_torch(outputs["lse"], "float32")
        blind = int((visible(symbols)[1] < 0).sum())  # rows that see no key: libraries disagree about their lse
        latest: list[tuple[Any, Any]] = []

        def call() -> None:
            latest[:] = [compute()]

        def store() -> None:
            result, result_lse = latest[0]
            out.copy_(result)
            lse.copy_(result_lse.reshape(lse.shape))
            lse[:, :, :blind] = -float("inf")

        return Bound(call=call, store=store)

    return bind


def prepare_torch_cpu(symbols: Symbols, tensors: Tensors, scale: float) -> Compute:
    """torch's fused CPU kernel on (b, h, s, d) views; grouped heads natively; ``is_causal`` where sq = sk, else a ready mask."""
    import torch

    q, k, v = (tensors[name].transpose(1, 2) for name in "qkv")
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    square = symbols["sq"] == symbols["sk"]
    causal = bool(symbols["causal"]) and square and not symbols["window"]
    mask = None
    if not causal and (symbols["causal"] or symbols["window"]):
        first, last = (torch.from_numpy(bound)[:, None] for bound in visible(symbols))
        keys = torch.arange(int(symbols["sk"]))
        mask = torch.zeros(len(first), len(keys), dtype=q.dtype).masked_fill((keys < first) | (keys > last), -torch.inf)

    def compute() -> tuple[Any, Any]:
        out, lse = kernel(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)
        return out.transpose(1, 2), lse

    return compute


def prepare_sdpa_flash(symbols: Symbols, tensors: Tensors, scale: float, kernel: Any = None) -> Compute:
    """FlashAttention-2 as torch ships it, called below ``scaled_dot_product_attention``, whose causal mask is another one."""
    import torch

    q, k, v = (tensors[name] for name in "qkv")
    run = kernel or torch.ops.aten._flash_attention_forward
    window = int(symbols["window"])
    edges = {"window_size_left": window, "window_size_right": 0} if window else {}
    causal = bool(symbols["causal"]) and not window
    sizes = (int(symbols["sq"]), int(symbols["sk"]))

    def compute() -> tuple[Any, Any]:
        out, lse, *_ = run(q, k, v, None, None, *sizes, 0.0, causal, False, scale=scale, **edges)
        return out, lse[..., : sizes[0]]

    return compute


def prepare_cudnn(symbols: Symbols, tensors: Tensors, scale: float, kernel: Any = None) -> Compute:
    """cuDNN's fused attention on (b, h, s, d) views, with its log-sum-exp."""
    import torch

    q, k, v = (tensors[name].transpose(1, 2) for name in "qkv")
    run = kernel or torch.ops.aten._scaled_dot_product_cudnn_attention
    causal = bool(symbols["causal"])

    def compute() -> tuple[Any, Any]:
        out, lse, *_ = run(q, k, v, None, True, 0.0, causal, False, scale=scale)
        return out.transpose(1, 2), lse

    return compute


def _prepare_fa3(module: str, splits: int) -> Prepare:
    """FlashAttention-3 by the interface that its wheels share; ``splits`` 0 asks for its heuristic."""

    def prepare(symbols: Symbols, tensors: Tensors, scale: float) -> Compute:
        attend = importlib.import_module(module).flash_attn_func
        q, k, v = (tensors[name] for name in "qkv")
        window = int(symbols["window"])
        options = {
            "softmax_scale": scale,
            "causal": bool(symbols["causal"]) and not window,
            "window_size": (window, 0) if window else (-1, -1),
            "num_splits": splits,
            "return_attn_probs": True,
        }

        def compute() -> tuple[Any, Any]:
            out, lse, *_ = attend(q, k, v, **options)
            return out, lse

        return compute

    return prepare


def _flash_supports(symbols: Symbols) -> bool:
    return symbols["dtype"] in ("bf16", "fp16") and int(symbols["d"]) <= 256 and int(symbols["d"]) % 8 == 0


def _cudnn_supports(symbols: Symbols) -> bool:
    square = symbols["sq"] == symbols["sk"]
    return _flash_supports(symbols) and not symbols["window"] and (square or not symbols["causal"])


def _fa3_fwd_supports(symbols: Symbols) -> bool:
    """What the wheel fa3-fwd 0.0.3 holds: bf16 only, no window."""
    return symbols["dtype"] == "bf16" and symbols["d"] in (64, 96, 128, 192, 256) and not symbols["window"]


def _tokenspeed_supports(symbols: Symbols) -> bool:
    """What the wheel tokenspeed-fa3 3.0.0 holds: bf16 and fp16, windows, no d = 96."""
    return symbols["dtype"] in ("bf16", "fp16") and symbols["d"] in (64, 128, 192, 256)


def _fa3(name: str, module: str, package: str, splits: int, supports: Callable[[Symbols], bool]) -> Baseline:
    way = "1 split" if splits == 1 else "split heuristic"
    return Baseline(
        name=name,
        backend="cuda",
        available=lambda: _module_missing(module, package),
        version=lambda: f"{_module_version(module)}, {way}",
        supports=supports,
        bind=binding(_prepare_fa3(module, splits)),
    )


FA3_VARIANTS = (
    _fa3("fa3_fwd", "fa3_fwd_interface", "fa3-fwd", 1, _fa3_fwd_supports),
    _fa3("fa3_fwd_split", "fa3_fwd_interface", "fa3-fwd", 0, _fa3_fwd_supports),
    _fa3("tokenspeed_fa3", "flash_attn_interface", "tokenspeed-fa3", 1, _tokenspeed_supports),
    _fa3("tokenspeed_fa3_split", "flash_attn_interface", "tokenspeed-fa3", 0, _tokenspeed_supports),
)

BASELINES = (
    best_of("fa3", FA3_VARIANTS, fastest),
    *FA3_VARIANTS,
    Baseline(
        name="cudnn",
        backend="cuda",
        available=lambda: _torch_missing("cuda"),
        version=_cudnn_version,
        supports=_cudnn_supports,
        bind=binding(prepare_cudnn),
    ),
    Baseline(
        name="sdpa_flash",
        backend="cuda",
        available=lambda: _torch_missing("cuda"),
        version=_flash_version,
        supports=_flash_supports,
        bind=binding(prepare_sdpa_flash),
    ),
    Baseline(
        name="torch_cpu",
        backend="cpu",
        available=lambda: _torch_missing("cpu"),
        version=_torch_cpu_version,
        supports=lambda symbols: True,
        bind=binding(prepare_torch_cpu),
    ),
)
