"""attention_forward itself: reference, masks, formulas, distributions, hidden shapes."""

from typing import Any

import numpy as np
import pytest
import torch

from evaluator.compare import compare
from evaluator.dtypes import decode, element_type
from evaluator.task import load_task
from evaluator.tasks.attention_forward import reference as reference_module
from evaluator.tasks.attention_forward.masks import pairs, visible

TASK = load_task("attention_forward")
BASE = {"b": 2, "sq": 9, "sk": 9, "h": 4, "hkv": 2, "d": 16, "causal": 0, "window": 0, "dtype": "fp32"}
SHAPES = [(9, 9), (5, 12), (12, 5), (1, 7), (7, 1), (1, 1)]


def textbook(symbols: dict[str, Any], inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """Attention by the definition in contract.md, one score at a time."""
    q, k, v = (decode(inputs[n], symbols["dtype"]).astype(np.float64) for n in "qkv")
    b, sq, h, d = q.shape
    sk, group = k.shape[1], h // k.shape[2]
    out, lse = np.zeros_like(q), np.full((b, h, sq), -np.inf)
    scale = float(np.float32(d**-0.5))
    for x, y, i in np.ndindex(b, h, sq):
        edge = i + sk - sq
        seen = [
            j
            for j in range(sk)
            if (edge - symbols["window"] <= j <= edge if symbols["window"] else not symbols["causal"] or j <= edge)
        ]
        if seen:
            scores = scale * k[x, seen, y // group] @ q[x, i, y]
            lse[x, y, i] = scores.max() + np.log(np.exp(scores - scores.max()).sum())
            out[x, i, y] = np.exp(scores - lse[x, y, i]) @ v[x, seen, y // group]
    return {"out": out, "lse": lse}


@pytest.mark.parametrize(("causal", "window"), [(0, 0), (1, 0), (1, 3), (0, 3)])
@pytest.mark.parametrize(("sq", "sk"), SHAPES)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_reference_is_the_definition(sq: int, sk: int, causal: int, window: int, dtype: str) -> None:
    symbols = {**BASE, "sq": sq, "sk": sk, "causal": causal, "window": window, "dtype": dtype}
    inputs = TASK.inputs(symbols, "normal", np.random.default_rng(1))
    found, wanted = TASK.reference(symbols, inputs), textbook(symbols, inputs)
    np.testing.assert_allclose(found["out"], wanted["out"], atol=1e-12)
    np.testing.assert_allclose(found["lse"], wanted["lse"], atol=1e-12)


def weighed(scores: torch.Tensor, first: torch.Tensor, last: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What ``evaluator.cuda.kernels.weigh`` does, by torch."""
    keys = torch.arange(scores.shape[-1])
    scores.masked_fill_((keys < first[:, None]) | (keys > last[:, None]), -torch.inf)
    peaks = torch.nan_to_num(scores.amax(dim=-1), neginf=0.0)
    scores.sub_(peaks[..., None]).exp_()
    return peaks, scores.sum(dim=-1)


@pytest.mark.parametrize(("causal", "window"), [(0, 0), (1, 0), (1, 3)])
@pytest.mark.parametrize(("sq", "sk"), SHAPES)
@pytest.mark.parametrize("most_scores", [1, 100, 1 << 22])
def test_the_reference_of_few_passes_is_the_same(
    sq: int, sk: int, causal: int, window: int, most_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    symbols = {**BASE, "b": 3, "sq": sq, "sk": sk, "causal": causal, "window": window}
    inputs = TASK.inputs(symbols, "normal", np.random.default_rng(1))
    wanted = TASK.reference(symbols, inputs)
    q, k, v = (torch.from_numpy(inputs[name]).double() for name in "qkv")
    monkeypatch.setitem(reference_module._MOST_SCORES, "cpu", most_scores)
    out, lse = reference_module.in_few_passes(q, k, v, float(np.float32(16**-0.5)), visible(symbols), 2, weighed)
    np.testing.assert_allclose(out.numpy(), wanted["out"], atol=1e-12)
    np.testing.assert_allclose(lse.numpy(), wanted["lse"], atol=1e-12)


@pytest.mark.parametrize("heads", [1, 2, 5, 7, 23, 24])
def test_a_part_is_a_smaller_problem_of_the_same_lengths(heads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    symbols = {**BASE, "b": 4, "h": 6, "hkv": 2, "causal": 1}
    inputs = TASK.inputs(symbols, "normal", np.random.default_rng(1))
    expected = TASK.reference(symbols, inputs)
    monkeypatch.setattr(TASK._module(), "PART_FLOP", float(heads * 4 * 16 * 9 * 9))
    part = TASK._module().part(symbols, inputs, expected)
    some = part["symbols"]
    assert 0.5 * heads <= some["b"] * some["h"] <= heads
    found = TASK.reference(some, part["inputs"])
    for name in ("out", "lse"):
        np.testing.assert_allclose(found[name], part["expected"][name], atol=1e-12)
    partly = TASK.tolerances(symbols, inputs, expected)
    monkeypatch.setattr(TASK._module(), "PART_FLOP", 1e12)
    whole = TASK.tolerances(symbols, inputs, expected)
    for name in ("out", "lse"):
        assert whole[name].row_allowed.shape == partly[name].row_allowed.shape
        assert 0.2 < partly[name].rms_allowed / whole[name].rms_allowed < 2.0


def test_rows_that_see_nothing_are_zero_and_minus_infinity() -> None:
    symbols = {**BASE, "sq": 12, "sk": 5, "causal": 1}
    inputs = TASK.inputs(symbols, "normal", np.random.default_rng(1))
    expected = TASK.reference(symbols, inputs)
    assert (expected["out"][:, :7] == 0).all()
    assert (expected["lse"][:, :, :7] == -np.inf).all()
    assert np.isfinite(expected["lse"][:, :, 7:]).all()


def test_reference_in_row_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    symbols = {**BASE, "sq": 37, "sk": 41, "causal": 1, "window": 6}
    inputs = TASK.inputs(symbols, "large", np.random.default_rng(2))
    whole = TASK.reference(symbols, inputs)
    monkeypatch.setattr(reference_module, "_MOST_SCORES", {"cpu": 4 * 41 * 3})
    blocks = TASK.reference(symbols, inputs)
    np.testing.assert_allclose(blocks["out"], whole["out"], atol=1e-12)
    np.testing.assert_allclose(blocks["lse"], whole["lse"], atol=1e-12)


@pytest.mark.parametrize(("causal", "window"), [(0, 0), (1, 0), (1, 3), (0, 3), (1, 50)])
@pytest.mark.parametrize(("sq", "sk"), [*SHAPES, (33, 65), (65, 33)])
def test_flop_counts_visible_pairs_exactly(sq: int, sk: int, causal: int, window: int) -> None:
    symbols = {**BASE, "sq": sq, "sk": sk, "causal": causal, "window": window}
    assert TASK.work(symbols).flop == 4 * 2 * 4 * 16 * pairs(symbols)


def test_bytes_count_each_tensor_once() -> None:
    for dtype in ("fp32", "bf16"):
        symbols = {**BASE, "sk": 20, "dtype": dtype}
        inputs = TASK.inputs(symbols, "normal", np.random.default_rng(0))
        outputs = TASK.plain(symbols, inputs)
        assert TASK.work(symbols).bytes == sum(array.nbytes for array in (*inputs.values(), *outputs.values()))


def test_scale_is_rounded_as_the_kernel_gets_it() -> None:
    assert TASK.scalars({**BASE, "d": 128}) == {"scale": float(np.float32(128**-0.5))}


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("distribution", TASK.distributions)
def test_every_distribution_is_finite_and_plain_maths_passes(distribution: str, dtype: str) -> None:
    for shape in ({"sq": 33, "sk": 70, "causal": 1}, {"sq": 1, "sk": 1}, {"sq": 3, "sk": 2, "causal": 1}):
        symbols = {**BASE, **shape, "dtype": dtype}
        inputs = TASK.inputs(symbols, distribution, np.random.default_rng(3))
        assert all(array.dtype == element_type(dtype).storage for array in inputs.values())
        assert all(np.isfinite(decode(array, dtype)).all() for array in inputs.values())
        expected = TASK.reference(symbols, inputs)
        tolerances = TASK.tolerances(symbols, inputs, expected)
        for order in (0, 1):
            plain = TASK.plain(symbols, inputs, order)
            assert all(compare(expected[n], plain[n], tolerances[n]).passed for n in expected)


def plain_loop(symbols: dict[str, Any], inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """Attention as a beginner writes it in float32: every sum runs term by term."""
    out, lse = np.zeros((1, symbols["sq"], 1, symbols["d"]), np.float32), np.zeros((1, 1, symbols["sq"]), np.float32)
    q, k, v = (inputs[name][0, :, 0] for name in "qkv")
    scores = np.zeros((len(q), len(k)), np.float32)
    for channel in range(symbols["d"]):
        scores += np.outer(q[:, channel], k[:, channel])
    scores *= np.float32(TASK.scalars(symbols)["scale"])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    total = np.zeros(len(q), np.float32)
    for key in range(len(k)):
        total += weights[:, key]
        out[0, :, 0] += np.outer(weights[:, key], v[key])
    out[0, :, 0] /= total[:, None]
    lse[0, 0] = scores.max(axis=1) + np.log(total)
    return {"out": out, "lse": lse}


@pytest.mark.parametrize("distribution", ["normal", "tiny"])
@pytest.mark.parametrize("keys", [256, 512])
def test_a_plain_loop_is_right(keys: int, distribution: str) -> None:
    # with nearly equal weights the roundings of a running sum all fall to one side
    symbols = {**BASE, "b": 1, "h": 1, "hkv": 1, "sq": 256, "sk": keys, "d": 64}
    inputs = TASK.inputs(symbols, distribution, np.random.default_rng(5))
    expected = TASK.reference(symbols, inputs)
    tolerances = TASK.tolerances(symbols, inputs, expected)
    got = plain_loop(symbols, inputs)
    assert {name: compare(expected[name], got[name], tolerances[name]).message for name in expected} == {"out": "", "lse": ""}


def test_inputs_depend_on_the_generator_alone() -> None:
    first, second, other = (TASK.inputs(BASE, "blended", np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(first[n], second[n]) for n in first)
    assert any(not np.array_equal(first[n], other[n]) for n in first)


def test_distributions_do_what_they_say() -> None:
    symbols = {**BASE, "sq": 64, "sk": 64, "d": 32}

    def scores(distribution: str) -> np.ndarray:
        inputs = TASK.inputs(symbols, distribution, np.random.default_rng(4))
        keys = np.repeat(inputs["k"], 2, axis=2)
        return np.asarray(np.einsum("bihd,bjhd->bhij", inputs["q"], keys, dtype=np.float64) * 32**-0.5)

    assert np.ptp(scores("equal_scores"), axis=-1).max() < 1e-6
    assert scores("very_negative").max() < -49_000
    running = np.maximum.accumulate(scores("rising"), axis=-1)
    assert (np.diff(running[..., ::8]) > 0).mean() > 0.8
    assert (scores("falling").argmax(-1) < 16).all()
    top = np.sort(scores("outlier_key"), axis=-1)
    assert (top[..., -1] - top[..., -2] > 10).mean() == pytest.approx(0.5, abs=0.1)
    assert np.abs(scores("huge")).max() > 10_000


def test_integers_have_exact_answers() -> None:
    symbols = {**BASE, "sq": 50, "sk": 70, "causal": 1, "dtype": "bf16"}
    inputs = TASK.inputs(symbols, "integers", np.random.default_rng(4))
    out = TASK.reference(symbols, inputs)["out"]
    np.testing.assert_allclose(out, np.rint(out), atol=1e-30)
    assert np.unique(np.rint(out)).size == 9


def test_wrong_answers_cover_the_masks_and_head_maps() -> None:
    symbols = {**BASE, "sq": 20, "sk": 40, "causal": 1, "window": 8}
    inputs = TASK.inputs(symbols, "normal", np.random.default_rng(0))
    names = set(TASK.wrong_answers(symbols, inputs, TASK.reference(symbols, inputs)))
    assert names == {
        "all zeros",
        "next lower precision",
        "mean of v",
        "copy of v",
        "first tile only",
        "scale 1 % too large",
        "causal off by one",
        "causal aligned top-left",
        "window off by one",
        "wrong head map",
    }


def test_hidden_scenarios_are_new_valid_and_of_the_family() -> None:
    card = TASK.card("hopper_26")
    hidden = TASK.hidden_scenarios(np.random.default_rng(0), card, 20)
    assert len(hidden) == 20
    assert len({s.name for s in hidden}) == 20
    known = {tuple(s.symbols.values()) for s in card.scenarios}
    for scenario in hidden:
        s = scenario.symbols
        assert tuple(s) == card.symbols
        assert tuple(s.values()) not in known
        assert int(s["h"]) % int(s["hkv"]) == 0
        assert int(s["sq"]) % 2 == 1
        assert scenario.region in card.regions
        assert visible(s)[0].size == s["sq"]
    again = TASK.hidden_scenarios(np.random.default_rng(0), card, 20)
    assert [s.symbols for s in again] == [s.symbols for s in hidden]
