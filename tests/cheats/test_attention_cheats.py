"""Every bad candidate of attention_forward gets its verdict and one helpful message from the whole harness, leaves nothing
behind, tells nothing, and doesn't hurt the next good kernel."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from evaluator.outcome import Effort, Outcome, Stage, Verdict
from tests.cheats.attention_session import FOLDER, GOOD, RIGHT, Watched, bad_source, read_source, text_of
from tests.cheats.test_cpu_cheats import host_offsets
from tests.cheats.variants import CPU

MOST_CHARACTERS = 600
Cases = Mapping[str, tuple[Verdict, str]]
PLAN: Cases = {
    "empty": (Verdict.PLAN_ERROR, "the source has no plan; begin it with a comment"),
    "no_plan": (Verdict.PLAN_ERROR, "the source has no plan; begin it with a comment"),
    "unknown_tensor": (Verdict.PLAN_ERROR, "unknown name `logsumexp`; the names are b, sq"),
    "zero_division": (Verdict.PLAN_ERROR, "division by zero in `sq // (h - h)` with h = 4, sq = 21 (scenario grouped_causal)"),
    "huge_grid": (Verdict.PLAN_ERROR, "a value beyond 64 bits"),
    "many_tasks": (Verdict.PLAN_ERROR, "at most 2147483647 are allowed"),
    "giant_plan": (Verdict.PLAN_ERROR, "at most 16384 are allowed"),
    "output_left_out": (Verdict.PLAN_ERROR, "pass it to the kernel that writes it"),
    "no_scenario": (Verdict.UNSUPPORTED, "holds in none of the 3 scenarios"),
    "no_launch_applies": (Verdict.PLAN_ERROR, "no launch applies in scenario window"),
    "not_utf8": (Verdict.PLAN_ERROR, "isn't valid UTF-8; save the file as UTF-8"),
    "nul_byte": (Verdict.PLAN_ERROR, "a NUL byte; a source is plain text"),
}
COMPILE: Cases = {
    "compile_error": (Verdict.COMPILE_ERROR, "was not declared in this scope; the line reads: static_cast<float*>(args[3])"),
    "bad_instruction": (Verdict.COMPILE_ERROR, "no such instruction: `frobnicate"),
    "line_directive": (Verdict.COMPILE_ERROR, "isn't the candidate's (by #include, #line or .include)"),
    "escapes_in_source": (Verdict.COMPILE_ERROR, "static assertion failed"),
    "forged_log": (Verdict.COMPILE_ERROR, 'the line reads: static_assert(sizeof(int) == 1, "\\n=== all tests passed'),
    "template_bomb": (Verdict.COMPILE_LIMIT, "fewer template levels"),
    "constant_gigabyte": (Verdict.COMPILE_LIMIT, "smaller constant tables"),
}
GATE: Cases = {
    "wrong_kernel_name": (Verdict.GATE_VIOLATION, "launches 'attention_forward', but the source exports attention"),
    "static_gigabyte": (Verdict.GATE_VIOLATION, "1073741824 bytes of writable memory (table)"),
    "device_cache": (Verdict.GATE_VIOLATION, "bytes of writable memory (cached, known)"),
    "thread_local_data": (Verdict.GATE_VIOLATION, "thread-local data; keep state in local variables"),
    "constructor": (Verdict.GATE_VIOLATION, "would run when the library is loaded"),
    "init_array": (Verdict.GATE_VIOLATION, "would run when the library is loaded"),
    "indirect_function": (Verdict.GATE_VIOLATION, "indirect function (IFUNC)"),
    "abort_call": (Verdict.GATE_VIOLATION, "calls abort; only exp2f"),
    "heap": (Verdict.GATE_VIOLATION, "takes memory from the heap"),
    "read_environment": (Verdict.GATE_VIOLATION, "calls getenv"),
    "print_result": (Verdict.GATE_VIOLATION, "calls puts"),
    "write_result": (Verdict.GATE_VIOLATION, "calls write"),
    "system_call": (Verdict.GATE_VIOLATION, "attention contains the instruction syscall"),
    "clock": (Verdict.GATE_VIOLATION, "attention contains the instruction rdtsc, which reads a clock"),
}
SEAL: Cases = {
    "hidden_system_call": (Verdict.SANDBOX, "made system call 1; a kernel may make none"),
    "hidden_clock": (Verdict.SANDBOX, "read a clock (rdtsc)"),
    "flush_to_zero": (Verdict.SANDBOX, "floating-point control state"),
    "rounding_mode": (Verdict.SANDBOX, "floating-point control state"),
    "forged_done": (Verdict.SANDBOX, " kernel "),
    "silenced_host": (Verdict.SANDBOX, "made a forbidden system call; it may make none"),
    "spins_after_done": (Verdict.SANDBOX, "ms outside its timed window. A kernel returns when all is done"),
}
CRASH: Cases = {
    "endless_loop": (Verdict.TIMEOUT, "Not done after 1.5 s. Look for a loop that can't end"),
    "waits_for_a_task": (Verdict.TIMEOUT, "tasks that wait for one another"),
    "trap": (Verdict.CRASH, "attention, task 3 reached an instruction that does not exist"),
    "huge_frame": (Verdict.CRASH, "overflowed its stack; a worker has 1 MiB"),
    "endless_recursion": (Verdict.CRASH, "overflowed its stack; a worker has 1 MiB"),
    "wild_pointer": (Verdict.CRASH, "belongs to no buffer. Check the index arithmetic"),
    "misaligned_vector": (Verdict.CRASH, "misaligned"),
    "missing_argument": (Verdict.LAUNCH_ERROR, "reads args[12], but the plan passes 12 arguments"),
    "scalar_as_tensor": (Verdict.LAUNCH_ERROR, "a scalar argument as if it were a tensor"),
    "shifted_arguments": (Verdict.INPUT_MUTATED, "wrote into the input 'v', args[3]"),
    "write_input": (Verdict.INPUT_MUTATED, "wrote into the input 'v', args[2]; inputs are read-only"),
    "write_past_end": (Verdict.OUT_OF_BOUNDS, "wrote right past the end of 'out' (21504 bytes), args[3]"),
    "write_one_past_end": (Verdict.OUT_OF_BOUNDS, "wrote right past the end of 'lse'"),
    "looks_for_another_answer": (Verdict.CRASH, "belongs to no buffer"),
    "write_before_start": (Verdict.OUT_OF_BOUNDS, "wrote 4 bytes before the start of 'lse'"),
    "read_past_end": (Verdict.OUT_OF_BOUNDS, "bytes past the end of 'k' (18944 bytes), args[1]"),
}
MEMORY: Cases = {
    "tiny_grid": (Verdict.STALE_OUTPUT, "Write every element"),
    "writes_nothing": (Verdict.STALE_OUTPUT, "out differs with the same inputs over different memory contents in 5376 of 5376"),
    "half_the_rows": (Verdict.STALE_OUTPUT, "first at b=0, sq=1, h=0, d=0. Write every element"),
    "leaves_lse": (Verdict.STALE_OUTPUT, "lse differs with the same inputs over different memory contents in 168 of 168"),
    "accumulates": (Verdict.STALE_OUTPUT, "the result depends on what was in memory before"),
    "reads_workspace": (Verdict.STALE_OUTPUT, "every workspace element before it is read"),
    "keeps_a_flag": (Verdict.STALE_OUTPUT, "'memory' is declared self_resetting but isn't zero"),
    "remembers_on_stack": (Verdict.NONDETERMINISTIC, "out differs with the same inputs again"),
    "order_of_tasks": (Verdict.NONDETERMINISTIC, "say nondeterministic = true in the plan"),
    "race": (Verdict.NONDETERMINISTIC, "Look for a race"),
}
WRONG: Cases = {
    "all_zeros": (Verdict.WRONG, "5376 of 5376 elements are wrong"),
    "half_the_keys": (Verdict.WRONG, "Compare the loop bounds"),
    "first_tile": (Verdict.WRONG, "Compare the loop bounds"),
    "sees_early_keys": (Verdict.WRONG, "sq 16..20"),
    "wrong_scale": (Verdict.WRONG, "out on blended inputs: first wrong at b=0, sq=0"),
    "causal_off_by_one": (Verdict.WRONG, "the mask"),
    "causal_top_left": (Verdict.WRONG, "the mask"),
    "window_off_by_one": (Verdict.WRONG, "sq 40..149"),
    "wrong_head_map": (Verdict.WRONG, "the head map"),
    "no_maximum": (Verdict.NONFINITE, "Subtract the row's largest score"),
    "garbage_row": (Verdict.NONFINITE, "treat fully masked rows as the contract says"),
    "wrong_lse": (Verdict.WRONG, "lse on blended inputs"),
    "mean_of_v": (Verdict.WRONG, "elements are wrong"),
    "copy_of_v": (Verdict.WRONG, "elements are wrong"),
    "bf16_inputs": (Verdict.WRONG, "error allowed there"),
    "half_inputs": (Verdict.WRONG, "error allowed there"),
    "tf32_weights": (Verdict.WRONG, "error allowed there"),
    "sniffs_first_tile": (Verdict.WRONG, "out on blended inputs"),
    "sometimes_wrong": (Verdict.WRONG, "elements are wrong"),
    "mean_of_all_v": (Verdict.WRONG, "elements are wrong"),
    "copy_of_q": (Verdict.WRONG, "elements are wrong"),
    "ignores_last_tile": (Verdict.WRONG, "elements are wrong"),
    "unmasked_corner": (Verdict.WRONG, "sq=0, h="),
    "half_totals": (Verdict.WRONG, "error allowed there"),
}
GROUPS = {"plan": PLAN, "compile": COMPILE, "gate": GATE, "seal": SEAL, "crash": CRASH, "memory": MEMORY, "wrong": WRONG}
CASES = {name: case for group in GROUPS.values() for name, case in group.items()}
BY_FINAL_ONLY, BY_TIMING_ONLY, BY_ADDRESS = "knows_the_shapes", "takes_over", "sniffs_address"
UNFINISHED = {Verdict.SANDBOX, Verdict.WRONG, Verdict.NONFINITE}
STEPS = [step for group, cases in GROUPS.items() for step in (*cases, f"then_a_good_kernel_{group}")]
OUR_OWN = "only its own and the system's headers may be read"
SPELLINGS = {
    "absolute": '#include "{path}"',
    "angle": "#include <{path}>",
    "relative": '#include "{up}{path}"',
    "through_system_folder": '#include "/usr/include/../..{path}"',
    "macro": '#define WHERE "{path}"\n#include WHERE',
    "digraph": '%:include "{path}"',
    "spliced": '#inc\\\nlude "{path}"',
    "comment_inside": '#/* */include/* */"{path}"',
    "import": '#import "{path}"',
    "include_next": '#include_next "{path}"',
    "asks_whether_it_is_there": '#if __has_include("{path}")\n#error it is there\n#endif',
    "dependency": '#pragma GCC dependency "{path}"',
    "dependency_operator": '_Pragma("GCC dependency \\"{path}\\"")',
    "incbin": 'asm(".incbin \\"{path}\\"");',
    "incbin_in_two": 'asm(".inc" "bin \\"{path}\\"");',
    "incbin_by_macro": 'asm(".macro get what\\n.incbin \\"\\\\what\\"\\n.endm\\nget {path}");',
    "incbin_relative": 'asm(".incbin \\"{up}{path}\\"");',
    "assembler_include": 'asm(".include \\"{path}\\"");',
    "incbin_in_function": 'void get() {{ asm volatile(".include \\"{path}\\""); }}',
}


def check_message(outcome: Outcome, words: str) -> None:
    assert words in outcome.message
    assert outcome.message.isprintable()
    assert 20 < len(outcome.message) <= MOST_CHARACTERS
    assert outcome.fault is not None
    assert outcome.fault.message == outcome.message
    assert "Traceback" not in outcome.fault.detail
    assert outcome.fitness is None


def source_of(watched: Watched, name: str) -> str:
    source = bad_source(name)
    if "HOST_OFFSET" in source:
        offsets = host_offsets(watched.folder / "cache")
        end = source.index("*/\n") + 3
        source = source[:end] + "".join(f"#define {key} {value}\n" for key, value in offsets.items()) + source[end:]
    return source


@pytest.mark.parametrize("step", STEPS)
def test_bad_candidates_and_a_good_one_after_each_group(watched: Watched, step: str) -> None:
    if step.startswith("then_a_good_kernel"):
        good = watched.evaluate(read_source(GOOD))
        assert good.verdict in RIGHT, good.message
        return
    verdict, words = CASES[step]
    outcome = watched.evaluate(source_of(watched, step))
    assert outcome.verdict is verdict, outcome.message
    check_message(outcome, words)


def test_a_kernel_that_knows_the_shapes_meets_hidden_ones_in_a_final(watched: Watched) -> None:
    source = source_of(watched, BY_FINAL_ONLY)
    assert watched.evaluate(source).verdict in RIGHT
    outcome = watched.evaluate(source, Effort.FINAL)
    assert outcome.verdict is Verdict.WRONG
    check_message(outcome, "got 0, expected")
    assert outcome.fault is not None
    assert str(outcome.fault.scenario).startswith("hidden")


def test_a_task_that_takes_the_hosts_place_is_caught_while_it_is_timed(watched: Watched) -> None:
    outcome = watched.evaluate(source_of(watched, BY_TIMING_ONLY))
    assert outcome.stage is Stage.TIME, outcome.message
    assert outcome.verdict in UNFINISHED
    check_message(outcome, "")
    assert watched.evaluate(read_source(GOOD)).verdict in RIGHT


def test_a_kernel_that_looks_at_its_addresses_is_caught_wherever_they_are(watched: Watched) -> None:
    outcome = watched.evaluate(source_of(watched, BY_ADDRESS))
    assert outcome.verdict in {Verdict.WRONG, Verdict.STALE_OUTPUT, Verdict.NONDETERMINISTIC}
    check_message(outcome, "")


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_file_stays_secret(watched: Watched, tmp_path: Path, spelling: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2 = launch(hunter3);\n#error hunter4\n.error hunter5\n")
    line = SPELLINGS[spelling].format(path=secret, up="../" * 16)
    plan, _, code = read_source(GOOD).partition("*/\n")
    outcome = watched.evaluate(f"{plan}*/\n{line}\n{code}")
    assert outcome.verdict is Verdict.COMPILE_ERROR, outcome.message
    check_message(outcome, OUR_OWN)
    assert "hunter" not in text_of(outcome)
    assert str(tmp_path) not in text_of(outcome).replace(str(secret), "")


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/self/cmdline", "/proc/self/maps", "/proc/1/environ", "/etc/passwd"]
)
@pytest.mark.parametrize("line", ['#include "{path}"', 'asm(".incbin \\"{path}\\"");'])
def test_the_machine_stays_secret(watched: Watched, line: str, path: str) -> None:
    plan, _, code = read_source(GOOD).partition("*/\n")
    outcome = watched.evaluate(f"{plan}*/\n{line.format(path=path)}\n{code}")
    assert outcome.verdict is Verdict.COMPILE_ERROR, outcome.message
    check_message(outcome, OUR_OWN)
    assert "root:" not in text_of(outcome)


def test_every_candidate_is_tried() -> None:
    assert {path.stem for path in FOLDER.glob("*.cpp")} | set(CPU) == set(CASES) | {BY_FINAL_ONLY, BY_TIMING_ONLY, BY_ADDRESS}
