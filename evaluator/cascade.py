"""From a candidate to an outcome in a search: cheapest refusal first, leaving at the first failed stage."""

from collections.abc import Sequence

import numpy as np

from evaluator.backend import Program
from evaluator.controls import run_controls
from evaluator.findings import Findings
from evaluator.fitness import fitness, interval_of, is_hopeless
from evaluator.outcome import Fault, Outcome, Stage, Timing, Verdict
from evaluator.pool import random_stream
from evaluator.preparation import Prepared, prepare
from evaluator.request import Request
from evaluator.restarts import race_all
from evaluator.session import Session
from evaluator.stages import baseline_opponent, examine, race_opponent
from evaluator.statistics import geometric_mean
from population.candidate import short_id


def search(session: Session, request: Request) -> Outcome:
    """Screen, build, gate, one small case, quick timing, all correctness, all timing, score."""
    findings = Findings(session=session, request=request, started_s=session.clock())
    prepared = prepare(session, request.candidate, session.card)
    if isinstance(prepared, Fault):
        return findings.refused(prepared)
    open_findings(findings, prepared)
    rng = random_stream(session.entropy)
    programs = by_cost(session, prepared.programs)
    with session.backend.lease(f"evaluating {short_id(request.candidate.id)}") as findings.lease:
        for stage in (_check_small, _time_quick, _check_all, _time_primary):
            ended = stage(findings, rng, programs)
            if isinstance(ended, Fault):
                return findings.refused(ended)
            if ended is not None:
                return ended
        return score(findings)


def open_findings(findings: Findings, prepared: Prepared) -> None:
    """Note what the candidate claims and what the compiler said."""
    session = findings.session
    findings.supported = tuple(program.scenario.name for program in prepared.programs)
    findings.facts.update(prepared.facts)
    findings.facts["baseline"] = session.primary.name
    findings.facts["baseline_version"] = session.primary.version()
    for remark in session.remarks:
        findings.note(remark)
    for limit in session.backend.device.limits:
        findings.note(f"not enforced on this host: {limit}")
    if session.pressure() is None:
        findings.note("disturbances by other processes are not watched on this host")


def by_cost(session: Session, programs: Sequence[Program]) -> tuple[Program, ...]:
    """The programs from the least arithmetic to the most."""
    return tuple(sorted(programs, key=lambda program: session.work_flop(program.scenario)))


def score(findings: Findings) -> Outcome:
    """OK with a fitness, or AMBIGUOUS where its interval is too wide to decide anything."""
    session = findings.session
    found = fitness(findings.supported, findings.checks, findings.timings, session.primary.name)
    if found is None:
        raise RuntimeError("every stage passed, yet a scenario has no check or no timing")
    mean = geometric_mean([interval_of(item) for item in findings.timings if item.opponent == session.primary.name])
    widest = session.settings.ambiguous_half_width
    if mean.half_width > widest:
        message = (
            f"{mean.ratio:.3f} times {session.primary.name}, but the interval [{mean.low:.3f}, {mean.high:.3f}] is still wider "
            f"than +-{100 * widest:.3g} % after the last look. Evaluate again on a quieter host."
        )
        return findings.ended(Verdict.AMBIGUOUS, Stage.SCORE, message, found)
    return findings.scored(found)


def _time_primary(findings: Findings, rng: np.random.Generator, programs: Sequence[Program]) -> Outcome | Fault | None:
    """Race every program in full against the primary baseline, after the session's controls."""
    return run_controls_once(findings, rng, programs) or time_all(findings, rng, programs)


