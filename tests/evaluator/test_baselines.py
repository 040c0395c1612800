"""The baselines of attention_forward: torch on the CPU for real, the CUDA ones through fakes that check every argument."""

import sys
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from evaluator.baseline import Baseline
from evaluator.compare import compare
from evaluator.dtypes import element_type
from evaluator.task import dtype_of, load_baselines, load_task, shape_of
from evaluator.tasks.attention_forward import baselines as module

TASK = load_task("attention_forward")
BASELINES = {baseline.name: baseline for baseline in load_baselines(TASK.folder)}
BASE = {"b": 2, "sq": 24, "sk": 24, "h": 4, "hkv": 2, "d": 64, "causal": 1, "window": 0, "dtype": "bf16"}
Call = dict[str, Any]


def run(baseline: Baseline, symbols: Mapping[str, Any], distribution: str = "normal") -> None:
    """Bind to poisoned outputs, call, store, and compare every output with the reference."""
    inputs = TASK.inputs(symbols, distribution, np.random.default_rng(0))
    outputs = {}
    for spec in TASK.outputs:
        storage = element_type(dtype_of(spec, symbols)).storage
        outputs[spec.name] = np.full(shape_of(spec, symbols), 77, storage)
    for array in inputs.values():
        array.setflags(write=False)
    bound = baseline.bind(symbols, inputs, outputs)
    bound.call()
    assert all((array == 77).all() for array in outputs.values()), "call() must leave the output buffers alone"
    bound.store()
    expected = TASK.reference(symbols, inputs)
    tolerances = TASK.tolerances(symbols, inputs, expected)
    for name, got in outputs.items():
        found = compare(expected[name], got, tolerances[name])
        assert found.passed, f"{name}: {found.message}"


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"causal": 0},
        {"sq": 9, "sk": 40},
        {"sq": 40, "sk": 9},
        {"sq": 9, "sk": 40, "causal": 0},
        {"window": 5},
        {"window": 5, "sq": 9, "sk": 40, "causal": 0},
        {"hkv": 1},
        {"hkv": 4, "d": 96},
    ],
    ids=str,
)
def test_torch_cpu_is_right(changes: dict[str, int], dtype: str) -> None:
    run(BASELINES["torch_cpu"], {**BASE, **changes, "dtype": dtype})


def attend(call: Call, q: Any, k: Any, v: Any, first: int, last: int) -> tuple[Any, Any]:
    """Plain attention on (b, s, h, d): a query at its bottom-right position p sees keys p - first to p + last (-1: no bound)."""
    keys, rows, group = k.shape[1], q.shape[1], q.shape[2] // k.shape[2]
    position = torch.arange(rows)[:, None] + keys - rows
    key = torch.arange(keys)
    hidden = torch.zeros(rows, keys, dtype=torch.bool)
    if last >= 0:
        hidden |= key > position + last
    if first >= 0:
        hidden |= key < position - first
    scores = torch.einsum("bihd,bjhd->bhij", q.float(), k.float().repeat_interleave(group, 2)) * call["scale"]
    scores = scores.masked_fill(hidden, -torch.inf)
    lse = scores.logsumexp(-1)
    weights = (scores - torch.where(lse.isfinite(), lse, 0)[..., None]).exp()
    out = torch.einsum("bhij,bjhd->bihd", weights, v.float().repeat_interleave(group, 2)).to(q.dtype)
    return out, torch.where(lse.isfinite(), lse, torch.inf)  # FlashAttention gives +inf for rows that see nothing


def by_schema(operator: Any, args: tuple[Any, ...], kwargs: Call) -> Call:
    """The arguments by the names of the real operator's schema; fails where it has no such argument."""
    arguments = operator.default._schema.arguments
    call = {a.name: a.default_value for a in arguments}
    call.update(zip((a.name for a in arguments if not a.kwarg_only), args, strict=False))
    assert set(kwargs) <= {a.name for a in arguments if a.kwarg_only}
    return {**call, **kwargs}


