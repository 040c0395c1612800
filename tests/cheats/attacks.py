"""The attacks that device code is capable of, D1 to D46: what stands for each here, and the layers that must catch it.

A form is ``pack:name`` (a candidate of a pack, whose verdict its table of cases holds) or the node of a test.
"""

from collections.abc import Mapping

from evaluator.outcome import Verdict
from tests.cheats import cuda_cases, test_attention_cheats, test_cpu_cheats
from tests.cheats.layers import Attack, Layer


def _forms(pack: str, names: str) -> tuple[str, ...]:
    return tuple(f"{pack}:{name}" for name in names.split())


def _light(names: str) -> tuple[str, ...]:
    return _forms("light", names)


def _gpu(names: str) -> tuple[str, ...]:
    return _forms("gpu", names)


def _cpu(names: str) -> tuple[str, ...]:
    return _forms("cpu", names)


SECOND = "tests/cheats/test_second_layer.py::"
SECOND_GPU = "tests/gpu/test_cuda_second_layer.py::"
HOST_CODE = "tests/cheats/test_cuda_cheats.py::test_code_for_the_host_has_no_place"
KEYS = "tests/cheats/test_cuda_cheats.py::test_a_plan_has_no_key_for_what_a_host_program_decides"
WITHOUT_GATE = (SECOND + "test_without_the_gate", SECOND_GPU + "test_without_the_gate")
WITHOUT_POISON = (SECOND + "test_without_poison_stale_memory_is_wrong",)
WITHOUT_CHECKS = (SECOND + "test_without_checks_the_race_compares",)

