"""The sanitizer's runner against a stand-in for compute-sanitizer: what is asked for, what its output means, time limits."""

import pickle
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("cuda.bindings.driver")

from evaluator.backend import Build, Program
from evaluator.cuda import sanitizer
from evaluator.cuda.replay import Replay
from evaluator.cuda.sanitizer import Inspection, Result, inspect_build, inspect_smallest, judge_output, judged
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.plan.resolved import Resolved
from tests.contracts import vector_scale
from tests.evaluator.tiny_harness import tiny

CLEAN = {
    "memcheck": "========= ERROR SUMMARY: 0 errors",
    "racecheck": "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
}
STRAY = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at scaled+0x1a0
=========     by thread (0,0,0) in block (36,0,0)
=========     Access at 0x7f2a00008d10 is out of bounds
========= ERROR SUMMARY: 1 error
"""
MISALIGNED = STRAY.replace("of size 4", "of size 16").replace("out of bounds", "misaligned")
RACE = """========= Error: Race reported between Write access at scaled+0x270
=========     and Read access at scaled+0x200 [128 hazards]
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
WARNED = RACE.replace("Error:", "Warning:").replace("(1 error, 0 warnings)", "(0 errors, 1 warning)")


def stand_in(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program called compute-sanitizer on PATH."""
    path = folder / "compute-sanitizer"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def inspect(tool: str = "memcheck", limit_s: float = 30.0) -> Inspection:
    return inspect_build(b"cubin", vector_scale.resolved(), vector_scale.inputs(), tool, ordinal=1, limit_s=limit_s)


def test_what_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKEVOLVE_SECRET", "hunter2")
    script = f'echo "$@" > {tmp_path}/arguments; env > {tmp_path}/environment; for last; do :; done; cp "$last" {tmp_path}/file'
    stand_in(tmp_path, f"{script}; echo '{CLEAN['memcheck']}'", monkeypatch)
    assert inspect() == Inspection(tool="memcheck", result=Result.CLEAN)
    arguments = (tmp_path / "arguments").read_text()
    assert arguments.startswith("--tool memcheck --report-api-errors no --error-exitcode 9 ")
    assert " -m evaluator.cuda.replay " in arguments
    assert "hunter2" not in (tmp_path / "environment").read_text()
    replay = pickle.loads((tmp_path / "file").read_bytes())
    assert isinstance(replay, Replay)
    assert (replay.cubin, replay.resolved, replay.ordinal) == (b"cubin", vector_scale.resolved(), 1)
    np.testing.assert_array_equal(replay.inputs["x"], vector_scale.inputs()["x"])


@pytest.mark.parametrize(
    ("tool", "status", "output", "result", "words"),
    [
        ("memcheck", 0, CLEAN["memcheck"], Result.CLEAN, ""),
        ("racecheck", 0, CLEAN["racecheck"], Result.CLEAN, ""),
        ("memcheck", 9, STRAY, Result.FINDINGS, "Invalid __global__ read of size 4 bytes, out of bounds"),
        (
            "memcheck",
            9,
            STRAY + STRAY.replace("d10", "e20"),
            Result.FINDINGS,
            "Invalid __global__ read of size 4 bytes, out of bounds",
        ),
        ("memcheck", 9, MISALIGNED, Result.FINDINGS, "Invalid __global__ read of size 16 bytes, misaligned"),
        ("racecheck", 9, WARNED, Result.CLEAN, ""),
        ("racecheck", 0, WARNED, Result.CLEAN, ""),
        ("memcheck", 9, "========= Program hit an error\n========= ERROR SUMMARY: 1 error", Result.UNAVAILABLE, "1 error"),
        ("racecheck", 9, RACE, Result.FINDINGS, "Write access at scaled+0x270 and read access at scaled+0x200"),
        ("racecheck", 0, RACE, Result.FINDINGS, "Race reported"),
        ("memcheck", 9, "", Result.UNAVAILABLE, "status 9: no output"),
        ("memcheck", 1, "========= Error: Device not supported", Result.UNAVAILABLE, "status 1: Error: Device not supported"),
        ("memcheck", 0, "no summary", Result.UNAVAILABLE, "no summary"),
        ("memcheck", 255, "", Result.UNAVAILABLE, "no output"),
        ("racecheck", None, "", Result.UNAVAILABLE, "not done after 7 s"),
    ],
)
def test_what_the_output_means(tool: str, status: int | None, output: str, result: Result, words: str) -> None:
    found = judge_output(tool, status, output, 7.0)
    assert found.result is result
    assert words in found.detail
    assert found.detail.count("Invalid") <= 1


def test_a_slow_tool_is_ended_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, "sleep 600 & sleep 600", monkeypatch)
    assert inspect(limit_s=0.5).detail == "not done after 0.5 s"


def test_a_host_without_the_tool_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sanitizer, "SYSTEM", tmp_path / "none")
    assert inspect().result is Result.UNAVAILABLE
    assert judged(plan(), inspect) == (
        "stray accesses not checked by memcheck: compute-sanitizer isn't installed",
        "races not checked by racecheck: compute-sanitizer isn't installed",
    )


def plan(nondeterministic: bool = False) -> Resolved:
    return replace(vector_scale.resolved(), scenario="tiny", nondeterministic=nondeterministic)


def said(memcheck: str = CLEAN["memcheck"], racecheck: str = CLEAN["racecheck"]) -> dict[str, Inspection]:
    texts = {"memcheck": memcheck, "racecheck": racecheck}
    return {tool: judge_output(tool, 9 if text not in CLEAN.values() else 0, text, 1.0) for tool, text in texts.items()}


@pytest.mark.parametrize(
    ("memcheck", "racecheck", "verdict", "words"),
    [
        (
            STRAY,
            RACE,
            Verdict.OUT_OF_BOUNDS,
            "memcheck reports in tiny: Invalid __global__ read of size 4 bytes, out of bounds. Check",
        ),
        (MISALIGNED, RACE, Verdict.CRASH, "read of size 16 bytes, misaligned. Align vector loads"),
        (MISALIGNED + STRAY, RACE, Verdict.CRASH, "misaligned"),
        (STRAY + MISALIGNED, RACE, Verdict.OUT_OF_BOUNDS, "out of bounds"),
        (
            CLEAN["memcheck"],
            RACE,
            Verdict.NONDETERMINISTIC,
            "racecheck reports in tiny: Error: Race reported between Write access",
        ),
        ("", RACE, Verdict.NONDETERMINISTIC, "say nondeterministic = true in the plan"),
    ],
)
def test_what_a_tool_finds_is_the_verdict(memcheck: str, racecheck: str, verdict: Verdict, words: str) -> None:
    fault = judged(plan(), said(memcheck, racecheck).__getitem__)
    assert isinstance(fault, Fault)
    assert (fault.verdict, fault.stage, fault.scenario) == (verdict, Stage.CHECK, "tiny")
    assert words in fault.message
    assert fault.detail


def test_races_that_the_plan_declares_are_a_note_and_stray_accesses_are_not() -> None:
    clean, race = judged(plan(nondeterministic=True), said(racecheck=RACE).__getitem__)
    assert clean == "memcheck is clean on tiny"
    assert race.startswith("racecheck reports on tiny, which the plan declares: Error: Race reported")
    assert isinstance(judged(plan(nondeterministic=True), said(memcheck=STRAY).__getitem__), Fault)


def test_warnings_of_racecheck_are_no_verdict() -> None:
    assert judged(plan(), said(racecheck=WARNED).__getitem__) == ("memcheck is clean on tiny", "racecheck is clean on tiny")


def test_a_final_looks_at_its_cheapest_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "artefact").write_bytes(b"cubin")
    stand_in(tmp_path, f"for last; do :; done; cp \"$last\" {tmp_path}/file; echo '{CLEAN['memcheck']}'", monkeypatch)
    task = tiny()
    session = SimpleNamespace(task=task, everyday="normal", work_flop=lambda scenario: task.work(scenario.symbols).flop)
    programs = [
        Program(
            candidate_id="c",
            scenario=scenario,
            build=Build(key="k", path=tmp_path / "artefact"),
            resolved=replace(vector_scale.resolved(), scenario=scenario.name),
        )
        for scenario in reversed(task.card("three").scenarios)
    ]
    notes = inspect_smallest(session, programs, np.random.default_rng(1))  # type: ignore[arg-type]
    assert notes == ("memcheck is clean on n4", "racecheck is clean on n4")
    replay = pickle.loads((tmp_path / "file").read_bytes())
    assert replay.resolved.scenario == "n4"
    assert replay.inputs["x"].shape == (4, 8)
