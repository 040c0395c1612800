"""The Hopper seed's own source, run on a CPU by the emulator of its PTX, held against the reference as the harness would."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluator.compare import compare
from tests.evaluator import hopper_emulation as seed

STRESS = ("normal", "very_negative", "huge", "rising")
FAST = {
    "d96 fp16, window, more rows than keys": {"sq": 300, "sk": 211, "h": 2, "d": 96, "window": 77, "dtype": "fp16"},
    "d64, three warpgroups, causal": {"sq": 1100, "h": 2, "hkv": 1, "d": 64, "causal": 1},
    "d128, keys upwards": {"sq": 317, "h": 2, "b": 2},
    "d256, causal, more rows than keys": {"sq": 500, "sk": 200, "h": 2, "d": 256, "causal": 1},
}
SLOW = {
    "d64, small causal": {"sq": 333, "h": 4, "hkv": 2, "d": 64, "causal": 1},
    "d64, full": {"sq": 333, "h": 3, "hkv": 1, "d": 64, "b": 2},
    "d64, window": {"sq": 1200, "h": 1, "d": 64, "window": 300},
    "d64, fewer keys": {"sq": 500, "sk": 200, "h": 2, "d": 64, "causal": 1, "dtype": "fp16"},
    "d96, causal": {"sq": 300, "h": 4, "hkv": 2, "b": 2, "d": 96, "causal": 1},
    "d96, full": {"sq": 300, "h": 2, "d": 96, "dtype": "fp16"},
    "d128, full": {"sq": 300, "h": 4, "hkv": 2, "b": 2},
    "d128, full fp16": {"sq": 640, "h": 1, "dtype": "fp16"},
    "d128, causal": {"sq": 300, "h": 2, "b": 2, "causal": 1, "dtype": "fp16"},
    "d128, window": {"sq": 500, "h": 2, "b": 2, "window": 100, "causal": 1},
    "d128, window of two": {"sq": 700, "h": 1, "window": 1, "dtype": "fp16"},
    "d128, window, more keys": {"sq": 200, "sk": 700, "h": 2, "window": 130},
    "d128, window, fewer keys": {"sq": 500, "sk": 200, "h": 2, "window": 30},
    "d128, chunk": {"sq": 128, "sk": 512, "h": 4, "hkv": 1, "causal": 1},
    "d128, odd chunk": {"sq": 100, "sk": 517, "h": 2, "causal": 1},
    "d128, other lengths": {"sq": 127, "sk": 389, "h": 2},
    "d128, one row": {"sq": 1, "sk": 1000, "h": 2, "causal": 1},
    "d128, one key": {"sq": 77, "sk": 1, "h": 8, "b": 4, "causal": 1},
    "d256, causal": {"sq": 1030, "h": 1, "d": 256, "causal": 1},
    "d256, full": {"sq": 200, "h": 2, "b": 2, "d": 256},
    "d256, window": {"sq": 400, "h": 1, "d": 256, "window": 77, "dtype": "fp16"},
}


def problems(of: dict[str, Any], folder: Path, distributions: tuple[str, ...], source: str = seed.SOURCE) -> list[str]:
    """What is wrong with the kernel's answers on these inputs, by the task's own tolerances; two blocks share the tiles."""
    plan = seed.resolved(of, sm_count=2, source=source)
    program = seed.build(plan, folder, source)
    found = []
    for number, distribution in enumerate(distributions):
        inputs = seed.TASK.inputs(of, distribution, np.random.default_rng(number))
        expected = seed.TASK.reference(of, inputs)
        tolerances = seed.TASK.tolerances(of, inputs, expected)
        got = seed.run(program, plan, inputs, number)
        for name, tolerance in tolerances.items():
            comparison = compare(expected[name], got[name], tolerance)
            if not comparison.passed:
                found.append(f"{distribution}: {name}: {comparison.message}")
        if got["counter"].any():
            found.append(f"{distribution}: the counter is {got['counter']}")
        if any((got[name] != inputs[name]).any() for name in "qkv"):
            found.append(f"{distribution}: an input was written")
    return found


@pytest.mark.parametrize("of", [*FAST.values()][:2], ids=[*FAST][:2])
def test_it_computes_attention(of: dict[str, Any], tmp_path: Path) -> None:
    assert problems(seed.symbols(**of), tmp_path, STRESS) == []


@pytest.mark.slow
@pytest.mark.parametrize("of", [*[*FAST.values()][2:], *SLOW.values()], ids=[*[*FAST][2:], *SLOW])
def test_it_computes_attention_everywhere(of: dict[str, Any], tmp_path: Path) -> None:
    assert problems(seed.symbols(**of), tmp_path, seed.TASK.distributions) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("diagonal - reach :", "diagonal - reach - 1 :"),
        ("wgmma_wait<1>();\n      pin(s);\n      free_k();", "wgmma_wait<2>();\n      pin(s);\n      free_k();"),
        ("if (leader) tma_store_read();", ""),
        ("barrier_wait(v_full + 8 * vs, vp);\n      wgmma_fence();", "wgmma_fence();"),
    ],
    ids=["window off by one", "scores read too early", "output overwritten", "values read too early"],
)
@pytest.mark.slow
def test_the_emulator_notices_mistakes(right: str, wrong: str, tmp_path: Path) -> None:
    assert right in seed.SOURCE
    of = seed.symbols(sq=700, h=2, window=130, causal=1)
    assert problems(of, tmp_path, ("normal",), seed.SOURCE.replace(right, wrong))


def test_the_emulator_notices_a_deadlock(tmp_path: Path) -> None:
    of = seed.symbols(sq=130, h=1, d=64)
    right = "release(v_empty + 8 * vs);"
    assert right in seed.SOURCE
    source = seed.SOURCE.replace(right, "")
    plan = seed.resolved(of | {"sk": 1000}, sm_count=2, source=source)
    program = seed.build(plan, tmp_path, source)
    inputs = seed.TASK.inputs(of | {"sk": 1000}, "normal", np.random.default_rng(1))
    with pytest.raises(AssertionError, match="deadlock"):
        seed.run(program, plan, inputs, 1)
