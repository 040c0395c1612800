"""A candidate's process holds its inputs, its own outputs and no answer to copy, and it rests while others are timed."""

import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from evaluator.backend import Build, Program, Ran, Side
from evaluator.cpu.backend import CpuBackend
from evaluator.cpu.side import CandidateSide
from evaluator.outcome import Fault
from tests.contracts import vector_scale
from tests.evaluator.test_cpu_contract import SOURCE

READABLE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r\S+ \S+ \S+ \S+ *(.*)$", re.MULTILINE)


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[CandidateSide, Side]]:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "baselines.py").write_text(vector_scale.BASELINES)
    backend = CpuBackend(tmp_path / "cache", threads=1)
    plan = vector_scale.resolved()
    build = backend.build(SOURCE, plan)
    assert isinstance(build, Build)
    candidate = backend.start(Program(candidate_id="c", scenario=vector_scale.scenario(), build=build, resolved=plan), 1)
    baseline = backend.start_baseline(tmp_path / "task", "plain", plan, vector_scale.scenario(), 1)
    assert isinstance(candidate, CandidateSide)
    assert not isinstance(baseline, Fault)
    yield candidate, baseline
    candidate.close()
    baseline.close()
    backend.close()


def memory_of(pid: int) -> bytes:
    """All that a process can read."""
    pieces = []
    with Path(f"/proc/{pid}/mem").open("rb") as memory:
        for start, end, name in READABLE.findall(Path(f"/proc/{pid}/maps").read_text()):
            if name not in ("[vvar]", "[vvar_vclock]", "[vsyscall]"):
                memory.seek(int(start, 16))
                pieces.append(memory.read(int(end, 16) - int(start, 16)))
    return b"".join(pieces)


def test_a_candidates_process_maps_no_answer(sides: tuple[CandidateSide, Side]) -> None:
    candidate, baseline = sides
    given = vector_scale.inputs()
    answer = vector_scale.expected(given).tobytes()
    for side in sides:
        side.fill(0, given, 1)
    assert isinstance(baseline.run([0], 20.0), Ran)
    assert baseline.read(0)["y"].tobytes() == answer
    before = memory_of(candidate.pid)
    assert given["x"].tobytes() in before
    assert answer[:64] not in before
    assert isinstance(candidate.run([0], 20.0), Ran)
    assert answer in memory_of(candidate.pid)


def test_a_candidate_rests_while_the_baseline_runs(sides: tuple[CandidateSide, Side]) -> None:
    candidate, baseline = sides
    for side in sides:
        side.fill(0, vector_scale.inputs(), 1)
    assert isinstance(candidate.run([0], 20.0), Ran)
    process = psutil.Process(candidate.pid)
    switches = process.num_ctx_switches()
    assert isinstance(baseline.run([0], 20.0), Ran)
    assert process.status() == psutil.STATUS_SLEEPING
    assert process.num_ctx_switches() == switches
    assert candidate.audit() is None
