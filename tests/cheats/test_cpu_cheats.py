"""Every bad candidate gives its verdict and one helpful message, leaves nothing behind, and does not hurt the next one."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from elftools.elf.elffile import ELFFile

from evaluator.backend import Build, Program, Ran
from evaluator.cache import BuildCache
from evaluator.cpu.backend import CpuBackend
from evaluator.cpu.build import host_program
from evaluator.outcome import Fault, Verdict
from evaluator.plan.resolved import Buffer, Resolved
from evaluator.sandbox import Limits
from tests.contracts import vector_scale
from tests.evaluator.test_cpu_contract import SOURCE

FOLDER = Path(__file__).parent / "cpu"
DEADLINE_S = 0.4
LIMITS = Limits(cpu_s=3, wall_s=10.0, memory_bytes=1 << 30, file_bytes=64 << 20)
CASES = {
    "compile_error": (Verdict.COMPILE_ERROR, "undeclared"),
    "template_bomb": (Verdict.COMPILE_LIMIT, "fewer template levels"),
    "huge_constant": (Verdict.COMPILE_LIMIT, "smaller constant tables"),
    "endless_constexpr": (Verdict.COMPILE_ERROR, "constexpr"),
    "static_array": (Verdict.GATE_VIOLATION, "1073741824 bytes of writable memory (big)"),
    "constructor": (Verdict.GATE_VIOLATION, "when the library is loaded"),
    "initialised_global": (Verdict.GATE_VIOLATION, "when the library is loaded"),
    "init_function": (Verdict.GATE_VIOLATION, "when the library is loaded"),
    "indirect_function": (Verdict.GATE_VIOLATION, "IFUNC"),
    "thread_local_data": (Verdict.GATE_VIOLATION, "thread-local"),
    "executable_stack": (Verdict.GATE_VIOLATION, "executable"),
    "abort_call": (Verdict.GATE_VIOLATION, "calls abort"),
    "heap": (Verdict.GATE_VIOLATION, "takes memory from the heap"),
    "print_result": (Verdict.GATE_VIOLATION, "calls puts"),
    "fork_call": (Verdict.GATE_VIOLATION, "calls fork"),
    "plain_clock": (Verdict.GATE_VIOLATION, "scale contains the instruction rdtsc"),
    "plain_system_call": (Verdict.GATE_VIOLATION, "scale contains the instruction syscall"),
    "trap": (Verdict.CRASH, "scale, task 3 reached an instruction that does not exist"),
    "divide": (Verdict.CRASH, "divided an integer by zero"),
    "endless_loop": (Verdict.TIMEOUT, "loop that can't end"),
    "past_end": (Verdict.OUT_OF_BOUNDS, "past the end of 'y' (4000 bytes)"),
    "just_past_end": (Verdict.OUT_OF_BOUNDS, "right past the end of 'y'"),
    "before_start": (Verdict.OUT_OF_BOUNDS, "wrote 8000 bytes before the start of 'y'"),
    "just_before_start": (Verdict.OUT_OF_BOUNDS, "bytes before the start of 'y'"),
    "read_past_end": (Verdict.OUT_OF_BOUNDS, "past the end of 'x'"),
    "write_input": (Verdict.INPUT_MUTATED, "wrote into the input 'x'"),
    "more_arguments": (Verdict.LAUNCH_ERROR, "reads args[5], but the plan passes 5 arguments"),
    "write_arguments": (Verdict.OUT_OF_BOUNDS, "argument array"),
    "wild_pointer": (Verdict.CRASH, "belongs to no buffer"),
    "null_jump": (Verdict.CRASH, "belongs to no buffer"),
    "deep_recursion": (Verdict.CRASH, "overflowed its stack"),
    "huge_frame": (Verdict.CRASH, "overflowed its stack"),
    "flush_to_zero": (Verdict.SANDBOX, "floating-point control state"),
    "hidden_system_call": (Verdict.SANDBOX, "made system call 41"),
    "hidden_fork": (Verdict.SANDBOX, "made system call 57"),
    "hidden_write": (Verdict.SANDBOX, "made system call 1;"),
    "hidden_old_system_call": (Verdict.SANDBOX, "system call"),
    "hidden_clock": (Verdict.SANDBOX, "read a clock (rdtsc)"),
    "hidden_clock_p": (Verdict.SANDBOX, "read a clock (rdtscp)"),
}


CHEATS = {
    "static_array", "thread_local_data", "plain_clock", "plain_system_call", "write_input", "flush_to_zero",
    "hidden_system_call", "hidden_fork", "hidden_write", "hidden_old_system_call", "hidden_clock", "hidden_clock_p",
}  # fmt: skip
"""Those that tell of cheating rather than of a mistake."""


def plan() -> Resolved:
    return vector_scale.resolved(workspaces=(Buffer(name="w", role="workspace", dtype="float32", shape=(100,)),))


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CpuBackend]:
    backend = CpuBackend(tmp_path_factory.mktemp("cache"), threads=2, compile_limits=LIMITS)
    yield backend
    backend.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def children() -> set[int]:
    """Processes that this one started and that haven't been reaped."""
    return {process.pid for process in psutil.Process().children()}