def run_controls_once(findings: Findings, rng: np.random.Generator, programs: Sequence[Program]) -> Fault | None:
    """The session's controls in the middle program, unless they have been run."""
    session = findings.session
    if session.controls is None:
        with session.timing("timing the baseline against itself"):
            controls = run_controls(session, programs[len(programs) // 2], rng)
        if isinstance(controls, Fault):
            return controls
        session.controls = controls
    return None


def time_all(findings: Findings, rng: np.random.Generator, programs: Sequence[Program]) -> Fault | None:
    """Race every program in full against the primary baseline, but where an earlier race saw all that this one would."""
    narrow = findings.session.settings.narrow_half_width
    names = [program.scenario.name for program in programs]
    known = {timing.scenario for timing in findings.timings if interval_of(timing).half_width <= narrow}
    findings.timings[:] = [timing for timing in findings.timings if timing.scenario in known or timing.scenario not in names]
    left = [program for program in programs if program.scenario.name not in known]
    raced = race_all(findings, rng, left, baseline_opponent(findings.session, findings.session.primary))
    if isinstance(raced, Fault):
        return raced
    findings.timings.extend(raced)
    findings.timings.sort(key=lambda timing: names.index(timing.scenario) if timing.scenario in names else -1)
    return None


def _check_small(findings: Findings, rng: np.random.Generator, programs: Sequence[Program]) -> Outcome | Fault | None:
    """The cheapest scenario under the everyday distribution."""
    return examine(findings, rng, programs[0], [findings.session.everyday])


def _time_quick(findings: Findings, rng: np.random.Generator, programs: Sequence[Program]) -> Outcome | Fault | None:
    """A first look at a few scenarios from cheap to dear: SLOWER where they are hopeless against the incumbent."""
    incumbent_low = findings.request.incumbent_low
    if incumbent_low is None:
        return None
    session = findings.session
    settings = session.settings
    chosen = _spread(programs, settings.quick_scenarios)
    share = 1.0 if len(chosen) == len(programs) else settings.hopeless_share
    opponent = baseline_opponent(session, session.primary)
    raced: list[Timing] = []
    for program in chosen:
        timing = race_opponent(findings, rng, program, opponent, most_looks=1)
        if isinstance(timing, Fault):
            return timing
        raced.append(timing)
    findings.timings.extend(raced)
    if not is_hopeless(raced, incumbent_low, share):
        return None
    mean = geometric_mean([interval_of(timing) for timing in raced])
    message = (
        f"{mean.ratio:.3f} times {session.primary.name} [{mean.low:.3f}, {mean.high:.3f}] over {len(raced)} quick scenarios, "
        f"while the incumbent reaches at least {incumbent_low:.3f}: stopped early."
    )
    return findings.ended(Verdict.SLOWER, Stage.TIME, message)


def _spread(programs: Sequence[Program], count: int) -> list[Program]:
    """Up to ``count`` programs, evenly from the cheapest to the dearest."""
    if len(programs) <= count:
        return list(programs)
    if count == 1:
        return [programs[len(programs) // 2]]
    return [programs[round(index * (len(programs) - 1) / (count - 1))] for index in range(count)]


def _check_all(findings: Findings, rng: np.random.Generator, programs: Sequence[Program]) -> Outcome | Fault | None:
    """Every scenario under the everyday distribution and some others, drawn anew for each; in full where it is asked for."""
    if findings.request.thorough:
        findings.note("checked as in a final: a candidate beside this one, or one that it comes from, was caught cheating")
        note_dear(findings, programs)
        return check_everything(findings, rng, programs)
    for program in programs:
        fault = examine(findings, rng, program, findings.session.some_distributions(rng))
        if fault is not None:
            return fault
    return None


def check_everything(findings: Findings, rng: np.random.Generator, programs: Sequence[Program]) -> Fault | None:
    """Every program under all distributions where answers are cheap, under as many as in a search where they are dear."""
    session = findings.session
    for program in programs:
        names = session.some_distributions(rng) if session.is_dear(program.scenario) else session.task.distributions
        fault = examine(findings, rng, program, names)
        if fault is not None:
            return fault
    return None


def note_dear(findings: Findings, programs: Sequence[Program]) -> None:
    """Say how many programs are dear, and how they are checked."""
    session = findings.session
    dear = sum(session.is_dear(program.scenario) for program in programs)
    if dear:
        findings.note(
            f"{dear} of {len(programs)} scenarios need more than {session.settings.full_check_flop:.3g} FLOP and were checked "
            f"under {session.settings.search_distributions} of {len(session.task.distributions)} distributions, drawn at random"
        )
