"""Exact changes of contents: undone outputs equal the untransformed ones."""

import numpy as np
import pytest

from evaluator.dtypes import decode, encode
from evaluator.task import load_task
from evaluator.transforms import IDENTITY, flip_signs, times_power_of_two

TASK = load_task("attention_forward")
BASE = {"b": 2, "sq": 7, "sk": 13, "h": 6, "hkv": 3, "d": 16, "causal": 1, "window": 0}


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("seed", range(3))
def test_attention_of_transformed_inputs_undone_is_attention(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    symbols = {**BASE, "dtype": dtype}
    inputs = TASK.inputs(symbols, "normal", rng)
    before = {name: array.copy() for name, array in inputs.items()}
    transform = TASK.transform(symbols, rng)
    changed = transform.apply(inputs)
    assert all(np.array_equal(inputs[name], before[name]) for name in inputs)
    assert all(changed[name].shape == inputs[name].shape and changed[name].dtype == inputs[name].dtype for name in inputs)
    assert any(not np.array_equal(changed[name], inputs[name]) for name in inputs)
    undone = transform.undo(TASK.plain(symbols, changed))
    plain = TASK.plain(symbols, inputs)
    np.testing.assert_array_equal(undone["lse"], plain["lse"])
    np.testing.assert_array_equal(undone["out"], plain["out"])


def test_transform_undoes_the_reference_too() -> None:
    symbols = {**BASE, "dtype": "fp32"}
    rng = np.random.default_rng(5)
    inputs = TASK.inputs(symbols, "huge", rng)
    transform = TASK.transform(symbols, rng)
    moved = {name: array.astype(np.float32) for name, array in TASK.reference(symbols, transform.apply(inputs)).items()}
    wanted = TASK.reference(symbols, inputs)
    undone = transform.undo(moved)
    np.testing.assert_allclose(undone["out"], wanted["out"], rtol=1e-6)
    np.testing.assert_allclose(undone["lse"], wanted["lse"], rtol=1e-6)


def test_transforms_differ_between_draws() -> None:
    symbols = {**BASE, "dtype": "bf16"}
    rng = np.random.default_rng(0)
    inputs = TASK.inputs(symbols, "normal", rng)
    seen = {TASK.transform(symbols, rng).apply(inputs)["k"].tobytes() for _ in range(20)}
    assert len(seen) == 20


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_signs_and_powers_of_two_are_exact(dtype: str) -> None:
    values = np.random.default_rng(0).standard_normal((3, 8))
    stored = encode(values, dtype)
    flips = np.arange(8) % 2 == 0
    np.testing.assert_array_equal(decode(flip_signs(stored, flips), dtype), decode(stored, dtype) * np.where(flips, -1, 1))
    np.testing.assert_array_equal(decode(times_power_of_two(stored, dtype, 2), dtype), decode(stored, dtype) * 4)
    np.testing.assert_array_equal(times_power_of_two(times_power_of_two(stored, dtype, 2), dtype, -2), stored)


def test_identity_changes_nothing() -> None:
    arrays = {"x": np.ones(3, np.float32)}
    assert IDENTITY.apply(arrays) == arrays
    assert IDENTITY.undo(arrays) == arrays
