"""Which baselines are opponents, and the one that is the fastest of several."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evaluator import peers
from evaluator.baseline import Baseline, Bound
from evaluator.peers import open_baselines
from evaluator.plan.resolved import Buffer, Resolved
from evaluator.session import Session
from evaluator.settings import cuda_settings
from evaluator.task import load_baselines, load_task
from evaluator.tasks.attention_forward.fa3 import best_of
from tests.evaluator.fake_backend import DEVICE, FakeBackend
from tests.evaluator.tiny_harness import tiny

ATTENTION = load_task("attention_forward")
GPU = FakeBackend(device=replace(DEVICE, kind="cuda"))


def everywhere(symbols: Mapping[str, Any]) -> bool:
    return True


def baseline(name: str, supports: Callable[[Any], bool] = everywhere, missing: str | None = None, kind: str = "cuda") -> Baseline:
    def bind(symbols: Any, inputs: Any, outputs: Any) -> Bound:
        return Bound(call=lambda: name, store=lambda: None)

    return Baseline(name=name, backend=kind, available=lambda: missing, version=lambda: f"{name} 1", supports=supports, bind=bind)


def opened(monkeypatch: pytest.MonkeyPatch, *baselines: Baseline, named: str | None = None) -> list[str]:
    monkeypatch.setattr(peers, "load_baselines", lambda folder: baselines)
    return [one.name for one in open_baselines(ATTENTION, ATTENTION.card("fa3_36"), GPU, named)]


def long_only(symbols: Mapping[str, Any]) -> bool:
    return int(symbols["sq"]) > 4096


def test_the_first_that_covers_the_set_is_primary_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    partial, cover, last = baseline("fa3_fwd", long_only), baseline("cudnn"), baseline("sdpa_flash")
    assert opened(monkeypatch, last, partial, cover) == ["cudnn", "fa3_fwd", "sdpa_flash"]
    assert opened(monkeypatch, last, partial, cover, named="sdpa_flash") == ["sdpa_flash", "fa3_fwd", "cudnn"]


def test_what_computes_nothing_or_is_of_another_device_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    others = baseline("fa3_fwd", lambda symbols: False), baseline("torch_cpu", kind="cpu"), baseline("unlisted")
    assert opened(monkeypatch, baseline("cudnn"), *others) == ["cudnn"]


def test_a_named_baseline_must_cover_the_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"no baseline 'fa3_fwd'.*available: cudnn.*fa3_fwd: it doesn't compute every scenario"):
        opened(monkeypatch, baseline("cudnn"), baseline("fa3_fwd", long_only), named="fa3_fwd")


def test_variants_of_a_composite_are_raced_only_when_named(monkeypatch: pytest.MonkeyPatch) -> None:
    variants = baseline("fa3_fwd"), baseline("tokenspeed_fa3")
    whole = best_of("fa3", variants, lambda bound: "fa3_fwd")
    baselines = (whole, *variants, baseline("cudnn"))
    assert opened(monkeypatch, *baselines) == ["fa3", "cudnn"]
    assert opened(monkeypatch, *baselines, named="fa3_fwd") == ["fa3_fwd", "fa3", "cudnn"]


def test_attention_lists_the_composite_first() -> None:
    by_name = {one.name: one for one in load_baselines(ATTENTION.folder)}
    card = ATTENTION.card("hopper_182")
    assert card.baselines[0] == "fa3"
    assert set(by_name["fa3"].best_of) == {name for name in card.baselines if "fa3" in name} - {"fa3"}


SYMBOLS = {"b": 1, "sq": 4, "sk": 4, "h": 1, "hkv": 1, "d": 8, "causal": 0, "window": 0, "dtype": "fp16"}


def tensors() -> dict[str, np.ndarray]:
    return {name: np.zeros((1, 4, 1, 8), np.float16) for name in "qkv"}


def test_the_fastest_variant_is_measured_once_on_values_of_its_own() -> None:
    measured: list[list[str]] = []

    def measure(bound: Mapping[str, Bound]) -> str:
        measured.append(sorted(bound))
        return "second"

    seen: list[Any] = []

    def bind(symbols: Any, inputs: Any, outputs: Any) -> Bound:
        seen.append(inputs["q"])
        return Bound(call=lambda: "second", store=lambda: None)

    variants = baseline("first"), replace(baseline("second"), bind=bind), baseline("absent", missing="not there")
    whole = best_of("whole", variants, measure)
    inputs = tensors()
    bounds = [whole.bind(SYMBOLS, inputs, {}) for _ in range(2)]
    assert measured == [["first", "second"]]
    assert [bound.chosen for bound in bounds] == ["second", "second"]
    assert bounds[0].call() == "second"
    assert bool((seen[0] != 0).any())
    assert seen[0].shape == inputs["q"].shape
    assert seen[1] is inputs["q"]
    whole.bind({**SYMBOLS, "sq": 8}, inputs, {})
    assert len(measured) == 2
    assert whole.version() == "fastest of first (first 1); second (second 1)"


def test_a_single_able_variant_is_not_measured() -> None:
    whole = best_of("whole", (baseline("short", lambda s: not long_only(s)), baseline("long", long_only)), lambda bound: 1 / 0)  # type: ignore[arg-type, return-value]
    assert whole.bind(SYMBOLS, tensors(), {}).chosen == "short"
    assert whole.bind({**SYMBOLS, "sq": 8192}, tensors(), {}).chosen == "long"
    assert whole.available() is None


def test_a_composite_says_why_it_is_missing_and_computes_what_is_there() -> None:
    variants = baseline("first", missing="no wheel"), baseline("second", missing="no device")
    assert best_of("whole", variants, min).available() == "first: no wheel; second: no device"
    half = best_of("whole", (baseline("first", missing="no wheel"), baseline("long", long_only)), min)
    assert half.supports({**SYMBOLS, "sq": 8192})
    assert not half.supports(SYMBOLS)
    with pytest.raises(ValueError, match="no variant of whole"):
        half.bind(SYMBOLS, tensors(), {})


def test_slots_count_elements_by_their_size() -> None:
    def slots(dtype: str) -> int:
        buffer = Buffer(name="x", role="input", dtype=dtype, shape=(1 << 28, 3))
        resolved = Resolved(
            scenario="one",
            defines={},
            knobs={},
            fast_math=False,
            maxrregcount=None,
            nondeterministic=False,
            tensors=(buffer,),
            workspaces=(replace(buffer, name="w", role="workspace", dtype="int32", shape=(4,)),),
            tensor_maps=(),
            launches=(),
        )
        session = Session(
            task=tiny(),
            card=tiny().card("three"),
            backend=GPU,
            settings=cuda_settings(),
            baselines=(),
            pool=None,  # type: ignore[arg-type]
            clock=float,
            entropy=bytes,
            pressure=int,
            lock=None,  # type: ignore[arg-type]
        )
        return session.slots(resolved, tiny().card("three").scenarios[0])

    assert (slots("bf16"), slots("fp32")) == (5, 2)
