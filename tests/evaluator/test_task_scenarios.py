"""The scenario sets of attention_forward and the notation they are written in."""

from typing import Any

import pytest

from evaluator.scenario_sets import ScenarioError, expand
from evaluator.task import load_task

TASK = load_task("attention_forward")


@pytest.mark.parametrize(
    ("name", "count"),
    [("quick3", 3), ("fa3_36", 36), ("hopper_26", 26), ("hopper_182", 182), ("cpu_small", 24), ("cpu_quick", 4)],
)
def test_sets_have_their_size_and_unique_names(name: str, count: int) -> None:
    scenarios = TASK.card(name).scenarios
    assert len(scenarios) == count
    assert len({scenario.name for scenario in scenarios}) == count
    assert len({tuple(scenario.symbols.values()) for scenario in scenarios}) == count
    assert all(scenario.symbols["h"] % scenario.symbols["hkv"] == 0 for scenario in scenarios)  # type: ignore[operator]


def test_quick3_is_as_designed() -> None:
    found = {s.name: (s.symbols["b"], s.symbols["sq"], s.symbols["causal"]) for s in TASK.card("quick3").scenarios}
    assert found == {
        "d128_h16_1k_causal": (16, 1024, 1),
        "d128_h16_4k_full": (4, 4096, 0),
        "d128_h16_16k_causal": (1, 16384, 1),
    }


def test_fa3_grid_keeps_tokens_and_hidden_size() -> None:
    for scenario in TASK.card("fa3_36").scenarios:
        s = scenario.symbols
        assert s["b"] * s["sq"] == 16384  # type: ignore[operator]
        assert s["h"] * s["d"] == 2048  # type: ignore[operator]


def test_hopper_182_is_the_26_at_7_lengths() -> None:
    by_length: dict[Any, set[tuple[Any, ...]]] = {}
    for scenario in TASK.card("hopper_182").scenarios:
        s = scenario.symbols
        assert s["b"] * s["sk"] == 32768  # type: ignore[operator]
        by_length.setdefault(s["sk"], set()).add(
            (*tuple(s[n] for n in ("d", "h", "hkv", "causal", "window", "dtype")), s["sq"] != s["sk"])
        )
    assert sorted(by_length) == [512, 1024, 2048, 4096, 8192, 16384, 32768]
    assert all(len(configurations) == 26 for configurations in by_length.values())
    assert len(set.union(*by_length.values())) == 26


def test_hopper_26_does_not_confound_mask_and_length() -> None:
    scenarios = TASK.card("hopper_26").scenarios
    lengths = [int(s.symbols["sk"]) for s in scenarios]
    assert lengths == [1024 if number % 4 in (0, 1) else 4096 for number in range(1, 27)]
    pairs = {(s.symbols["causal"], s.symbols["sk"]) for s in scenarios}
    assert len(pairs) == 4
    assert {s.name for s in scenarios} <= {s.name for s in TASK.card("hopper_182").scenarios}
    chunked = scenarios[24].symbols
    assert chunked["sq"] == int(chunked["sk"]) // 4


@pytest.mark.parametrize("name", ["cpu_small", "cpu_quick"])
def test_cpu_sets_hold_what_tells_mistakes_apart(name: str) -> None:
    symbols = [s.symbols for s in TASK.card(name).scenarios]
    assert {s["dtype"] for s in symbols} == {"fp32"}
    assert any(s["sq"] != s["sk"] and s["causal"] for s in symbols)
    assert any(1 < int(s["hkv"]) < int(s["h"]) for s in symbols)
    assert {0, 1} == {s["causal"] for s in symbols}
    assert {64, 128} <= {s["d"] for s in symbols}


def grid(*blocks: dict[str, Any], **shared: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(s.name, dict(s.symbols)) for s in expand(blocks, shared, ("m", "n"))]


def test_axes_multiply_and_the_last_runs_fastest() -> None:
    assert [name for name, _ in grid({"name": "{m}_{n}", "m": [1, 2], "n": [3, 4]})] == ["1_3", "1_4", "2_3", "2_4"]


def test_rows_override_block_and_block_overrides_defaults() -> None:
    found = grid(
        {"name": "{label}", "rows": "two", "m": 5},
        rows={"two": [{"label": "a"}, {"label": "b", "m": 6}]},
        defaults={"m": 1, "n": "2 * m"},
    )
    assert found == [("a", {"m": 5, "n": 10}), ("b", {"m": 6, "n": 12})]


def test_names_format_lengths_and_words() -> None:
    found = grid({"name": "{m:k}_{n:full|causal}", "m": [512, 1500, 2048], "n": 1})
    assert [name for name, _ in found] == ["512_causal", "1500_causal", "2k_causal"]


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ({"name": "x", "m": "n", "n": "m"}, "goes round in a circle"),
        ({"name": "x", "m": 1}, "no value for n"),
        ({"m": 1, "n": 1}, "no name"),
        ({"name": "x", "m": 1.5, "n": 1}, "write an integer"),
        ({"name": "x", "m": True, "n": 1}, "write an integer"),
        ({"name": "x", "m": "1 // 0", "n": 1}, "block 1"),
        ({"name": "{n:a|b}", "m": 1, "n": 2}, "2 words"),
        ({"name": "x", "rows": "none", "m": 1, "n": 1}, r"\[rows\] holds nothing"),
        ({"name": "x", "rows": [1], "m": 1, "n": 1}, "list of tables"),
        ({"name": "x", "m": [], "n": 1}, "no scenarios"),
    ],
)
def test_faulty_blocks_are_explained(block: dict[str, Any], says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        grid(block)
