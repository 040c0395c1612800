"""Holds the harness's clock, events around a graph, against CUPTI's records of the same program in another process."""

import json
import pickle
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluator.backend import Program
from evaluator.cuda.cupti import find_cupti
from evaluator.cuda.replay import Replay
from evaluator.cuda.sanitizer import run_alone
from evaluator.outcome import Timing
from evaluator.session import Session
from evaluator.statistics import median

LIMIT_S = 60.0
AGREEMENT = 0.05
EVENT_US = 3.0
"""What two events around a launch may cost beyond the kernel itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTimes:
    """Medians of the same executions (us): by events, and by CUPTI."""

    events_us: float
    cupti_us: float


def cheapest_notes(
    session: Session, programs: Sequence[Program], timings: Sequence[Timing], rng: np.random.Generator, *, ordinal: int = 0
) -> tuple[str, ...]:
    """What a final notes about the clock, by its cheapest program: one sentence, also where nothing could be checked."""
    program = min(programs, key=lambda each: session.work_flop(each.scenario))
    name = program.scenario.name
    raced = [timing.candidate_us for timing in timings if timing.scenario == name and timing.opponent == session.primary.name]
    inputs = session.task.inputs(program.scenario.symbols, session.everyday, rng)
    replay = Replay(cubin=program.build.path.read_bytes(), resolved=program.resolved, inputs=inputs, ordinal=ordinal)
    found = kernel_times(replay)
    if isinstance(found, str):
        return (f"times not cross-checked by CUPTI on {name}: {found}",)
    return (sentence(name, found, raced[0] if raced else None),)


def sentence(scenario: str, found: KernelTimes, raced_us: float | None) -> str:
    """Whether the clocks agree, with their figures."""
    agree = are_close(found.events_us, found.cupti_us)
    figures = f"{found.events_us:.1f} and {found.cupti_us:.1f} us in the same executions"
    if raced_us is not None:
        agree = agree and are_close(raced_us, found.cupti_us)
        figures += f", {raced_us:.1f} us by events in the race"
    if agree:
        return f"events and CUPTI agree on {scenario}: {figures}"
    return f"events and CUPTI differ by more than {100 * AGREEMENT:.0f} % on {scenario}: {figures}. Don't publish it unexplained"


def are_close(events_us: float, cupti_us: float) -> bool:
    """Whether the two differ by what two events cost, or by no more than the allowed share."""
    return abs(events_us - cupti_us) <= max(AGREEMENT * cupti_us, EVENT_US)


def kernel_times(replay: Replay, *, limit_s: float = LIMIT_S) -> KernelTimes | str:
    """Both clocks over some executions in a process of its own, or why there are no times."""
    library = find_cupti()
    if library is None:
        return "CUPTI isn't installed (pip install nvidia-cuda-cupti)"
    with tempfile.TemporaryDirectory(prefix="askevolve-times-") as folder:
        path = Path(folder) / "replay"
        path.write_bytes(pickle.dumps(replay))
        command = [sys.executable, "-m", "evaluator.cuda.kernel_times", str(path), str(library)]
        status, output = run_alone(command, limit_s)
    lines = output.strip().splitlines() or ["no output"]
    if status != 0:
        return f"not done after {limit_s:g} s" if status is None else f"status {status}: {lines[-1]}"
    try:
        times = json.loads(lines[-1])
        return KernelTimes(events_us=median(times["events_us"]), cupti_us=median(times["cupti_us"]))
    except (ValueError, KeyError, TypeError):
        return f"an answer that can't be read: {lines[-1][:200]}"
