"""How the CPU backend runs a plan: launches in order, tasks once each, workspaces, slots, processes that die."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from evaluator.backend import Build, Program, Ran, Side
from evaluator.cpu.backend import CpuBackend
from evaluator.cpu.build import foreign_file
from evaluator.cpu.side import CandidateSide
from evaluator.outcome import Fault, Verdict
from evaluator.plan.resolved import Buffer, Resolved
from tests.contracts import vector_scale

HEAD = """
#define KERNEL(name) extern "C" void name(long task, void* const* args)
#define Y static_cast<float*>(args[1])
#define W(i) static_cast<int*>(args[4 + i])
"""
COUNTERS = Buffer(name="counters", role="workspace", dtype="int32", shape=(5000,), init="zero")
ORDER = Buffer(name="order", role="workspace", dtype="int32", shape=(16,), init="zero", self_resetting=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", params=[1, 2, 5])
def backend(request: pytest.FixtureRequest, cache: Path) -> Iterator[CpuBackend]:
    backend = CpuBackend(cache, threads=request.param)
    yield backend
    backend.close()


@pytest.fixture
def start(backend: CpuBackend) -> Iterator[Callable[[str, Resolved, int], CandidateSide]]:
    started: list[Side] = []

    def start(source: str, resolved: Resolved, slots: int = 2) -> CandidateSide:
        build = backend.build(HEAD + source, resolved)
        assert isinstance(build, Build), build
        program = Program(candidate_id="c", scenario=vector_scale.scenario(), build=build, resolved=resolved)
        side = backend.start(program, slots)
        assert isinstance(side, CandidateSide), side
        for slot in range(slots):
            side.fill(slot, vector_scale.inputs(), 1)
        started.append(side)
        return side

    yield start
    for side in started:
        side.close()


Start = Callable[..., CandidateSide]


def test_every_task_runs_exactly_once_in_each_launch(start: Start) -> None:
    source = """
    KERNEL(count) { __atomic_fetch_add(&W(0)[task], 1, __ATOMIC_RELAXED); }
    KERNEL(show) { Y[task] = W(0)[task]; }
    """
    plan = vector_scale.with_kernels(vector_scale.resolved(workspaces=(COUNTERS,)), "count", "count", "count", "show")
    launches = tuple(replace(launch, grid=(10, 25, 4)) for launch in plan.launches)
    side = start(source, replace(plan, launches=launches))
    for _ in range(20):
        assert isinstance(side.run([0, 1, 0], 5.0), Ran)
        for slot in range(2):
            assert (side.read(slot)["y"] == 3).all()
    assert side.audit() is None


def test_the_order_of_tasks_is_shuffled(start: Start) -> None:
    source = """
    KERNEL(scale) { Y[task] = __atomic_fetch_add(&W(0)[0], 1, __ATOMIC_RELAXED); }
    """
    plan = vector_scale.resolved(workspaces=(COUNTERS,))
    side = start(source, replace(plan, launches=(replace(plan.launches[0], grid=(997, 1, 1)),)))
    orders = set()
    for _ in range(6):
        assert isinstance(side.run([0], 5.0), Ran)
        place = side.read(0)["y"][:997]
        assert sorted(place) == list(range(997))
        orders.add(tuple(place))
    assert len(orders) == 6
    assert tuple(float(i) for i in range(997)) not in orders


def test_launches_wait_for_one_another(start: Start) -> None:
    source = """
    KERNEL(slow) { for (volatile int i = 0; i < 2000 * (1 + (int)(task % 7)); i = i + 1) {} W(0)[task] = 1 + task; }
    KERNEL(sum) { int all = 0; for (int i = 0; i < 16; i++) all += W(0)[i]; if (task == 0) Y[0] = all; }
    """
    side = start(source, vector_scale.with_kernels(vector_scale.resolved(workspaces=(COUNTERS,)), "slow", "sum"))
    for _ in range(50):
        assert isinstance(side.run([0], 5.0), Ran)
        assert side.read(0)["y"][0] == 136


def test_a_self_resetting_workspace_starts_at_zero_and_must_end_there(start: Start) -> None:
    plan = vector_scale.resolved(workspaces=(ORDER,))
    good = start("KERNEL(scale) { W(0)[task] += 3; Y[task] = W(0)[task]; W(0)[task] = 0; }", plan)
    for _ in range(3):
        assert isinstance(good.run([0], 5.0), Ran)
    assert good.read(0)["y"][5] == 3
    assert good.audit() is None
    bad = start("KERNEL(scale) { W(0)[task] += 3; }", plan)
    assert isinstance(bad.run([1], 5.0), Ran)
    fault = bad.audit()
    assert fault is not None
    assert fault.verdict is Verdict.STALE_OUTPUT
    assert "'order' is declared self_resetting" in fault.message


def test_poisoned_workspaces_hold_the_pattern(start: Start) -> None:
    scratch = replace(COUNTERS, init="poison", dtype="float32")
    source = "KERNEL(scale) { for (int i = 0; i < 1000; i++) Y[i] = static_cast<float*>(args[4])[i]; }"
    side = start(source, vector_scale.resolved(workspaces=(scratch,)))
    for poison in range(3):
        side.fill(0, vector_scale.inputs(), poison)
        before = side.read(0)["y"].copy()
        assert isinstance(side.run([0], 5.0), Ran)
        np.testing.assert_array_equal(side.read(0)["y"], before)


def test_slots_lie_at_other_addresses_and_buffers_end_at_a_page(start: Start) -> None:
    source = """
    KERNEL(scale) {
        for (int i = 0; i < 2; i++) {
            auto at = reinterpret_cast<unsigned long>(args[i]);
            for (int part = 0; part < 4; part++) Y[4 * i + part] = (at >> (16 * part)) & 0xffff;
        }
    }
    """
    side = start(source, vector_scale.resolved(), slots=3)
    assert isinstance(side.run([0, 1, 2], 5.0), Ran)
    addresses = []
    for slot in range(3):
        parts = side.read(slot)["y"][:8].astype(np.uint64).reshape(2, 4)
        addresses += [int(sum(int(part) << (16 * i) for i, part in enumerate(row))) for row in parts]
    assert len(set(addresses)) == 6
    assert {address % 64 for address in addresses} == {0}
    assert {(address + 4000 + 63) // 64 * 64 % 4096 for address in addresses} == {0}


def test_vector_maths_and_half_precision_are_there(start: Start, backend: CpuBackend) -> None:
    source = """
    #include <cmath>
    KERNEL(scale) {
        auto x = static_cast<const float*>(args[0]);
        for (long i = task * 64; i < task * 64 + 64 && i < 1000; i++) {
            _Float16 half = static_cast<_Float16>(x[i]);
            Y[i] = std::exp(static_cast<float>(half)) + std::log(2.0f) + std::sqrt(std::fmax(x[i], 1.0f));
        }
    }
    """
    plan = replace(vector_scale.resolved(), fast_math=True)
    side = start(source, plan)
    assert isinstance(side.run([0], 5.0), Ran)
    x = vector_scale.inputs()["x"]
    expected = np.exp(x.astype(np.float16).astype(np.float32)) + np.log(np.float32(2)) + np.sqrt(np.maximum(x, 1))
    np.testing.assert_allclose(side.read(0)["y"], expected, rtol=1e-5)


def test_elapsed_time_is_the_parents(cache: Path) -> None:
    ticks = iter(range(0, 10**12, 5_000_000))
    backend = CpuBackend(cache, threads=1, clock_ns=lambda: next(ticks))
    resolved = vector_scale.resolved()
    build = backend.build(HEAD + "KERNEL(scale) { Y[task] = 1; }", resolved)
    assert isinstance(build, Build)
    program = Program(candidate_id="c", scenario=vector_scale.scenario(), build=build, resolved=resolved)
    side = backend.start(program, 1)
    assert not isinstance(side, Fault)
    side.fill(0, vector_scale.inputs(), 0)
    ran = side.run([0], 5.0)
    assert isinstance(ran, Ran)
    assert ran.elapsed_us == 5000.0
    side.close()
    backend.close()


def test_a_process_killed_from_outside_is_our_fault(start: Start) -> None:
    side = start("KERNEL(scale) { for (volatile long i = 0; i < 1000000000; i = i + 1) {} }", vector_scale.resolved())
    os.kill(side.pid, signal.SIGKILL)
    fault = side.run([0], 5.0)
    assert isinstance(fault, Fault)
    assert fault.verdict is Verdict.HARNESS_FAULT
    assert side.run([0], 5.0) is fault
    assert side.audit() is fault


def test_what_the_gate_refuses_is_never_loaded(backend: CpuBackend) -> None:
    resolved = vector_scale.resolved()
    build = backend.build(HEAD + "__attribute__((constructor)) void early() { for (;;) {} } KERNEL(scale) {}", resolved)
    assert isinstance(build, Build)
    program = Program(candidate_id="c", scenario=vector_scale.scenario(), build=build, resolved=resolved)
    fault = backend.start(program, 1)
    assert isinstance(fault, Fault)
    assert fault.verdict is Verdict.GATE_VIOLATION


def test_nothing_outlives_a_killed_parent(cache: Path) -> None:
    script = f"""
