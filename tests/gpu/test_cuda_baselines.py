"""The CUDA baselines of attention_forward on a real GPU: right against the float64 reference wherever they say they compute."""

import numpy as np
import pytest

from evaluator.backend import Array
from evaluator.baseline import Baseline
from evaluator.compare import compare
from evaluator.task import load_baselines, load_task

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]

TASK = load_task("attention_forward")
BASELINES = [baseline for baseline in load_baselines(TASK.folder) if baseline.backend == "cuda"]
PLAIN = {"b": 2, "sq": 512, "sk": 512, "h": 4, "hkv": 4, "d": 128, "causal": 0, "window": 0, "dtype": "bf16"}
SCENARIOS = {
    "d128": {},
    "d128_causal": {"causal": 1},
    "d64_causal": {"d": 64, "causal": 1},
    "d96": {"d": 96},
    "d256_causal": {"d": 256, "causal": 1},
    "grouped_causal": {"h": 8, "hkv": 2, "causal": 1},
    "one_kv_head": {"h": 8, "hkv": 1},
    "fp16_causal": {"dtype": "fp16", "causal": 1},
    "window": {"causal": 1, "window": 100},
    "chunked_causal": {"sq": 128, "causal": 1},
    "odd_lengths_causal": {"sq": 333, "sk": 333, "causal": 1},
    "more_queries_than_keys": {"sq": 300, "sk": 200, "causal": 1},
}


def on_gpu(array: Array) -> object:
    return torch.from_numpy(array).cuda()


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("baseline", BASELINES, ids=lambda baseline: baseline.name)
def test_right_where_it_says_it_computes(baseline: Baseline, scenario: str) -> None:
    symbols = PLAIN | SCENARIOS[scenario]
    if (reason := baseline.available()) is not None:
        pytest.skip(reason)
    if not baseline.supports(symbols):
        pytest.skip(f"{baseline.name} doesn't claim {scenario}")
    inputs = TASK.inputs(symbols, "normal", np.random.default_rng(7))
    expected = TASK.reference(symbols, inputs)
    tolerances = TASK.tolerances(symbols, inputs, expected)
    outputs = {name: on_gpu(array) for name, array in TASK.plain(symbols, inputs).items()}
    for tensor in outputs.values():
        tensor.zero_()
    bound = baseline.bind(symbols, {name: on_gpu(array) for name, array in inputs.items()}, outputs)
    bound.call()
    bound.store()
    torch.cuda.synchronize()
    for name, tensor in outputs.items():
        if name not in baseline.leaves_out:
            found = compare(expected[name], tensor.cpu().numpy(), tolerances[name])
            assert found.passed, f"{name}: {found.message}"


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda baseline: baseline.name)
def test_the_version_says_what_runs(baseline: Baseline) -> None:
    if (reason := baseline.available()) is not None:
        pytest.skip(reason)
    assert any(digit.isdigit() for digit in baseline.version())
