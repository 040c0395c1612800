"""Facts: right figures with the right names, nothing that isn't known, nothing that isn't described."""

from dataclasses import replace

import pytest

from evaluator.task_card import Scenario
from mutators.attempts import Failure, failure_of
from mutators.bank import load_bank
from mutators.facts import FACTS, facts_of
from mutators.question import FactValue, Moment
from mutators.questions import fits
from mutators.shapes import shape_facts
from population.candidate import Knob
from tests.mutators.factories import KNOBS, attempt, card, change, header, outcome, question, wrong_outcome


def facts(**changes: object) -> dict[str, FactValue]:
    plain: dict[str, object] = {
        "card": card(),
        "parent_id": "p",
        "outcome": outcome(),
        "knobs": KNOBS,
        "grandparent": None,
        "history": [],
    }
    return dict(facts_of(**(plain | changes)))  # type: ignore[arg-type]


def test_every_fact_is_described_or_comes_from_the_compiler() -> None:
    history = [attempt(0, parent="g", child="p", header=header(all=1.1), accepted=True, change=change(1.2)), attempt(1)]
    known = facts(grandparent=outcome(), history=history)
    assert known.keys() - FACTS.keys() == {"code_bytes"}


def test_focus_takes_turns_among_the_scenarios_far_from_their_bound() -> None:
    seen = [facts(history=[attempt(n, parent="x") for n in range(turn)])["scenario"] for turn in range(4)]
    assert seen == ["d64_s128_causal", "d64_s128", "d64_s128_causal", "d64_s128"]


def test_figures_of_the_scenario_in_focus() -> None:
    known = facts()
    assert (known["time_us"], known["bound_us"], known["bound"]) == (150.0, 40.0, "arithmetic")
    assert known["roofline_pct"] == pytest.approx(100 * 40 / 150)
    assert known["headroom"] == pytest.approx(150 / 40)
    assert (known["query_tile"], known["key_tile"], known["kv_tiles"], known["q_tiles"]) == (32, 64, 2, 4)
    assert (known["tasks"], known["tasks_per_core"], known["group"]) == (32, 16.0, 2)
    pairs = 2 * 4 * 128 * 129 / 2
    assert known["exps"] == pairs
    assert known["gflop"] == pytest.approx(4 * 64 * pairs / 1e9)
    assert known["tflops"] == pytest.approx(4 * 64 * pairs / 150e-6 / 1e12)
    assert known["exps_per_us"] == pytest.approx(pairs / 150)
    assert known["kv_kib"] == 2 * 128 * 64 * 4 / 1024
    assert known["kv_tile_kib"] == 2 * 64 * 64 * 4 / 1024
    assert known["score_tile_kib"] == 32 * 64 * 4 / 1024


