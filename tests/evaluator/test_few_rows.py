"""Tensors of a few rows: what a handful of numbers allows holds for every right order of summation, and for no mistake."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from evaluator.check import NEAR_SHARE
from evaluator.compare import Comparison, compare
from evaluator.dtypes import decode, encode
from evaluator.pool import Member, Pool
from evaluator.task import load_task
from evaluator.task_card import Scenario

TASK = load_task("attention_forward")
DRAWS = [20, pytest.param(200, marks=pytest.mark.slow)]
ORDERS = ("keys upwards", "keys downwards", "channels in two halves")
SHAPES = {"three rows": (3, 40), "one row": (1, 100), "three keys": (1, 3)}


def members(shape: str, dtype: str, distribution: str, draws: int) -> Iterator[Member]:
    rows, keys = SHAPES[shape]
    sizes = {"b": 1, "sq": rows, "sk": keys, "h": 1, "hkv": 1, "d": 64, "causal": 0, "window": 0}
    scenario = Scenario(name=shape, symbols={**sizes, "dtype": dtype}, region="all")
    pool = Pool(TASK, 1 << 24, b"few rows")
    return (pool.member(scenario, distribution, index) for index in range(draws))


def summed(terms: np.ndarray, axis: int) -> np.ndarray:
    """The sum in float32, one term after the other."""
    return np.take(np.cumsum(terms, axis=axis, dtype=np.float32), -1, axis=axis)


def kernel(member: Member, order: str) -> dict[str, np.ndarray]:
    """Attention as kernels on a CPU write it: sums term by term, weights of the declared type, keys upwards or downwards."""
    dtype, scale = str(member.scenario.symbols["dtype"]), np.float32(64**-0.5)
    q, k, v = (decode(member.inputs[name], dtype)[0, :, 0] for name in "qkv")
    if order == "keys downwards":
        k, v = k[::-1], v[::-1]
    products = q[:, None] * k
    halves = np.split(products, 2, axis=2) if order == "channels in two halves" else [products]
    scores = sum(summed(half, 2) for half in halves) * scale
    peak = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - peak)
    total = summed(weights, 1)
    out = summed(decode(encode(weights, dtype), dtype)[:, :, None] * v, 1) / total[:, None]
    return {"out": encode(out[None, :, None], dtype), "lse": (peak[:, 0] + np.log(total))[None, None]}


def judged(member: Member, outputs: dict[str, Any]) -> list[Comparison]:
    return [compare(member.expected[name], outputs[name], member.tolerances[name]) for name in ("out", "lse")]


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize(("shape", "dtype"), [("three rows", "fp16"), ("one row", "fp16"), ("three keys", "fp32")])
def test_a_right_kernel_is_right_on_all_draws(shape: str, dtype: str, draws: int) -> None:
    near = dict.fromkeys(ORDERS, 0)
    for member in members(shape, dtype, "very_negative", draws):
        for order in ORDERS:
            share = max(one.share or 0.0 for one in judged(member, kernel(member, order)))
            assert share <= NEAR_SHARE
            near[order] += share > 1.0
    assert max(near.values()) <= max(1, draws // 100)  # each of them is judged again on fresh draws


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("distribution", ["very_negative", "normal"])
def test_an_element_off_by_twice_its_allowance_is_found_on_every_draw(distribution: str, draws: int) -> None:
    for member in members("three rows", "fp16", distribution, draws):
        outputs = kernel(member, "keys upwards")
        allowed = member.tolerances["out"].row_allowed[0, 1, 0]
        away = np.sign(decode(outputs["out"], "fp16")[0, 1, 0, 5] - member.expected["out"][0, 1, 0, 5])
        outputs["out"][0, 1, 0, 5] += np.float16((away or 1.0) * 2.0 * allowed)
        assert not judged(member, outputs)[0].passed


@pytest.mark.parametrize("draws", DRAWS)
def test_mistakes_are_found_on_every_draw(draws: int) -> None:
    for member in members("three rows", "fp16", "normal", draws):
        wrong = TASK.wrong_answers(member.scenario.symbols, member.inputs, member.expected)
        passed = [name for name, outputs in wrong.items() if all(one.passed for one in judged(member, outputs))]
        assert passed == []