def evaluate(backend: CpuBackend, source: str, resolved: Resolved) -> Fault | None:
    """Build, gate, run twice, audit; the first fault on the way. Whatever happens, no process and no descriptor stays."""
    before, alive = descriptors(), children()
    build = backend.build(source, resolved)
    fault = build if isinstance(build, Fault) else backend.gate(build, resolved)
    if fault is None:
        assert isinstance(build, Build)
        fault = run(backend, build, resolved)
    assert children() <= alive
    assert descriptors() == before
    return fault


def run(backend: CpuBackend, build: Build, resolved: Resolved) -> Fault | None:
    program = Program(candidate_id="bad", scenario=vector_scale.scenario(), build=build, resolved=resolved)
    side = backend.start(program, 2)
    if isinstance(side, Fault):
        return side
    try:
        for slot in range(2):
            side.fill(slot, vector_scale.inputs(seed=slot), slot)
        ran = side.run([0, 1], DEADLINE_S)
        if isinstance(ran, Fault):
            return ran
        for slot in range(2):
            expected = vector_scale.expected(vector_scale.inputs(seed=slot))
            np.testing.assert_array_equal(side.read(slot)["y"][1:], expected[1:]) if "RIGHT" in resolved.defines else None
        return side.audit()
    finally:
        side.close()


@pytest.mark.parametrize("name", CASES)
def test_bad_candidate(backend: CpuBackend, name: str) -> None:
    verdict, words = CASES[name]
    fault = evaluate(backend, (FOLDER / f"{name}.cpp").read_text(), plan())
    assert fault is not None
    assert fault.verdict is verdict, fault
    assert words in fault.message
    assert len(fault.message) < 400
    assert bool(fault.cheats) is (name in CHEATS)


def test_every_bad_candidate_is_tried() -> None:
    special = {"forged_done"}
    assert {path.stem for path in FOLDER.glob("*.cpp")} == set(CASES) | special


def test_a_good_kernel_runs_after_a_bad_one(backend: CpuBackend) -> None:
    for name in ("past_end", "endless_loop", "hidden_system_call"):
        evaluate(backend, (FOLDER / f"{name}.cpp").read_text(), plan())
        right = replace(vector_scale.resolved(), defines={"BLOCK": "64", "RIGHT": "1"})
        assert evaluate(backend, SOURCE, right) is None


@pytest.mark.parametrize(
    "line", ['#include "{secret}"', 'asm(".incbin \\"{secret}\\"");', 'asm(".include \\"{secret}\\"");', "#embed <{secret}>"]
)
def test_a_secret_file_stays_secret(backend: CpuBackend, tmp_path: Path, line: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2 hunter3\n")
    source = line.replace("{secret}", str(secret)) + "\n" + SOURCE
    fault = evaluate(backend, source, plan())
    assert fault is not None
    assert fault.verdict is Verdict.COMPILE_ERROR
    assert "hunter" not in fault.message + fault.detail


def test_the_environment_stays_secret(backend: CpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKEVOLVE_TEST_SECRET", "hunter2")
    fault = evaluate(backend, '#include "/proc/self/environ"\n' + SOURCE, plan())
    assert fault is not None
    assert "hunter" not in fault.message + fault.detail
    assert os.environ["ASKEVOLVE_TEST_SECRET"] == "hunter2"


def host_offsets(cache: Path) -> dict[str, str]:
    """Where the host keeps what a forger needs, seen from ``host_call``; the figures follow host/workers.h."""
    with host_program(BuildCache(cache)).open("rb") as file:
        table = {symbol.name: symbol["st_value"] for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols()}
    return {"HOST_OFFSET": str(table["host"] - table["host_call"]), "COMMAND_OFFSET": "592", "PIPE_OFFSET": "564"}


@pytest.mark.parametrize(("spins", "words"), [("20000000", "outside its timed window"), ("1", "reported out of turn")])
def test_a_forged_done_is_noticed(backend: CpuBackend, tmp_path: Path, spins: str, words: str) -> None:
    resolved = replace(plan(), defines={"BLOCK": "64", "SPINS": spins, **host_offsets(tmp_path)})
    build = backend.build((FOLDER / "forged_done.cpp").read_text(), resolved)
    assert isinstance(build, Build), build
    program = Program(candidate_id="forger", scenario=vector_scale.scenario(), build=build, resolved=resolved)
    side = backend.start(program, 1)
    assert not isinstance(side, Fault)
    side.fill(0, vector_scale.inputs(), 1)
    assert isinstance(side.run([0], 5.0), Ran)
    time.sleep(0.1)
    fault = side.audit()
    side.close()
    assert fault is not None
    assert fault.verdict is Verdict.SANDBOX
    assert words in fault.message
