"""For benchmarks/noise.py: the baseline against itself, slowed copies, and the order of six kernels."""

import os
import random
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from noise_place import Place, Report, busy_cores, no_load, open_session, seed_source, within
from padded import Ladder

from evaluator.backend import Build, Program
from evaluator.controls import race_itself
from evaluator.harness import Harness
from evaluator.outcome import Fault, Outcome, Timing
from evaluator.pool import random_stream
from evaluator.request import Request
from evaluator.screen import screen
from evaluator.session import Session
from evaluator.statistics import median

SHARES = (0.0, 0.01, 0.025, 0.04, 0.06, 0.08)
"""Of the six kernels, in the order of their speed: neighbours 1 to 2 % apart, the outer ones 8 %."""
SESSIONS = 4
TRIALS = 40
INTERVALS = 100


def baseline_programs(session: Session, where: Place) -> list[Program]:
    """Programs that tell shapes only: for races in which no candidate takes part. Scenarios from short to long."""
    scalars = session.task.scalars
    found = screen(seed_source(where), where.language, session.card, where.backend.facts(), lambda one: scalars(one.symbols))
    if isinstance(found, Fault):
        raise SystemExit(found.message)
    nothing = Build(key="none", path=Path("none"))
    programs = [
        Program(candidate_id="none", scenario=scenario, build=nothing, resolved=resolved)
        for scenario, resolved in zip(found.scenarios, found.resolved, strict=True)
    ]
    return sorted(programs, key=lambda program: session.work_flop(program.scenario))


def itself(session: Session, program: Program, rng: np.random.Generator, slowed_by: float) -> Timing:
    with session.timing("benchmarks/noise.py"):
        raced = race_itself(session, program, rng, slowed_by)
    if isinstance(raced, Fault):
        raise SystemExit(f"{raced.verdict}: {raced.message}\n{raced.detail}")
    return raced


def measure_aa(where: Place, limit_s: float) -> Report:
    """The baseline against itself in every scenario, round after round."""
    session, rng, report = open_session(where, where.wide_set), random_stream(os.urandom), Report()
    programs, raced = baseline_programs(session, where), []
    rounds = -(-INTERVALS // len(programs))
    with session.backend.lease("A/A") as lease:
        for program in within(limit_s, programs * rounds):
            raced.append(itself(session, program, rng, 0.0))
        report.figures["lease"] = dict(lease.facts())
        report.lines += lease.notes()
    for program in programs[:: max(1, len(programs) // 12)]:
        own = [timing for timing in raced if timing.scenario == program.scenario.name]
        report.lines += [
            f"  {one.scenario:24} {one.candidate_us:9.1f} us  {_interval(one)}  {one.blocks} blocks" for one in own[:1]
        ]
    count = len(raced)
    holds = sum(one.low <= 1.0 <= one.high for one in raced) / max(1, count)
    faster = sum(one.low > 1.0 for one in raced) / max(1, count)
    half = median([0.5 * (one.high - one.low) / one.ratio for one in raced]) if raced else 1.0
    spread = float(np.std([np.log(one.ratio) for one in raced])) if raced else 1.0
    report.claim(f"{count} intervals, at least {INTERVALS}", count >= INTERVALS)
    report.claim(f"{100 * holds:.1f} % hold 1.0, at least 90 %", holds >= 0.9)
    report.claim(f"{100 * faster:.1f} % say faster, at most 5 %", faster <= 0.05)
    report.claim(f"median half-width {100 * half:.2f} %, at most 0.5 %", half <= 0.005)
    report.lines.append(f"  spread of the ratios (standard deviation): {100 * spread:.2f} %")
    report.figures |= {"holds": holds, "faster": faster, "half_width": half, "spread": spread, "races": list(map(asdict, raced))}
    return report


def measure_sensitivity(where: Place, limit_s: float) -> Report:
    """Copies slowed by 3 % and 1 %: times lengthened exactly, which tries the statistics on real noise, and real work added."""
    session, rng, report = open_session(where, where.small_set), random_stream(os.urandom), Report()
    programs = baseline_programs(session, where)
    scenarios = [program.scenario for program in programs]
    with session.backend.lease("sensitivity"):
        ladder = Ladder(session, seed_source(where), rng, scenarios)
    slower = {share: ladder.prepared(ladder.candidate(share)) for share in (0.03, 0.01)}
    kinds: dict[str, Callable[[float, int], Timing]] = {
        "lengthened": lambda share, at: itself(session, programs[at], rng, share),
        "real work": lambda share, at: ladder.race(slower[share], scenarios[at], rng),
    }
    cases = [(kind, share) for kind in kinds for share in slower]
    found: dict[tuple[str, float], list[Timing]] = {case: [] for case in cases}
    with session.backend.lease("sensitivity"):
        for trial in within(limit_s, range(TRIALS)):
            for kind, share in cases:
                found[kind, share].append(kinds[kind](share, trial % len(programs)))
    for (kind, share), raced in found.items():
        told, faster = sum(one.high < 1.0 for one in raced), sum(one.low > 1.0 for one in raced)
        need = 38 if share == 0.03 else 25
        middle = median([one.ratio for one in raced]) if raced else 1.0
        report.lines.append(f"  {kind:10} {100 * share:.0f} %: median ratio {middle:.4f}, {len(raced)} trials")
        report.claim(
            f"{kind} by {100 * share:.0f} %: slower in {told} of {len(raced)}, at least {need} of {TRIALS}", told >= need
        )
        report.claim(f"{kind} by {100 * share:.0f} %: faster in {faster}, never", faster == 0 and len(raced) == TRIALS)
        report.figures[f"{kind} {share}"] = list(map(asdict, raced))
    return report


def measure_ranking(where: Place, limit_s: float) -> Report:
    """Six kernels of known order, scored by whole evaluations in four sessions, the last with every core busy."""
    session, rng, report = open_session(where, where.small_set), random_stream(os.urandom), Report()
    with session.backend.lease("ranking"):
        scenarios = [program.scenario for program in baseline_programs(session, where)]
        ladder = Ladder(session, seed_source(where), rng, scenarios)
    candidates = [ladder.candidate(share) for share in SHARES]
    orders = []
    deadline_s = time.monotonic() + limit_s
    for number in range(SESSIONS):
        loaded = number == SESSIONS - 1
        harness = Harness(session.task, where.small_set, where.backend, where.settings)
        scores: dict[int, float] = {}
        with busy_cores(os.cpu_count() or 1) if loaded else no_load():
            for at in random.sample(range(len(candidates)), len(candidates)):
                if time.monotonic() < deadline_s:
                    scores[at] = scored(harness.evaluate(Request(candidate=candidates[at])))
        orders.append(sorted(scores, key=lambda at: -scores[at]))
        shown = "  ".join(f"{100 * SHARES[at]:.1f} %: {scores[at]:.4f}" for at in orders[-1])
        report.lines.append(f"  session {number + 1}{' (cores busy)' if loaded else ''}: {shown}")
        report.figures[f"session {number + 1}"] = {str(SHARES[at]): score for at, score in scores.items()}
    right = sum(order == list(range(len(SHARES))) for order in orders)
    report.claim(f"the order is the true one in {right} of {SESSIONS} sessions, in all", right == SESSIONS)
    return report


def scored(outcome: Outcome) -> float:
    if outcome.fitness is None:
        raise SystemExit(f"a right kernel came out as {outcome.verdict}: {outcome.message}")
    return outcome.fitness.geomean


def _interval(timing: Timing) -> str:
    return f"{timing.ratio:.4f} [{timing.low:.4f}, {timing.high:.4f}]"