@pytest.mark.parametrize(
    ("symbols", "query_tile", "key_tile"),
    [
        ({"sq": 100, "sk": 100, "causal": 1, "window": 0}, 16, 32),
        ({"sq": 37, "sk": 101, "causal": 1, "window": 0}, 8, 16),
        ({"sq": 101, "sk": 37, "causal": 1, "window": 0}, 8, 16),
        ({"sq": 64, "sk": 64, "causal": 0, "window": 7}, 16, 8),
        ({"sq": 50, "sk": 70, "causal": 0, "window": 0}, 16, 32),
    ],
)
def test_pairs_and_waste_agree_with_counting(symbols: dict[str, int], query_tile: int, key_tile: int) -> None:
    rows, keys, shift = symbols["sq"], symbols["sk"], symbols["sk"] - symbols["sq"]
    masked = symbols["causal"] or symbols["window"]
    seen = {
        (row, key)
        for row in range(rows)
        for key in range(keys)
        if (not masked or key <= row + shift) and (not symbols["window"] or key >= row + shift - symbols["window"])
    }
    tiles = {(row // query_tile, key // key_tile) for row, key in seen}
    full = {"b": 1, "h": 1, "hkv": 1, "d": 8, "dtype": "fp16", **symbols}
    known = shape_facts(full, query_tile, key_tile)
    assert known["exps"] == len(seen)
    assert known["masked_pct"] == pytest.approx(100 * (1 - len(seen) / (rows * keys)))
    assert known["tile_waste_pct"] == pytest.approx(100 * (1 - len(seen) / (len(tiles) * query_tile * key_tile)))


def test_pairs_of_scenarios() -> None:
    known = facts()
    assert known["causal_scenario"] == "d64_s128_causal"
    assert known["causal_time_pct"] == pytest.approx(75)
    assert known["causal_work_pct"] == pytest.approx(50)
    assert (known["narrow_scenario"], known["wide_scenario"]) == ("d64_s128", "d128_s128")
    assert (known["short_scenario"], known["long_scenario"]) == ("d64_s128", "d64_s1024")
    assert known["length_time_ratio"] == pytest.approx(45)
    assert known["length_work_ratio"] == pytest.approx(64)


def test_a_step_and_its_prediction() -> None:
    before = outcome({"d64_s128": 1.0, "d128_s128": 1.0})
    after = outcome({"d64_s128": 1.21, "d128_s128": 1.0})
    made = attempt(0, parent="g", child="p", header=header(short=1.1, long=1.0))
    known = facts(outcome=after, grandparent=before, history=[made])
    assert known["gain_pct"] == pytest.approx(10)
    assert (known["gain_scenario"], known["lost_scenario"]) == ("d64_s128", "d128_s128")
    assert known["gain_scenario_pct"] == pytest.approx(21)
    assert known["rest_gain_pct"] == pytest.approx(0)
    assert known["gain_expected_pct"] == pytest.approx(100 * (1.1**0.5 - 1))


def test_evidence_of_a_wrong_child() -> None:
    known = facts(history=[attempt(0, verdict="WRONG", failure=failure_of(wrong_outcome()))])
    assert (known["wrong_batch"], known["wrong_row"], known["wrong_head"], known["wrong_col"]) == (1, 7, 3, 5)
    assert (known["wrong_got"], known["wrong_want"], known["wrong_pct"]) == ("0.5", "1", 25.0)
    assert known["wrong_where"] == "b 0..1, sq 0..127, h 3..3, d 0..63"
    assert known["error_over_allowed"] == pytest.approx(500)
    assert known["failure_message"] == "out is wrong in 'd64_s1024'. Look there."
    assert (known["failed_scenario"], known["failed_sq"], known["failed_stage"]) == ("d64_s1024", 1024, "check")
    assert known["wrong_distribution"] == "one outlier key"


def test_history_counts() -> None:
    history = [
        attempt(0, parent=None),
        attempt(1, accepted=True, change=change(1.05)),
        attempt(2, change=change(0.9), header=header(all=1.1)),
    ]
    known = facts(history=history)
    assert (known["attempts"], known["attempts_since_improvement"], known["children"], known["children_slower"]) == (2, 1, 2, 1)
    assert (known["last_layer"], known["same_layer_streak"], known["best_step_layer"]) == ("memory", 2, "memory")
    assert known["predicted_pct"] == pytest.approx(10)
    assert known["actual_pct"] == pytest.approx(-10)


def test_lines_that_came_back() -> None:
    history = [attempt(0, parent="g", child="p", deleted=(1, 2, 3), verdict="OK"), attempt(1, added=(1, 2, 3, 4))]
    known = facts(history=history)
    assert (known["readded_pct"], known["earlier_attempt"], known["earlier_verdict"]) == (75.0, 0, "OK")


def test_what_is_not_known_is_absent() -> None:
    known = facts(outcome=outcome(noise_floor_pct=None), knobs=())
    absent = {"noise_pct", "gain_pct", "predicted_pct", "wrong_row", "kv_tiles", "knobs", "sm_count", "registers", "last_verdict"}
    assert absent.isdisjoint(known)
    assert "scenario" not in facts(outcome=wrong_outcome())


def test_a_task_with_other_symbols_gets_no_attention_facts() -> None:
    other = replace(card(), scenarios=(Scenario(name="d64_s128", symbols={"n": 5}),))
    known = facts(card=other, outcome=outcome({"d64_s128": 1.0}))
    assert known["n"] == 5
    assert "gflop" not in known


def test_conditional_knobs_count_in_their_scenario() -> None:
    knobs = (Knob(name="BLOCK_M", value=32, choices=(16, 32), cases=(("causal == 1", 16),)),)
    assert facts(knobs=knobs)["query_tile"] == 16


def test_values_that_are_not_finite_are_left_out() -> None:
    assert "strange" not in facts(outcome=outcome(facts={"strange": float("nan")}))


def test_a_question_needs_every_fact_that_it_names() -> None:
    bank = load_bank()
    known = facts(history=[attempt(0, verdict="WRONG", failure=failure_of(wrong_outcome()))])
    asked = {entry.id for entry in bank if fits(entry, Moment.FAILURE, known, "cpu")}
    assert {"first-wrong-element", "what-this-shape-breaks", "first-surprise"} <= asked
    assert "what-the-message-contradicts" not in asked
    assert {entry.id for entry in bank if fits(entry, Moment.FAILURE, {}, "cpu")} == {"first-surprise"}
    gpu_only = {entry.id for entry in bank if fits(entry, Moment.STALL, known, "cuda")} - {
        entry.id for entry in bank if fits(entry, Moment.STALL, known, "cpu")
    }
    assert "who-waits" in gpu_only


def test_most_routine_questions_can_be_asked_on_a_plain_cpu_run() -> None:
    asked = {
        entry.id
        for turn in range(2)
        for entry in load_bank()
        if fits(entry, Moment.ROUTINE, facts(history=[attempt(n, parent="x") for n in range(turn)]), "cpu")
    }
    assert len(asked) >= 30


def test_failures_without_evidence_still_have_facts() -> None:
    bare = Failure(verdict=wrong_outcome().verdict, stage="check", message="wrong")
    known = facts(history=[attempt(0, verdict="WRONG", failure=bare, question=question())])
    assert known["failed_stage"] == "check"
    assert "failed_scenario" not in known


GPU = {"kind": "cuda", "name": "test GPU", "arch": "sm_90a", "cores": 132, "peak_tflops": 989.0, "peak_gbs": 4800.0}


def on_a_gpu(knobs: tuple[Knob, ...], arch: str = "sm_90a", dtype: str = "bf16", **compiled: FactValue) -> dict[str, FactValue]:
    plain = card()
    scenarios = tuple(replace(item, symbols={**item.symbols, "dtype": dtype}) for item in plain.scenarios)
    device = replace(outcome().device, **{**GPU, "arch": arch})  # type: ignore[arg-type]
    return facts(card=replace(plain, scenarios=scenarios), outcome=outcome(device=device, facts=compiled), knobs=knobs)


def test_units_of_a_gpu_in_cycles_and_registers() -> None:
    knobs = (Knob(name="WARPGROUPS", value=2, choices=(2, 3)), Knob(name="BLOCK_N", value=128, choices=(128,)))
    known = on_a_gpu((*knobs, Knob(name="STAGES", value=2, choices=(1, 2))), uses_wgmma=True, blocks_per_sm=1)
    assert (known["query_tile"], known["key_tile"], known["stages"], known["d"]) == (128, 128, 2, 64)
    assert known["exp_cycles"] == known["mma_cycles"] == 1024  # at d = 64 both units need equally long on Hopper
    assert known["accumulator_registers"] == 32 + 64
    assert known["waves"] == pytest.approx(8 / 132)
    assert known["last_wave_pct"] == pytest.approx(100 * 8 / 132)
    assert (known["row_fill_pct"], known["shared_rows"]) == (100.0, 256)
    assert known["kv_mib"] == pytest.approx(2 * 2 * 2 * 128 * 64 * 2 / 2**20)


def test_cycles_are_absent_where_the_rates_are_not_known() -> None:
    knobs = (Knob(name="BLOCK_M", value=96, choices=(96,)), Knob(name="BLOCK_N", value=64, choices=(64,)))
    assert on_a_gpu(knobs, arch="sm_80")["mma_cycles"] == pytest.approx(4 * 64 * 96 * 64 / 2048)
    assert on_a_gpu(knobs)["row_fill_pct"] == pytest.approx(100 * 128 / 192)
    for known in (on_a_gpu(knobs, arch="sm_75"), on_a_gpu(knobs, dtype="fp32"), on_a_gpu(())):
        assert {"exp_cycles", "mma_cycles", "accumulator_registers"}.isdisjoint(known)


def test_failures_in_a_row_at_one_stage() -> None:
    wrong = failure_of(wrong_outcome())
    history = [
        attempt(0, change=change(0.9)),
        attempt(1, verdict="WRONG", failure=wrong),
        attempt(2, verdict="WRONG", failure=wrong),
    ]
    assert facts(history=history)["same_stage_streak"] == 2
    assert "same_stage_streak" not in facts(history=[*history, attempt(3, change=change(0.9))])


def test_predictions_are_held_against_what_came_out() -> None:
    history = [attempt(number, header=header(all=1.1), change=change(1.0 if number else 2.0)) for number in range(11)]
    known = facts(history=[*history, attempt(11, header=header(all=9.0), verdict="WRONG"), attempt(12, change=change(0.5))])
    assert known["predictions"] == 10
    assert known["mean_overshoot_pct"] == pytest.approx(10)


def test_most_questions_about_a_gpu_can_be_asked_of_a_hopper_kernel() -> None:
    knobs = (
        Knob(name="WARPGROUPS", value=2, choices=(2, 3)),
        Knob(name="BLOCK_N", value=128, choices=(128,)),
        Knob(name="STAGES", value=2, choices=(2,)),
    )
    compiled = {
        "registers": 168, "spill_bytes": 0, "shared_bytes": 200000, "block_threads": 384, "blocks_per_sm": 1, "warps_per_sm": 12,
        "occupancy_pct": 18.75, "occupancy_limit": "registers", "uses_wgmma": True, "uses_tma": True, "hgmma_count": 64,
        "wgmma_wait_count": 6, "tma_load_count": 6, "tma_store_count": 0, "ex2_count": 70, "instruction_count": 2400,
        "shuffle_count": 16, "launches": 1, "builds": 4,
    }  # fmt: skip
    known = on_a_gpu(knobs, **compiled)  # type: ignore[arg-type]
    gpu_only = [entry for entry in load_bank() if entry.backends == ("cuda",)]
    asked = [entry.id for entry in gpu_only if any(fits(entry, moment, known, "cuda") for moment in Moment)]
    assert len(asked) >= 25
    assert {"two-units-in-cycles", "registers-of-accumulators", "what-each-wait-needs", "requests-for-one-tile"} <= set(asked)
    assert {"copies-by-threads", "products-per-matrix-load", "where-the-spills-lie"}.isdisjoint(asked)