ATTACKS: Mapping[str, Attack] = {
    "D1": Attack(
        what="keeps an answer in device memory and replays it",
        layers=(Layer.GATE, Layer.REPEAT, Layer.TIMED),
        cuda=_light("device_variable static_variable assembly_variable"),
        cpu=_cpu("device_cache"),
        without_first=WITHOUT_GATE,
    ),
    "D2": Attack(
        what="keeps an answer on a heap",
        layers=(Layer.GATE, Layer.SEAL),
        cuda=_light("device_malloc"),
        cpu=_cpu("heap") + _forms("contract", "heap"),
        without_first=WITHOUT_GATE,
    ),
    "D3": Attack(
        what="keeps an answer in a workspace",
        layers=(Layer.POISON, Layer.TIMED),
        cuda=_light("cached_answer counter_not_reset"),
        cpu=_cpu("reads_workspace keeps_a_flag"),
        without_first=WITHOUT_POISON,
    ),
    "D4": Attack(
        what="keeps an answer in managed or thread-local memory",
        layers=(Layer.GATE, Layer.SEAL, Layer.REPEAT),
        cuda=_light("managed_variable"),
        cpu=_cpu("thread_local_data"),
        without_first=WITHOUT_GATE,
    ),
    "D5": Attack(
        what="counts its calls in a byte that survives, and behaves when it is checked",
        layers=(Layer.FENCE, Layer.TIMED),
        cuda=_light("counter_in_slack counter_not_reset launch_number restores_input"),
        cpu=_cpu("remembers_on_stack keeps_a_flag write_one_past_end"),
        without_first=WITHOUT_CHECKS,
    ),
    "D6": Attack(
        what="writes nothing and returns what lay there",
        layers=(Layer.POISON, Layer.COMPARE),
        cuda=_light("writes_nothing accumulates"),
        cpu=_cpu("writes_nothing accumulates"),
        without_first=WITHOUT_POISON,
    ),
    "D7": Attack(
        what="writes some tiles only",
        layers=(Layer.POISON, Layer.COMPARE),
        cuda=_light("unwritten_rows unwritten_column leaves_total") + _gpu("leaves_lse"),
        cpu=_cpu("half_the_rows first_tile leaves_lse"),
        without_first=WITHOUT_POISON,
    ),
    "D8": Attack(
        what="answers zeros",
        layers=(Layer.COMPARE, Layer.TIMED),
        cuda=_light("all_zeros") + _gpu("all_zeros"),
        cpu=_cpu("all_zeros"),
        without_first=WITHOUT_CHECKS,
    ),
    "D9": Attack(
        what="answers the mean of v",
        layers=(Layer.COMPARE, Layer.TIMED),
        cuda=_gpu("mean_of_all_v"),
        cpu=_cpu("mean_of_all_v"),
        without_first=WITHOUT_CHECKS,
    ),
    "D10": Attack(
        what="copies v or q",
        layers=(Layer.COMPARE, Layer.TIMED),
        cuda=_gpu("copy_of_v copy_of_q"),
        cpu=_cpu("copy_of_v copy_of_q"),
        without_first=WITHOUT_CHECKS,
    ),
    "D11": Attack(
        what="weighs all visible keys alike",
        layers=(Layer.COMPARE, Layer.TIMED),
        cuda=_gpu("uniform_weights"),
        cpu=_cpu("mean_of_v"),
        without_first=WITHOUT_CHECKS,
    ),
    "D12": Attack(
        what="ignores the mask in one corner",
        layers=(Layer.COMPARE, Layer.TIMED),
        cuda=_gpu("unmasked_corner top_left_mask"),
        cpu=_cpu("unmasked_corner sees_early_keys causal_top_left window_off_by_one garbage_row"),
        without_first=WITHOUT_CHECKS,
    ),
    "D13": Attack(
        what="ignores the last, partial tile",
        layers=(Layer.COMPARE, Layer.TIMED),
        cuda=_gpu("ignores_last_tile half_the_keys"),
        cpu=_cpu("ignores_last_tile half_the_keys"),
        without_first=WITHOUT_CHECKS,
    ),
    "D14": Attack(
        what="has the causal edge off by one",
        layers=(Layer.COMPARE, Layer.TIMED),
        cuda=_gpu("causal_off_by_one"),
        cpu=_cpu("causal_off_by_one"),
        without_first=WITHOUT_CHECKS,
    ),
    "D15": Attack(
        what="maps grouped heads wrongly",
        layers=(Layer.COMPARE, Layer.TIMED),
        cuda=_gpu("wrong_head_map"),
        cpu=_cpu("wrong_head_map"),
        without_first=WITHOUT_CHECKS,
    ),
    "D16": Attack(
        what="scales by 1 % too much",
        layers=(Layer.COMPARE, Layer.TIMED),
        cuda=_gpu("wrong_scale") + _light("wrong_factor"),
        cpu=_cpu("wrong_scale wrong_lse"),
        without_first=WITHOUT_CHECKS,
    ),
    "D17": Attack(
        what="doesn't subtract the maximum",
        layers=(Layer.DISTRIBUTIONS,),
        cuda=_gpu("no_maximum"),
        cpu=_cpu("no_maximum"),
    ),
    "D18": Attack(
        what="computes in a lower precision than declared",
        layers=(Layer.COMPARE,),
        cuda=_light("half_precision") + _gpu("half_totals coarse_products"),
        cpu=_cpu("bf16_inputs half_inputs tf32_weights half_totals"),
    ),
    "D19": Attack(
        what="looks at the data and takes a shortcut where they seem harmless",
        layers=(Layer.DISTRIBUTIONS, Layer.TIMED),
        cuda=_light("early_exit") + _gpu("sniffs_first_key"),
        cpu=_cpu("sniffs_first_tile sometimes_wrong"),
        without_first=WITHOUT_CHECKS,
    ),
    "D20": Attack(
        what="recognises public shapes or addresses",
        layers=(Layer.HIDDEN,),
        cuda=("tests/gpu/test_cuda_attention_cheats.py::test_a_kernel_that_knows_the_shapes_meets_hidden_ones_in_a_final",),
        cpu=(
            "tests/cheats/test_attention_cheats.py::test_a_kernel_that_knows_the_shapes_meets_hidden_ones_in_a_final",
            "tests/cheats/test_attention_cheats.py::test_a_kernel_that_looks_at_its_addresses_is_caught_wherever_they_are",
        ),
    ),
    "D21": Attack(
        what="writes beyond an output",
        layers=(Layer.FENCE,),
        cuda=_light("write_past_end write_far_past_end write_before_start"),
        cpu=_cpu("write_past_end write_one_past_end write_before_start"),
    ),
    "D22": Attack(
        what="writes into an input",
        layers=(Layer.READ_ONLY,),
        cuda=_light("write_input restores_input constant_memory"),
        cpu=_cpu("write_input shifted_arguments"),
    ),
    "D23": Attack(
        what="reads beyond an input",
        layers=(Layer.FENCE, Layer.POISON),
        cuda=_light("read_past_end reads_slack read_far") + _gpu("reads_past_keys"),
        cpu=_cpu("read_past_end"),
        without_first=("tests/gpu/test_cuda_side.py::test_guard_bands_where_pages_cannot_be_had",),
    ),
    "D24": Attack(
        what="lacks a barrier",
        layers=(Layer.REPEAT, Layer.COMPARE),
        cuda=_gpu("missing_barrier"),
        shown_by=("tests/gpu/test_cuda_sanitizer.py::test_planted_errors_are_found",),
        without_first=(SECOND + "test_without_repeats_the_race_compares",),
    ),
    "D25": Attack(
        what="lacks a proxy fence, or has the phase of an mbarrier wrong",
        layers=(Layer.REPEAT, Layer.COMPARE, Layer.DEADLINE),
        cuda=_light("missing_proxy_fence wrong_phase wrong_byte_count wrong_box"),
        without_first=(SECOND + "test_without_repeats_the_race_compares",),
    ),
    "D26": Attack(
        what="races between blocks",
        layers=(Layer.REPEAT, Layer.COMPARE),
        cuda=_light("lost_updates wrong_order"),
        cpu=_cpu("race"),
        without_first=(SECOND + "test_without_repeats_the_race_compares",),
    ),
    "D27": Attack(
        what="adds in any order without saying so",
        layers=(Layer.REPEAT,),
        cuda=_light("race undeclared_atomics"),
        cpu=_cpu("order_of_tasks"),
    ),
    "D28": Attack(what="never ends", layers=(Layer.DEADLINE,), cuda=_light("hang"), cpu=_cpu("endless_loop")),
    "D29": Attack(
        what="waits for what never comes",
        layers=(Layer.DEADLINE,),
        cuda=_light("waits_for_blocks"),
        cpu=_cpu("waits_for_a_task"),
    ),
    "D30": Attack(what="stops with a trap", layers=(Layer.SEAL,), cuda=_light("trap"), cpu=_cpu("trap")),
    "D31": Attack(
        what="uses an address that is nobody's",
        layers=(Layer.FENCE,),
        cuda=_light("read_far"),
        cpu=_cpu("wild_pointer") + _forms("contract", "null_jump"),
    ),
    "D32": Attack(
        what="misaligns an access or a tensor map",
        layers=(Layer.SCREEN, Layer.LAUNCH),
        cuda=_light("misaligned_map_box misaligned_map_stride misaligned_vector misaligned_tile"),
        cpu=_cpu("misaligned_vector"),
        without_first=("tests/evaluator/test_cuda_layout.py::test_a_refused_tensor_map_is_a_launch_error",),
    ),
    "D33": Attack(
        what="floods or forges output",
        layers=(Layer.GATE, Layer.SEAL),
        cuda=_light("printf_flood assertion"),
        cpu=_cpu("print_result write_result"),
        without_first=WITHOUT_GATE,
    ),
    "D34": Attack(
        what="takes giant static memory",
        layers=(Layer.COMPILER, Layer.GATE),
        cuda=_light("giant_table device_variable huge_workspace huge_stack"),
        cpu=_cpu("static_gigabyte constant_gigabyte"),
        without_first=("tests/evaluator/test_cuda_gate.py::test_a_huge_cubin_is_refused",),
    ),
    "D35": Attack(
        what="asks for more shared memory than there is",
        layers=(Layer.SCREEN, Layer.GATE, Layer.LAUNCH),
        cuda=_light("oversize_shared oversize_static_shared shared_together"),
        cpu=_cpu("huge_frame"),
        without_first=("tests/evaluator/test_cuda_layout.py::test_a_refused_launch_says_what_it_asked_for",),
    ),
    "D36": Attack(
        what="lets what follows start before the work is done",
        layers=(Layer.FORMAT, Layer.GATE),
        cuda=_light("launch_dependents programmatic_launch own_stream"),
        without_first=("tests/evaluator/test_cuda_gate.py::test_early_dependent_launch_is_refused",),
    ),
    "D37": Attack(
        what="reads a clock or its multiprocessor to tell checking from timing",
        layers=(Layer.GATE, Layer.SEAL, Layer.TIMED),
        cuda=_light("clock64 assembly_clock global_timer launch_number driver_register sniffs_multiprocessor"),
        cpu=_cpu("clock hidden_clock"),
        without_first=WITHOUT_GATE,
    ),
    "D38": Attack(
        what="keeps inputs in the cache for the next execution",
        layers=(Layer.FLUSH, Layer.TIMED),
        shown_by=(
            "tests/gpu/test_cuda_cheats.py::test_a_hint_to_keep_data_in_the_cache_gains_nothing",
            "tests/evaluator/test_timing.py::test_contents_and_poisons_change_all_the_time",
        ),
        without_first=("tests/evaluator/test_timing.py::test_output_kept_from_an_earlier_execution_is_caught",),
        harmless=True,
    ),
    "D39": Attack(
        what="includes secrets of the machine",
        layers=(Layer.COMPILER, Layer.LOG),
        cuda=_light("secret_file host_header"),
        cpu=_cpu("line_directive read_environment"),
        shown_by=("tests/cheats/test_attention_cheats.py::test_the_machine_stays_secret",),
        without_first=("tests/evaluator/test_log_hygiene.py::test_foreign_text_never_shows",),
    ),
    "D40": Attack(
        what="is a compile bomb",
        layers=(Layer.COMPILER,),
        cuda=("tests/evaluator/test_nvrtc.py::test_a_compile_bomb_meets_its_limit",),
        cpu=_cpu("template_bomb"),
    ),
    "D41": Attack(
        what="injects an entry point by assembly",
        layers=(Layer.GATE,),
        cuda=_light("injected_entry undeclared_entry mangled_kernel"),
        cpu=_cpu("init_array indirect_function constructor"),
    ),
    "D42": Attack(
        what="forges a text of the log",
        layers=(Layer.LOG,),
        cuda=_light("forged_log"),
        cpu=_cpu("forged_log escapes_in_source"),
    ),
    "D43": Attack(
        what="reads what an earlier execution or process left in memory",
        layers=(Layer.POISON, Layer.TIMED),
        shown_by=(
            "tests/cheats/test_attention_honest.py::test_a_right_kernel_is_called_right",
            "tests/gpu/test_cuda_cheats.py::test_what_depends_on_the_gpu_is_right_or_caught",
            "tests/evaluator/test_cuda_side.py::test_nothing_is_left_in_memory_that_is_handed_out_again",
        ),
        without_first=WITHOUT_POISON,
        harmless=True,
    ),
    "D44": Attack(
        what="has a plan that doesn't do the work, or can't be launched",
        layers=(Layer.SCREEN, Layer.POISON, Layer.LAUNCH),
        cuda=_light(
            "tiny_grid cluster_of_16 cluster_of_32 cluster_not_dividing huge_grid tall_grid huge_block launch_bounds "
            "cluster_compiled_in cooperative_too_large output_left_out no_launch_applies"
        )
        + _gpu("tiny_grid"),
        cpu=_cpu("tiny_grid many_tasks huge_grid output_left_out no_launch_applies"),
        without_first=("tests/evaluator/test_cuda_layout.py::test_a_refused_launch_says_what_it_asked_for",),
    ),
    "D45": Attack(
        what="copies the answer of the baseline or of the reference",
        layers=(Layer.APART, Layer.FENCE),
        cuda=_light("looks_for_another_answer"),
        cpu=_cpu("looks_for_another_answer"),
        shown_by=("tests/cheats/test_apart.py::test_a_candidates_process_maps_no_answer",),
    ),
    "D46": Attack(
        what="slows the baseline down",
        layers=(Layer.APART, Layer.SEAL, Layer.DEADLINE),
        cuda=_light("hang device_launch"),
        cpu=_cpu("spins_after_done silenced_host forged_done hidden_system_call"),
        shown_by=(
            "tests/cheats/test_attention_cheats.py::test_a_task_that_takes_the_hosts_place_is_caught_while_it_is_timed",
            "tests/cheats/test_apart.py::test_a_candidate_rests_while_the_baseline_runs",
        ),
        without_first=("tests/evaluator/test_timing.py::test_what_the_audit_finds_after_the_race_counts",),
    ),
}

HOST_PAYLOADS = (HOST_CODE, KEYS)
"""What host programs cheat with (streams, threads, patched timers, graphs, files) has no place in a candidate."""

PLAIN_MISTAKES = ("light:nan_output", "light:infinite_output")
"""Candidates that are wrong without gaining anything by it, so that no attack is named after them."""


def verdicts(form: str) -> frozenset[Verdict]:
    """The verdicts that a candidate of a pack may get; KeyError for one that no table of cases holds."""
    pack, name = form.split(":")
    if pack == "cpu":
        return frozenset({test_attention_cheats.CASES[name][0]})
    if pack == "contract":
        return frozenset({test_cpu_cheats.CASES[name][0]})
    if pack == "gpu":
        return frozenset(cuda_cases.ATTENTION[name])
    return frozenset({cuda_cases.OFFLINE[name][0]} if name in cuda_cases.OFFLINE else cuda_cases.ON_DEVICE[name])