def fake_flash(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    call = by_schema(torch.ops.aten._flash_attention_forward, args, kwargs)
    q, k, v = (call[name] for name in ("query", "key", "value"))
    assert (call["cum_seq_q"], call["cum_seq_k"], call["dropout_p"], call["return_debug_mask"]) == (None, None, 0.0, False)
    assert (call["max_q"], call["max_k"]) == (q.shape[1], k.shape[1])
    window = call["window_size_left"]
    out, lse = attend(call, q, k, v, -1 if window is None else window, 0 if call["is_causal"] or window is not None else -1)
    return out, torch.nn.functional.pad(lse, (0, 3)), None, None, None  # some versions pad the rows of lse


def fake_cudnn(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    call = by_schema(torch.ops.aten._scaled_dot_product_cudnn_attention, args, kwargs)
    q, k, v = (call[name].transpose(1, 2) for name in ("query", "key", "value"))
    assert call["compute_log_sumexp"] is True
    assert (call["attn_bias"], call["dropout_p"], call["return_debug_mask"]) == (None, 0.0, False)
    assert not call["is_causal"] or q.shape[1] == k.shape[1]
    out, lse = attend(call, q, k, v, -1, 0 if call["is_causal"] else -1)
    return out.transpose(1, 2), lse[..., None]


VARIANTS: list[dict[str, int]] = [{}, {"causal": 0}, {"sq": 9, "sk": 40}, {"sq": 40, "sk": 9}, {"window": 5}]


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.parametrize(
    ("name", "prepare", "fake"),
    [("sdpa_flash", module.prepare_sdpa_flash, fake_flash), ("cudnn", module.prepare_cudnn, fake_cudnn)],
)
def test_torch_cuda_baselines_pass_the_right_arguments(changes: dict[str, int], name: str, prepare: Any, fake: Any) -> None:
    symbols = {**BASE, **changes}
    if not BASELINES[name].supports(symbols):
        assert name == "cudnn"
        assert symbols["window"] or symbols["sq"] != symbols["sk"]
        return
    bind = module.binding(lambda s, tensors, scale: prepare(s, tensors, scale, fake))
    run(Baseline(name=name, backend="cpu", available=str, version=str, supports=bool, bind=bind), symbols)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.parametrize(
    ("name", "interface", "splits"),
    [
        ("fa3_fwd", "fa3_fwd_interface", 1),
        ("fa3_fwd_split", "fa3_fwd_interface", 0),
        ("tokenspeed_fa3", "flash_attn_interface", 1),
        ("tokenspeed_fa3_split", "flash_attn_interface", 0),
    ],
)
def test_fa3_gets_the_right_arguments(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, int], name: str, interface: str, splits: int
) -> None:
    def flash_attn_func(
        q: Any,
        k: Any,
        v: Any,
        softmax_scale: float | None = None,
        causal: bool = False,
        window_size: tuple[int, int] = (-1, -1),
        num_splits: int = 1,
        return_attn_probs: bool = False,
    ) -> tuple[Any, Any]:
        assert return_attn_probs
        assert num_splits == splits
        return attend({"scale": softmax_scale}, q, k, v, window_size[0], 0 if causal else window_size[1])

    fake = types.ModuleType(interface)
    fake.flash_attn_func = flash_attn_func  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, interface, fake)
    symbols = {**BASE, **changes}
    if BASELINES[name].supports(symbols):
        run(BASELINES[name], symbols)
    else:
        assert symbols["window"]
        assert interface == "fa3_fwd_interface"


@pytest.mark.parametrize(
    ("name", "yes", "no"),
    [
        ("fa3_fwd", [{}, {"d": 96}, {"d": 256}], [{"dtype": "fp16"}, {"window": 9}, {"d": 32}, {"dtype": "fp32"}]),
        ("tokenspeed_fa3", [{}, {"dtype": "fp16"}, {"window": 9}], [{"d": 96}, {"dtype": "fp32"}]),
        ("cudnn", [{}, {"dtype": "fp16"}, {"sq": 9, "causal": 0}], [{"sq": 9}, {"window": 9}, {"dtype": "fp32"}]),
        ("sdpa_flash", [{}, {"sq": 9}, {"window": 9}, {"d": 96}], [{"dtype": "fp32"}, {"d": 512}, {"d": 33}]),
        ("torch_cpu", [{}, {"dtype": "fp32"}, {"window": 9}], []),
    ],
)
def test_supports(name: str, yes: list[dict[str, Any]], no: list[dict[str, Any]]) -> None:
    supports = BASELINES[name].supports
    assert all(supports({**BASE, **changes}) for changes in yes)
    assert not any(supports({**BASE, **changes}) for changes in no)


def test_every_hopper_scenario_has_an_fa3_of_its_own() -> None:
    fa3 = [baseline for name, baseline in BASELINES.items() if "fa3" in name]
    assert all(any(b.supports(s.symbols) for b in fa3) for s in TASK.card("hopper_182").scenarios)


def test_missing_peers_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    assert BASELINES["fa3_fwd"].available() == "fa3_fwd_interface isn't installed: pip install fa3-fwd"
    assert BASELINES["tokenspeed_fa3"].available() == "flash_attn_interface isn't installed: pip install tokenspeed-fa3"
    assert BASELINES["torch_cpu"].available() == "torch isn't installed"


def test_cuda_peers_need_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert BASELINES["cudnn"].available() == "torch sees no CUDA device"
    assert BASELINES["torch_cpu"].available() is None
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert BASELINES["cudnn"].available() is None


def test_versions_name_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = module.importlib.metadata
    monkeypatch.setattr(metadata, "packages_distributions", lambda: {"fa3_fwd_interface": ["fa3-fwd"]})
    monkeypatch.setattr(metadata, "version", lambda owner: "0.0.3")
    assert BASELINES["fa3_fwd"].version() == "fa3-fwd 0.0.3, 1 split"
    assert BASELINES["fa3_fwd_split"].version() == "fa3-fwd 0.0.3, split heuristic"
    assert BASELINES["tokenspeed_fa3"].version() == "flash_attn_interface, version unknown, 1 split"
    assert torch.__version__ in BASELINES["torch_cpu"].version()
    assert "cuDNN" in BASELINES["cudnn"].version()
    assert "flash attention" in BASELINES["sdpa_flash"].version()
