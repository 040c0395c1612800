"""Runs a program once under NVIDIA's compute-sanitizer: memcheck for stray accesses, racecheck for races in shared memory.

Slow (each access is checked), so it is for the smallest scenario of a final and has a time limit. The tool comes with the CUDA
toolkit; output format and options: "Compute Sanitizer" documentation. Not every host lets it attach.
"""

import contextlib
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from evaluator.backend import Array, Program
from evaluator.cuda.replay import Replay
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.plan.resolved import Resolved
from evaluator.session import Session

TOOLS: Mapping[str, tuple[str, ...]] = {"memcheck": ("--report-api-errors", "no"), "racecheck": ()}
"""Each tool with its own options."""
SYSTEM = Path("/usr/local/cuda/bin/compute-sanitizer")
FOUND_STATUS = 9
LIMIT_S = 90.0
DETAIL_CHARACTERS = 400
KEPT_ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_HOME")
SUMMARY = re.compile(r"=========\s*(?:ERROR SUMMARY: (?P<errors>\d+) error|RACECHECK SUMMARY: [^(]*\((?P<hazards>\d+) error)")
FINDING = re.compile(r"^=========\s+(?P<text>(?:Error: Race|Invalid|Misaligned)\b.*)$", re.M)
"""What refutes a kernel. Racecheck's warnings don't: they may be meant, as between threads of one warp."""
ADDRESS = re.compile(r"^=========\s+(?:Access|Address)\b[^\n]*? is (?P<what>[^\n]+)$", re.M)
OTHER = re.compile(r"^=========\s+and (?P<what>\w+ access at \S+)", re.M)
VERDICTS: Mapping[str, tuple[Verdict, str]] = {
    "memcheck": (Verdict.OUT_OF_BOUNDS, "Check bounds where the shape is no multiple of a tile."),
    "racecheck": (
        Verdict.NONDETERMINISTIC,
        "Put a barrier between the two accesses. If the order is meant to be free, say nondeterministic = true in the plan.",
    ),
}
"""The verdict that a tool's findings are, and what to do; a misaligned address is CRASH, as without the tool."""
MISALIGNED = "Align vector loads and TMA targets to the size that they move."


class Result(StrEnum):
    """What a tool said; ``UNAVAILABLE`` also where it ran out of time."""

    CLEAN = "clean"
    FINDINGS = "findings"
    UNAVAILABLE = "not available"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One tool's result, with the first findings or the reason in ``detail``."""

    tool: str
    result: Result
    detail: str = ""


def find_sanitizer() -> Path | None:
    """compute-sanitizer on PATH or of the system's CUDA toolkit."""
    found = shutil.which("compute-sanitizer") or (str(SYSTEM) if SYSTEM.is_file() else None)
    return Path(found) if found else None


def inspect_program(
    program: Program, inputs: Mapping[str, Array], tool: str, *, ordinal: int = 0, limit_s: float = LIMIT_S
) -> Inspection:
    """What ``tool`` finds in one execution of the program on ``inputs`` (host arrays by name)."""
    return inspect_build(program.build.path.read_bytes(), program.resolved, inputs, tool, ordinal=ordinal, limit_s=limit_s)


def inspect_build(
    cubin: bytes, resolved: Resolved, inputs: Mapping[str, Array], tool: str, *, ordinal: int = 0, limit_s: float = LIMIT_S
) -> Inspection:
    """As ``inspect_program``, from a cubin and its plan."""
    sanitizer = find_sanitizer()
    if sanitizer is None:
        return Inspection(tool=tool, result=Result.UNAVAILABLE, detail="compute-sanitizer isn't installed")
    with tempfile.TemporaryDirectory(prefix="askevolve-replay-") as name:
        path = Path(name) / "replay"
        path.write_bytes(pickle.dumps(Replay(cubin=cubin, resolved=resolved, inputs=dict(inputs), ordinal=ordinal)))
        options = ["--tool", tool, *TOOLS[tool], "--error-exitcode", str(FOUND_STATUS), "--print-limit", "20"]
        status, output = run_alone([str(sanitizer), *options, sys.executable, "-m", "evaluator.cuda.replay", str(path)], limit_s)
    return judge_output(tool, status, output, limit_s)


