"""Everything that a question's slots and preconditions may name, worked out from what was measured.

A fact that isn't known is absent, and a question that needs it is then never asked.
"""

import math
from collections.abc import Mapping, Sequence

from evaluator.outcome import Outcome
from evaluator.task_card import TaskCard
from mutators.attempts import Attempt, change_of
from mutators.evidence import island_facts, last_facts, step_facts
from mutators.gpu_facts import gpu_facts
from mutators.knob_roles import KEY_TILE, STAGES, query_tile_of, tile_of
from mutators.measured import contrast_facts, focus_facts, focus_of, timings_of, whole_facts
from mutators.question import FactValue
from mutators.shapes import shape_facts
from population.candidate import Knob

FACTS: Mapping[str, str] = {
    # the device
    "device": "name of the device",
    "arch": "its architecture",
    "cores": "cores that run tasks, or multiprocessors",
    "sm_count": "multiprocessors (GPU only)",
    "peak_tflops": "arithmetic peak, TFLOP/s",
    "peak_gbs": "bandwidth that gives the bound, GB/s (on a CPU that of the first-level caches)",
    # the parent over all its scenarios
    "scenario_count": "scenarios that were timed",
    "peer": "the opponent of the race",
    "ratio": "geometric mean of opponent time / own time",
    "worst_scenario": "scenario with the lowest ratio",
    "worst_ratio": "its ratio",
    "best_scenario": "scenario with the highest ratio",
    "best_ratio": "its ratio",
    "spread": "best ratio / worst ratio",
    "worst_is_small": "whether the worst scenario is among the third with the least work",
    "small_scenario": "scenario with the least work",
    "small_roofline_pct": "its percentage of the physical bound",
    "small_us": "its time, us",
    "large_scenario": "scenario with the most work",
    "large_roofline_pct": "its percentage of the physical bound",
    "mean_roofline_pct": "percentage of the physical bound, geometric mean over the scenarios",
    "data_bound_count": "scenarios in which data movement and not arithmetic rules the bound",
    "noise_pct": "half-width of the baseline's race against itself, %",
    # pairs of scenarios that differ in one respect
    "causal_scenario": "a causal scenario with an unmasked twin",
    "causal_time_pct": "its time in % of the twin's",
    "causal_work_pct": "its physical bound in % of the twin's",
    "narrow_scenario": "a scenario with a small head dim that has a wide twin",
    "narrow_roofline_pct": "its percentage of the physical bound",
    "wide_scenario": "the twin with the large head dim",
    "wide_roofline_pct": "its percentage of the physical bound",
    "short_scenario": "a short scenario that has a long twin",
    "long_scenario": "the long twin",
    "length_time_ratio": "time of the long twin / time of the short one",
    "length_work_ratio": "physical bound of the long twin / that of the short one",
    # the scenario in focus: the half farthest from its bound, taken in turns
    "scenario": "name of the scenario in focus",
    "scenario_ratio": "opponent time / own time there",
    "time_us": "own time there, us",
    "peer_us": "opponent time there, us",
    "bound": "which bound rules there: arithmetic or data movement",
    "bound_us": "that bound, us",
    "roofline_pct": "bound / time, %",
    "headroom": "time / bound",
    "b": "batch size there",
    "sq": "query length there",
    "sk": "key length there",
    "h": "query heads there",
    "hkv": "key heads there",
    "d": "head dim there",
    "causal": "1 with a causal mask, else 0",
    "window": "sliding window, 0 without one",
    "dtype": "element type there",
    "group": "query heads per key head there",
    "gflop": "arithmetic that the exact mask leaves there, GFLOP",
    "tflops": "that arithmetic over the time, TFLOP/s",
    "gbs": "bytes over the time, if every tensor crosses memory once, GB/s",
    "waves": "tasks over the blocks that the whole device holds at once (GPU only)",
    "exps": "exponentials that the exact mask leaves there",
    "exps_per_us": "those over the time, per us",
    "flop_per_exp": "FLOP of both products per exponential (4 d)",
    "flop_per_byte": "FLOP per byte if every tensor crosses memory once",
    "masked_pct": "share of the sq x sk rectangle that the mask removes, %",
    "kv_kib": "K and V of one head, KiB",
    "kv_mib": "K and V of all heads and the whole batch, MiB",
    "shared_rows": "query rows of one batch entry that read the same key head",
    "query_tile": "query rows of a tile, from the knob of that role",
    "key_tile": "keys of a tile, from the knob of that role",
    "stages": "tiles that the pipeline holds, from the knob of that role",
    "q_tiles": "query tiles of one head",
    "row_fill_pct": "share of the rows of these tiles that hold a query, %",
    "kv_tiles": "key tiles of one head",
    "last_key_tile": "keys in the last key tile",
    "tasks": "independent blocks or tasks of the grid",
    "tasks_per_core": "tasks / cores",
    "tile_waste_pct": "share of the scores in visited tiles that the mask or the edge throws away, %",
    "score_tile_kib": "one tile of scores in float32, KiB",
    "kv_tile_kib": "one tile of K and V, KiB",
    "exp_cycles": "cycles that one multiprocessor needs at least for the exponentials of a tile (16-bit types, sm_80 and sm_90)",
    "mma_cycles": "cycles that it needs at least for both products of a tile (16-bit types, sm_80 and sm_90)",
    "accumulator_registers": "registers a thread that the accumulators of scores and output take (warp-group instructions only)",
    "last_wave_pct": "share of the device that the last wave of tasks fills, %",
    # knobs
    "knobs": "the declared knobs with their values",
    "knob_count": "how many knobs are declared",
    # the compiled parent
    "vectorised_loops": "loops that the compiler made vector code of (CPU only)",
    "widest_vector_bytes": "widest vector in them, bytes (CPU only)",
    "library_bytes": "size of the shared object (CPU only)",
    "builds": "builds that the scenarios need, one for each set of constants",
    "launches": "kernel launches in one execution, at most",
    "registers": "registers a thread (the largest over kernels and builds, as all figures of the compiled parent)",
    "spill_bytes": "bytes of register spills",
    "stack_bytes": "bytes of stack a thread",
    "static_shared_bytes": "shared memory of a block that the source declares, bytes",
    "shared_bytes": "shared memory of a block with what the plan adds, bytes",
    "barriers": "named barriers",
    "cubin_bytes": "size of the compiled kernels",
    "wgmma_serialized": "the compiler's remarks that it serialised wgmma; absent without one",
    "uses_wgmma": "whether the code holds warp-group matrix instructions",
    "uses_mma": "whether the code holds warp matrix instructions",
    "uses_tma": "whether the code holds tensor-map copies",
    "uses_cp_async": "whether the code holds asynchronous copies",
    "sass_examined": "whether the machine code was read; without it there are no counts of instructions",
    "hot_kernel": "the kernel with the most matrix instructions, which the counts are about",
    "instruction_count": "machine instructions in the hot kernel (each counted once, however often it runs)",
    "hgmma_count": "warp-group matrix instructions in the code",
    "mma_count": "warp matrix instructions in the code",
    "tcgen05_count": "tensor-memory matrix instructions in the code",
    "tma_load_count": "bulk copies into shared memory in the code",
    "tma_store_count": "bulk copies out of shared memory in the code",
    "cp_async_count": "asynchronous copies of a thread in the code",
    "ldmatrix_count": "matrix loads from shared memory in the code",
    "ex2_count": "exponential instructions in the code",
    "local_load_count": "loads from local memory in the code",
    "local_store_count": "stores to local memory in the code",
    "barrier_count": "barrier instructions in the code",
    "mbarrier_count": "instructions on memory barriers in the code",
    "wgmma_arrive_count": "fences before warp-group matrix instructions in the code",
    "wgmma_wait_count": "waits for warp-group matrix instructions in the code",
    "shuffle_count": "warp shuffles in the code",
    # how the plan launches it: the scenario with the fewest resident warps
    "block_threads": "threads of a block",
    "blocks_per_sm": "blocks that a multiprocessor holds at once",
    "warps_per_sm": "warps that it then holds",
    "occupancy_pct": "those as a share of the warps that it could hold, %",
    "occupancy_limit": "what keeps a further block out: registers, shared memory, threads, blocks, barriers",
    "occupancy_scenario": "the scenario that this is about, where they differ",
    # the step that made the parent
    "gain_pct": "how much faster it was than its own parent, %",
    "gain_expected_pct": "what its author expected, %",
    "gain_scenario": "where it gained most",
    "gain_scenario_pct": "how much there, %",
    "rest_gain_pct": "gain over the other scenarios, %",
    "rest_count": "how many others there are",
    "lost_scenario": "where it gained least or lost",
    "lost_scenario_pct": "how much slower there, % (negative: faster)",
    # attempts on the island and on this parent
    "attempts": "attempts on the island",
    "attempts_since_improvement": "attempts on the island since the last accepted improvement",
    "last_layer": "layer of the last question on the island",
    "same_layer_streak": "how many questions in a row were about that layer",
    "best_step_layer": "layer of the question that gave the largest verified step",
    "best_step_pct": "that step, %",
    "children": "attempts from this parent",
    "children_slower": "those that came out right and slower",
    "same_stage_streak": "how many of these, the last ones in a row, left at the same stage",
    "predictions": "attempts on the island whose prediction was measured (at most the last ten)",
    "mean_overshoot_pct": "how far those predictions lay above what was measured, on average, % (negative: below)",
    # the last attempt from this parent
    "last_verdict": "its verdict or rejection",
    "last_lines": "source lines that it brought",
    "predicted_pct": "the gain that it predicted, %",
    "actual_pct": "the gain that was measured, % (negative: slower)",
    "last_slow_scenario": "where it did worst",
    "last_slow_pct": "how much slower there, % (negative: faster)",
    "last_fast_scenario": "where it did best",
    "last_fast_pct": "how much faster there, %",
    "failed_stage": "stage of the harness that it left at",
    "failure_message": "the harness's message, one line",
    "failed_scenario": "scenario that showed the failure",
    "failed_sq": "query length of that scenario",
    "failed_sk": "key length of that scenario",
    "failed_d": "head dim of that scenario",
    "wrong_tensor": "output tensor that was wrong",
    "wrong_distribution": "input distribution that showed it",
    "wrong_pct": "share of wrong elements, %",
    "wrong_where": "the region that holds all wrong elements, by axis",
    "wrong_batch": "batch index of the first wrong element",
    "wrong_row": "its query row",
    "wrong_head": "its head",
    "wrong_col": "its column",
    "wrong_got": "its value",
    "wrong_want": "the reference's value",
    "error_over_allowed": "largest error / allowed error",
    "readded_pct": "share of added lines that had been deleted earlier in the lineage, %",
    "earlier_attempt": "attempt that deleted most of them",
    "earlier_verdict": "that attempt's verdict",
}
"""Name -> meaning and unit. The linter refuses a slot or a precondition that names anything else."""