import sys, time
from pathlib import Path
from evaluator.backend import Program
from evaluator.cpu.backend import CpuBackend
from tests.contracts import vector_scale
backend = CpuBackend(Path({str(cache)!r}), threads=2)
plan = vector_scale.resolved()
endless = 'extern "C" void scale(long task, void* const* args) {{ for (volatile long i = 0;; i = i + 1) {{}} }}'
build = backend.build(endless, plan)
side = backend.start(Program(candidate_id="c", scenario=vector_scale.scenario(), build=build, resolved=plan), 1)
side.fill(0, vector_scale.inputs(), 0)
print(side.pid, flush=True)
side.run([0], 60.0)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    time.sleep(0.2)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    _, alive = psutil.wait_procs([child], timeout=5)
    assert alive == []


@pytest.mark.parametrize(
    ("listing", "foreign"),
    [
        ("candidate.so: candidate.cpp /usr/include/stdio.h \\\n /usr/lib/gcc/x.h\n", None),
        ("candidate.o: {standard input}\n", None),
        ("candidate.so: candidate.cpp ../../../../home/me/secret\n", "'../../../../home/me/secret'"),
        ("candidate.so: candidate.cpp /srv/a\\ b\n", "'/srv/a b'"),
    ],
)
def test_files_that_the_compiler_read_are_checked(tmp_path: Path, listing: str, foreign: str | None) -> None:
    (tmp_path / "headers.d").write_text(listing)
    assert foreign_file(tmp_path) == foreign


@pytest.mark.parametrize("threads", [0, 65])
def test_a_number_of_threads_that_cannot_be(tmp_path: Path, threads: int) -> None:
    with pytest.raises(ValueError, match="threads"):
        CpuBackend(tmp_path, threads=threads)