def judge_output(tool: str, status: int | None, output: str, limit_s: float) -> Inspection:
    """The result from exit status (None: out of time) and text; clean only with a summary that says so."""
    if status is None:
        return Inspection(tool=tool, result=Result.UNAVAILABLE, detail=f"not done after {limit_s:g} s")
    summary = SUMMARY.search(output)
    count = int(summary["errors"] or summary["hazards"]) if summary else 0
    if found := _findings(output):
        return Inspection(tool=tool, result=Result.FINDINGS, detail="; ".join(found)[:DETAIL_CHARACTERS])
    finished = (0, FOUND_STATUS) if tool == "racecheck" else (0,)  # which its warnings bring about too
    if summary and not count and status in finished:
        return Inspection(tool=tool, result=Result.CLEAN)
    last = next((line.strip("= \n") for line in reversed(output.splitlines()) if line.strip("= \n")), "no output")
    return Inspection(tool=tool, result=Result.UNAVAILABLE, detail=f"status {status}: {last}"[:DETAIL_CHARACTERS])


def _findings(output: str) -> list[str]:
    """Each finding once, with what the tool says of the address, which itself differs from run to run."""
    starts = [match.start() for match in FINDING.finditer(output)]
    texts = []
    for start, end in zip(starts, [*starts[1:], None], strict=False):
        part = output[start:end]
        text, address = FINDING.search(part), ADDRESS.search(part)
        assert text is not None
        others = dict.fromkeys(match["what"].lower() for match in OTHER.finditer(part))
        known = f", {address['what'].strip()}" if address else "".join(f" and {other}" for other in others)
        texts.append(text["text"].strip() + known)
    return list(dict.fromkeys(texts))


def inspect_smallest(
    session: Session, programs: Sequence[Program], rng: np.random.Generator, *, ordinal: int = 0
) -> tuple[str, ...] | Fault:
    """What the tools say of the cheapest program of a final: the verdict of the first finding, else a note from each tool."""
    program = min(programs, key=lambda each: session.work_flop(each.scenario))
    inputs = session.task.inputs(program.scenario.symbols, session.everyday, rng)
    return judged(program.resolved, lambda tool: inspect_program(program, inputs, tool, ordinal=ordinal))


def judged(resolved: Resolved, look: Callable[[str], Inspection]) -> tuple[str, ...] | Fault:
    """The sentences for each of TOOLS by what ``look`` finds; OUT_OF_BOUNDS, CRASH or NONDETERMINISTIC where it finds something.

    Races of a kernel that declares itself nondeterministic are a note, and so is a tool that couldn't look.
    """
    notes = []
    for tool in TOOLS:
        found = look(tool)
        declared = tool == "racecheck" and resolved.nondeterministic
        if found.result is Result.FINDINGS and not declared:
            return _fault(found, resolved.scenario)
        notes.append(_note(found, resolved.scenario))
    return tuple(notes)


def _fault(found: Inspection, scenario: str) -> Fault:
    verdict, advice = VERDICTS[found.tool]
    if found.tool == "memcheck" and "misaligned" in found.detail.partition(";")[0].lower():
        verdict, advice = Verdict.CRASH, MISALIGNED
    message = f"compute-sanitizer's {found.tool} reports in {scenario}: {found.detail.partition(';')[0]}. {advice}"
    return Fault(verdict=verdict, stage=Stage.CHECK, message=message, detail=found.detail, scenario=scenario)


def _note(item: Inspection, scenario: str) -> str:
    sentences = {
        Result.CLEAN: "{tool} is clean on {scenario}",
        Result.FINDINGS: "{tool} reports on {scenario}, which the plan declares: {detail}",
        Result.UNAVAILABLE: "{what} not checked by {tool}: {detail}",
    }
    what = {"memcheck": "stray accesses", "racecheck": "races"}
    return sentences[item.result].format(tool=item.tool, scenario=scenario, detail=item.detail, what=what[item.tool])


def run_alone(command: list[str], limit_s: float) -> tuple[int | None, str]:
    """Exit status (None: out of time) and output, with a bare environment; the whole process group is killed at the limit."""
    environment = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return None, output.decode("utf-8", "replace")
    return process.returncode, output.decode("utf-8", "replace")
