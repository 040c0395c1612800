"""Everything before a number is published: fresh secrets, all distributions, hidden scenarios, every opponent in full."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evaluator.backend import Program
from evaluator.baseline import Baseline
from evaluator.cascade import by_cost, open_findings, score, time_primary
from evaluator.findings import Findings
from evaluator.fitness import fitness
from evaluator.outcome import Fault, Fitness, Outcome, Timing, Verdict
from evaluator.pool import Pool, random_stream
from evaluator.preparation import Prepared, prepare
from evaluator.request import Request
from evaluator.restarts import race_all
from evaluator.session import Session
from evaluator.stages import Opponent, baseline_opponent, examine, rival_opponent, slower_than
from population.candidate import Candidate, short_id

FRESH_SECRET_BYTES = 32
OUTCLASSED_BY = 1.15
BEST_OF_ALL = "best of all"
"""The opponent that is, scenario by scenario, the baseline against which the candidate does worst."""


def final(session: Session, request: Request) -> Outcome:
    """The outcome whose fitness and ``versus`` may be published; OK only where all of it holds."""
    secret = session.entropy(FRESH_SECRET_BYTES)
    fresh = replace(session, pool=Pool(session.task, session.settings.pool_bytes, secret, session.backend.array_module))
    findings = Findings(session=fresh, request=request, started_s=fresh.clock())
    prepared = prepare(fresh, request.candidate, fresh.card)
    if isinstance(prepared, Fault):
        return findings.refused(prepared)
    open_findings(findings, prepared)
    rng = random_stream(fresh.entropy)
    programs = by_cost(fresh, prepared.programs)
    hidden = _hidden(findings, rng)
    if isinstance(hidden, Fault):
        return findings.refused(hidden)
    rivals = _prepared_rivals(findings)
    with fresh.backend.lease(f"final of {short_id(request.candidate.id)}") as findings.lease:
        fault = _check_everything(findings, rng, (*programs, *hidden))
        if fault is not None:
            return findings.refused(fault)
        for note in _sanitized(fresh, programs, rng):
            findings.note(note)
        timed = time_primary(findings, rng, programs)
        session.controls = fresh.controls
        if isinstance(timed, Fault):
            return findings.refused(timed)
        versus = _versus(findings, rng, programs, rivals)
        for note in _cross_checked(findings, programs, rng):
            findings.note(note)
        return replace(score(findings), versus=versus)


def _check_everything(findings: Findings, rng: np.random.Generator, programs: Sequence[Program]) -> Fault | None:
    """Every program, of claimed and of hidden scenarios, under all distributions where answers are cheap."""
    session, limit = findings.session, findings.session.settings.full_check_flop
    dear = 0
    for program in programs:
        names: Sequence[str] = session.task.distributions
        if limit is not None and session.work_flop(program.scenario) > limit:
            names, dear = session.some_distributions(rng), dear + 1
        fault = examine(findings, rng, program, names)
        if fault is not None:
            return fault
    if dear:
        findings.note(
            f"{dear} of {len(programs)} scenarios need more than {limit:.3g} FLOP and were checked under "
            f"{len(session.some_distributions(rng))} of {len(session.task.distributions)} distributions each, drawn at random"
        )
    return None


def _sanitized(session: Session, programs: Sequence[Program], rng: np.random.Generator) -> Sequence[str]:
    """What a sanitizer said of the cheapest program, or why none was asked."""
    if session.backend.device.kind != "cuda":
        return ("races not checked: no sanitizer on this backend",)
    from evaluator.cuda.sanitizer import smallest_notes

    return smallest_notes(session, programs, rng)


def _cross_checked(findings: Findings, programs: Sequence[Program], rng: np.random.Generator) -> Sequence[str]:
    """What a second clock said of the cheapest program; nothing on the CPU, where a race is timed by the host's own clock."""
    if findings.session.backend.device.kind != "cuda":
        return ()
    from evaluator.cuda.crosscheck import cheapest_notes

    return cheapest_notes(findings.session, programs, findings.timings, rng)


def _hidden(findings: Findings, rng: np.random.Generator) -> tuple[Program, ...] | Fault:
    """Programs for scenarios drawn in secret, as far as the candidate's domain holds them."""
    session = findings.session
    scenarios = session.task.hidden_scenarios(rng, session.card, session.settings.hidden_scenarios)
    if not scenarios:
        findings.note("no hidden scenarios: the task makes none")
        return ()
    prepared = prepare(session, findings.request.candidate, replace(session.card, scenarios=scenarios))
    if isinstance(prepared, Fault):
        if prepared.verdict is not Verdict.UNSUPPORTED:
            return prepared
        findings.note("no hidden scenario lies in the domain that the candidate claims")
        return ()
    findings.note(f"{len(prepared.programs)} of {len(scenarios)} hidden scenarios lie in the claimed domain and were checked")
    return by_cost(session, prepared.programs)


