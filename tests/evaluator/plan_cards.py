"""A task card of attention_forward and helpers that several tests of plans share."""

from collections.abc import Mapping
from pathlib import Path

from evaluator.task_card import Scenario, TaskCard, TensorSpec

DATA = Path(__file__).parent / "data"
HOPPER = {"sm_count": 132, "shared_limit": 232448}
CPU = {"sm_count": 2, "shared_limit": 0}
SYMBOLS = ("b", "sq", "sk", "h", "hkv", "d", "causal", "window", "dtype")


def scenario(name: str, region: str = "all", **symbols: int | str) -> Scenario:
    values: dict[str, int | str] = {
        "b": 1, "sq": 1024, "sk": 1024, "h": 16, "hkv": 16, "d": 128, "causal": 0, "window": 0, "dtype": "bf16",
    }  # fmt: skip
    return Scenario(name=name, symbols=values | symbols, region=region)


SCENARIOS = (
    scenario("d128_1k_c", causal=1, b=16),
    scenario("d64_4k_n", d=64, sq=4096, sk=4096, h=32, hkv=8, b=4),
    scenario("d256_16k_c", d=256, sq=16384, sk=16384, h=8, hkv=8, causal=1),
    scenario("d96_prefill", d=96, sq=256, sk=1024, causal=1, dtype="fp16"),
    scenario("d128_window", h=64, hkv=8, causal=1, window=1024, sq=4096, sk=4096),
    scenario("cpu_d32", d=32, sq=64, sk=65, h=2, hkv=1, dtype="fp32"),
)


def attention_card(*scenarios: Scenario) -> TaskCard:
    def tensor(name: str, role: str, *axes: str, dtype: str = "dtype") -> TensorSpec:
        return TensorSpec(name=name, role=role, dtype=dtype, shape=axes, axes=axes)

    return TaskCard(
        name="attention_forward",
        summary="out = softmax(scale q k^T + mask) v, with its log-sum-exp",
        contract="",
        symbols=SYMBOLS,
        tensors=(
            tensor("q", "input", "b", "sq", "h", "d"),
            tensor("k", "input", "b", "sk", "hkv", "d"),
            tensor("v", "input", "b", "sk", "hkv", "d"),
            tensor("out", "output", "b", "sq", "h", "d"),
            tensor("lse", "output", "b", "h", "sq", dtype="float32"),
        ),
        scalars={"scale": "float32, d^-1/2"},
        scenario_set="plan_tests",
        scenarios=scenarios or SCENARIOS,
        regions=("all",),
        baselines=("torch",),
        hash="0" * 64,
    )


def scalars_of(one: Scenario) -> Mapping[str, float]:
    return {"scale": float(one.symbols["d"]) ** -0.5}
