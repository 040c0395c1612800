"""Bad and unusual CUDA candidates with the verdicts they must get; those of the first groups need no GPU."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evaluator.outcome import Verdict
from evaluator.task import Task, load_task
from evaluator.task_card import Scenario
from tests.cheats.variants import CUDA_ATTENTION, CUDA_ATTENTION_HONEST, CUDA_LIGHT, CUDA_LIGHT_HONEST

FOLDER = Path(__file__).parent / "cuda"
SET = "pack"
GOOD = FOLDER / "honest" / "one_warp_a_row.cu"
GOOD_ATTENTION = FOLDER / "attention" / "honest.cu"
RIGHT = frozenset({Verdict.OK, Verdict.AMBIGUOUS, Verdict.SLOWER})
"""Verdicts of right kernels; which of them it is depends on how quiet the GPU is."""

Offline = Mapping[str, tuple[Verdict, str]]
OnDevice = Mapping[str, tuple[Verdict, ...]]
UNWRITTEN = (Verdict.STALE_OUTPUT, Verdict.NONFINITE, Verdict.WRONG)
"""What comes of elements that are left as they were, by the poison that is met first."""
PLAN: Offline = {
    "oversize_shared": (Verdict.PLAN_ERROR, "300000 bytes; this device allows 0 to 232448 a block"),
    "misaligned_map_box": (Verdict.PLAN_ERROR, "the inner box, axis m, is 12 bytes; make it a multiple of 16"),
    "misaligned_map_stride": (Verdict.PLAN_ERROR, "a stride of 12 bytes; it must be a multiple of 16"),
    "cluster_not_dividing": (Verdict.PLAN_ERROR, "75 blocks along x aren't a multiple of the cluster's 2"),
    "cluster_of_16": (Verdict.PLAN_ERROR, "16 blocks in a cluster; at most 8 work on every device"),
    "cluster_of_32": (Verdict.PLAN_ERROR, "32 blocks in a cluster"),
    "huge_grid": (Verdict.PLAN_ERROR, "at most 2147483647 are possible, so give each block more work"),
    "tall_grid": (Verdict.PLAN_ERROR, "65572 blocks along y; at most 65535 are possible, so put the longest axis first"),
    "huge_block": (Verdict.PLAN_ERROR, "2048 threads in a block; at most 1024"),
    "huge_workspace": (Verdict.PLAN_ERROR, "at most 67255560 are allowed"),
    "unknown_argument": (Verdict.PLAN_ERROR, "unknown name `sums`; the names are n, m"),
    "output_left_out": (Verdict.PLAN_ERROR, "pass it to the kernel that writes it"),
    "no_launch_applies": (Verdict.PLAN_ERROR, "no launch applies in scenario fp32_37x244"),
    "programmatic_launch": (Verdict.PLAN_ERROR, "programmatic"),
    "own_stream": (Verdict.PLAN_ERROR, "stream"),
    "replayed_graph": (Verdict.PLAN_ERROR, "graph"),
}
COMPILE: Offline = {
    "compile_error": (Verdict.COMPILE_ERROR, 'identifier "valeu" is undefined'),
    "host_header": (Verdict.COMPILE_ERROR, "NVRTC has no host headers"),
    "secret_file": (Verdict.SANDBOX, 'reads the file "/etc/passwd" outside the CUDA headers'),
    "oversize_static_shared": (Verdict.COMPILE_ERROR, "uses too much shared data"),
    "bad_assembly": (Verdict.COMPILE_ERROR, "Unknown modifier"),
    "giant_table": (Verdict.COMPILE_ERROR, "too much global constant data"),
    "forged_log": (Verdict.COMPILE_ERROR, "static assertion failed"),
    "device_launch": (Verdict.COMPILE_ERROR, "Unresolved extern function 'cudaGetParameterBuffer'"),
}
GATE: Offline = {
    "printf_flood": (Verdict.GATE_VIOLATION, "calls vprintf, which is not allowed"),
    "device_malloc": (Verdict.GATE_VIOLATION, "calls malloc, which is not allowed"),
    "assertion": (Verdict.GATE_VIOLATION, "calls __assertfail, which is not allowed"),
    "device_variable": (Verdict.GATE_VIOLATION, "device variables (cached), which outlive a launch"),
    "static_variable": (Verdict.GATE_VIOLATION, "launches), which outlive a launch"),
    "managed_variable": (Verdict.GATE_VIOLATION, "device variables (cached), which outlive a launch"),
    "assembly_variable": (Verdict.GATE_VIOLATION, "device variables (launches), which outlive a launch"),
    "clock64": (Verdict.GATE_VIOLATION, "reads a clock (%clock64), which is not allowed"),
    "assembly_clock": (Verdict.GATE_VIOLATION, "reads a clock (%clock64), which is not allowed"),
    "global_timer": (Verdict.GATE_VIOLATION, "reads a clock (%globaltimer), which is not allowed"),
    "launch_number": (Verdict.GATE_VIOLATION, "reads the number of its launch (%gridid)"),
    "launch_dependents": (Verdict.GATE_VIOLATION, "releases dependent launches early"),
    "driver_register": (Verdict.GATE_VIOLATION, "reads a driver register"),
    "argument_missing": (Verdict.GATE_VIOLATION, "takes 7 parameters, the plan passes 6: x, w, y, total, n, m"),
    "argument_size": (
        Verdict.GATE_VIOLATION,
        "passes n as an int, the kernel takes a pointer or 64-bit integer",
    ),
    "argument_kind": (Verdict.GATE_VIOLATION, "parameter 5: the plan passes n as an int, the kernel takes a float"),
    "undeclared_entry": (Verdict.GATE_VIOLATION, "an entry point other that no [[launch]] names"),
    "injected_entry": (Verdict.GATE_VIOLATION, "an entry point other that no [[launch]] names"),
    "mangled_kernel": (Verdict.GATE_VIOLATION, 'write extern "C" __global__ void scaled(...)'),
    "launch_bounds": (Verdict.GATE_VIOLATION, "built for 32 threads at most, the plan's block has 64"),
    "cluster_compiled_in": (Verdict.GATE_VIOLATION, "requires clusters of (2, 1, 1)"),
    "shared_together": (Verdict.GATE_VIOLATION, "40000 bytes of static and 200000 of dynamic shared memory"),
    "huge_stack": (Verdict.GATE_VIOLATION, "8000 bytes of stack a thread"),
    "endless_recursion": (Verdict.GATE_VIOLATION, "calls itself"),
}
OFFLINE_GROUPS: Mapping[str, Offline] = {"plan": PLAN, "compile": COMPILE, "gate": GATE}
OFFLINE: Offline = {name: case for group in OFFLINE_GROUPS.values() for name, case in group.items()}

STOPS: OnDevice = {
    "trap": (Verdict.CRASH,),
    "misaligned_vector": (Verdict.CRASH,),
    "misaligned_tile": (Verdict.CRASH,),
    "hang": (Verdict.TIMEOUT,),
    "waits_for_blocks": (Verdict.TIMEOUT,),
    "wrong_byte_count": (Verdict.TIMEOUT,),
    "wrong_box": (Verdict.TIMEOUT,),
    "cooperative_too_large": (Verdict.LAUNCH_ERROR,),
}
BOUNDS: OnDevice = {
    "read_far": (Verdict.OUT_OF_BOUNDS,),
    "looks_for_another_answer": (Verdict.OUT_OF_BOUNDS,),
    "counter_in_slack": (Verdict.OUT_OF_BOUNDS,),
    "read_past_end": (Verdict.OUT_OF_BOUNDS, Verdict.NONFINITE),  # NONFINITE: between guard bands, which hold NaN
    "reads_slack": (Verdict.NONFINITE,),
    "write_past_end": (Verdict.OUT_OF_BOUNDS,),
    "write_far_past_end": (Verdict.OUT_OF_BOUNDS,),
    "write_before_start": (Verdict.OUT_OF_BOUNDS,),
    "write_input": (Verdict.INPUT_MUTATED,),
    "restores_input": (Verdict.INPUT_MUTATED, Verdict.OUT_OF_BOUNDS),  # a fault whose rerun leaves no trace is OUT_OF_BOUNDS
    "constant_memory": (Verdict.SANDBOX, Verdict.OUT_OF_BOUNDS, Verdict.CRASH),
}
MEMORY: OnDevice = {
    "writes_nothing": UNWRITTEN,
    "accumulates": UNWRITTEN,
    "unwritten_rows": UNWRITTEN,
    "unwritten_column": UNWRITTEN,
    "leaves_total": UNWRITTEN,
    "wrong_order": UNWRITTEN,
    "cached_answer": UNWRITTEN,
    "counter_not_reset": (Verdict.STALE_OUTPUT,),
    "race": (Verdict.NONDETERMINISTIC,),
    "undeclared_atomics": (Verdict.NONDETERMINISTIC,),
    "lost_updates": (Verdict.NONDETERMINISTIC, Verdict.WRONG),
    "tiny_grid": UNWRITTEN,
    "missing_proxy_fence": (Verdict.NONDETERMINISTIC, *UNWRITTEN),
    "wrong_phase": (Verdict.NONDETERMINISTIC, *UNWRITTEN),
}
WRONG: OnDevice = {
    "all_zeros": (Verdict.WRONG,),
    "wrong_factor": (Verdict.WRONG,),
    "half_precision": (Verdict.WRONG,),
    "early_exit": (Verdict.WRONG,),
    "sniffs_multiprocessor": (Verdict.WRONG, Verdict.NONDETERMINISTIC, Verdict.STALE_OUTPUT),
    "nan_output": (Verdict.NONFINITE,),
    "infinite_output": (Verdict.NONFINITE,),
}
DEVICE_GROUPS: Mapping[str, OnDevice] = {"stops": STOPS, "bounds": BOUNDS, "memory": MEMORY, "wrong": WRONG}
ON_DEVICE: OnDevice = {name: case for group in DEVICE_GROUPS.values() for name, case in group.items()}
ATTENTION: OnDevice = {
    "top_left_mask": (Verdict.WRONG,),
    "half_the_keys": (Verdict.WRONG,),
    "no_maximum": (Verdict.NONFINITE, Verdict.WRONG),
    "leaves_lse": UNWRITTEN,
    "reads_past_keys": (Verdict.OUT_OF_BOUNDS, Verdict.NONFINITE),
    "missing_barrier": (Verdict.NONDETERMINISTIC, *UNWRITTEN),
    "tiny_grid": UNWRITTEN,
    **dict.fromkeys(sorted(set(CUDA_ATTENTION) - {"missing_barrier", "tiny_grid"}), (Verdict.WRONG,)),
}
EITHER: OnDevice = {"kept_in_shared_memory": (*RIGHT, *UNWRITTEN, Verdict.NONDETERMINISTIC)}
"""Whether shared memory outlives a block is up to the GPU: wrong where it does, right where it doesn't."""
SHAPES = {
    "grouped_causal": {"b": 2, "sq": 33, "sk": 65, "h": 4, "hkv": 2, "d": 64, "causal": 1, "window": 0, "dtype": "bf16"},
    "full": {"b": 1, "sq": 70, "sk": 130, "h": 2, "hkv": 2, "d": 128, "causal": 0, "window": 0, "dtype": "fp16"},
}