def _versus(
    findings: Findings, rng: np.random.Generator, programs: Sequence[Program], rivals: Sequence[Prepared]
) -> tuple[Fitness, ...]:
    """Scores against the other baselines, each over the scenarios that it computes, against the best of all baselines, and
    against each rival over the scenarios that both claim.
    """
    session = findings.session
    scores = [_race_peer(findings, rng, baseline, programs) for baseline in session.baselines[1:]]
    scores.append(_best_of_all(findings, programs))
    opponents: list[tuple[Opponent, Sequence[Program]]] = []
    for rival in rivals:
        claimed = {program.scenario.name for program in rival.programs}
        shared = [program for program in programs if program.scenario.name in claimed]
        opponents.append((rival_opponent(session, rival), shared))
    scores += [_race_all(findings, rng, shared, opponent) for opponent, shared in opponents]
    return tuple(found for found in scores if found is not None)


def _race_peer(findings: Findings, rng: np.random.Generator, baseline: Baseline, programs: Sequence[Program]) -> Fitness | None:
    """The score against another baseline over the scenarios that it computes; None where it was outclassed in some of them.

    Where two executions show that it takes OUTCLASSED_BY times as long as the primary baseline, it can't be the best of all and
    isn't raced.
    """
    session = findings.session
    primary_us = {timing.scenario: timing.opponent_us for timing in findings.timings if timing.opponent == session.primary.name}
    computed = [program for program in programs if baseline.supports(program.scenario.symbols)]
    worth = []
    slower = []
    for program in computed:
        share = slower_than(session, rng, program, baseline, primary_us[program.scenario.name])
        if share is not None and share > OUTCLASSED_BY:
            slower.append(share)
        else:
            worth.append(program)
    if slower:
        findings.outclassed.append(baseline.name)
        findings.note(
            f"{baseline.name} takes {min(slower):.2f} to {max(slower):.2f} times as long as {session.primary.name} in "
            f"{len(slower)} of the {len(computed)} scenarios that it computes, and wasn't raced there"
        )
    raced = _race_all(findings, rng, worth, baseline_opponent(session, baseline))
    return None if slower else raced


def _best_of_all(findings: Findings, programs: Sequence[Program]) -> Fitness | None:
    """The score against the best of all baselines in each scenario, as far as measured there; None with one baseline."""
    names = {baseline.name for baseline in findings.session.baselines}
    raced = [timing for timing in findings.timings if timing.opponent in names]
    if len({timing.opponent for timing in raced}) < 2 and not findings.outclassed:
        return None
    hardest: dict[str, Timing] = {}
    for timing in raced:
        other = hardest.get(timing.scenario)
        if other is None or timing.ratio < other.ratio:
            hardest[timing.scenario] = timing
    best = [replace(timing, opponent=BEST_OF_ALL) for timing in hardest.values()]
    return fitness([program.scenario.name for program in programs], findings.checks, best, BEST_OF_ALL)


def _prepared_rivals(findings: Findings) -> list[Prepared]:
    """The rivals that can be built, those that can't named in a note."""
    prepared = (_prepared_rival(findings, rival) for rival in findings.request.rivals)
    return [rival for rival in prepared if rival is not None]


def _prepared_rival(findings: Findings, rival: Candidate) -> Prepared | None:
    if rival.id == findings.request.candidate.id:
        return None
    prepared = prepare(findings.session, rival, findings.session.card)
    if isinstance(prepared, Fault):
        findings.note(f"candidate {short_id(rival.id)} was not raced ({prepared.verdict}): {prepared.message}")
        return None
    return prepared


def _race_all(findings: Findings, rng: np.random.Generator, programs: Sequence[Program], opponent: Opponent) -> Fitness | None:
    """The score against one opponent; a note instead where a race failed, which the candidate's own score survives."""
    raced = race_all(findings, rng, programs, opponent)
    if isinstance(raced, Fault):
        findings.note(f"no score against {opponent.name}: {raced.verdict} in {raced.scenario}: {raced.message}")
        return None
    findings.timings.extend(raced)
    names = [program.scenario.name for program in programs]
    return fitness(names, findings.checks, findings.timings, opponent.name)