def facts_of(
    *,
    card: TaskCard,
    parent_id: str,
    outcome: Outcome,
    knobs: Sequence[Knob],
    grandparent: Outcome | None,
    history: Sequence[Attempt],
) -> Mapping[str, FactValue]:
    """All facts about a parent: its ``outcome``, that of the candidate it came from, and its island's attempts, oldest first.

    Compiler facts of the outcome are passed on under their own names; a value that isn't finite is left out.
    """
    timings = timings_of(outcome)
    facts = whole_facts(outcome, timings) | contrast_facts(card, timings)
    focus = focus_of(timings, len(history))
    if focus is not None:
        facts |= focus_facts(focus)
        facts |= _scenario_facts(card, focus.scenario, knobs)
        _derive(facts)
        facts |= gpu_facts(facts)
    if knobs:
        facts["knobs"] = ", ".join(f"{knob.name} = {knob.value}" for knob in knobs)
        facts["knob_count"] = len(knobs)
    facts |= island_facts(history, parent_id)
    facts |= step_facts(history, parent_id, change_of(outcome, grandparent))
    facts |= last_facts(history, parent_id, card)
    return {name: value for name, value in facts.items() if not isinstance(value, float) or math.isfinite(value)}


def _scenario_facts(card: TaskCard, name: str, knobs: Sequence[Knob]) -> dict[str, FactValue]:
    scenario = next((scenario for scenario in card.scenarios if scenario.name == name), None)
    if scenario is None:
        return {}
    symbols = scenario.symbols
    query_tile, key_tile, stages = (
        query_tile_of(knobs, symbols),
        tile_of(knobs, KEY_TILE, symbols),
        tile_of(knobs, STAGES, symbols),
    )
    facts: dict[str, FactValue] = dict(symbols)
    facts.update(shape_facts(symbols, query_tile, key_tile))
    if query_tile:
        facts["query_tile"] = query_tile
    if key_tile:
        facts["key_tile"] = key_tile
    if stages:
        facts["stages"] = stages
    return facts


def _derive(facts: dict[str, FactValue]) -> None:
    """Facts that need two of the others."""
    tasks, cores, gflop, time_us, exps = (facts.get(name) for name in ("tasks", "cores", "gflop", "time_us", "exps"))
    intensity, resident = facts.get("flop_per_byte"), facts.get("blocks_per_sm")
    if isinstance(tasks, int) and isinstance(cores, int) and cores > 0:
        facts["tasks_per_core"] = tasks / cores
    if isinstance(gflop, float) and isinstance(time_us, int | float) and time_us > 0:
        facts["tflops"] = gflop * 1e3 / time_us
        if isinstance(intensity, float) and intensity > 0:
            facts["gbs"] = gflop * 1e6 / intensity / time_us
    if isinstance(tasks, int) and isinstance(cores, int) and isinstance(resident, int) and cores * resident > 0:
        facts["waves"] = tasks / (cores * resident)
    if isinstance(exps, int) and isinstance(time_us, int | float) and time_us > 0:
        facts["exps_per_us"] = exps / time_us