def light_task() -> Task:
    """The task of the pack: columns scaled, rows summed."""
    return load_task(str(FOLDER / "task"))


def small_attention() -> Task:
    """attention_forward with two small scenarios as its only set."""
    task = load_task("attention_forward")
    scenarios = (Scenario(name=name, symbols=symbols, region=task.region(symbols)) for name, symbols in SHAPES.items())
    return replace(task, scenarios={SET: tuple(scenarios)})


def bad_source(name: str) -> str:
    """A bad candidate of the light task."""
    return CUDA_LIGHT[name].source if name in CUDA_LIGHT else (FOLDER / "bad" / f"{name}.cu").read_text()


def attention_source(name: str) -> str:
    """A candidate of attention_forward."""
    return CUDA_ATTENTION[name].source if name in CUDA_ATTENTION else (FOLDER / "attention" / f"{name}.cu").read_text()


def honest_sources() -> dict[str, str]:
    """The unusual but right candidates of the light task, by name."""
    files = {path.stem: path.read_text() for path in sorted((FOLDER / "honest").glob("*.cu"))}
    return files | {name: variant.source for name, variant in CUDA_LIGHT_HONEST.items()}


def honest_attention() -> dict[str, str]:
    """The unusual but right candidates of attention_forward, by name."""
    files = {path.stem: path.read_text() for path in sorted((FOLDER / "attention" / "honest").glob("*.cu"))}
    return files | {name: variant.source for name, variant in CUDA_ATTENTION_HONEST.items()}
