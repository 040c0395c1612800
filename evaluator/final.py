"""Everything before a number is published: fresh secrets, all distributions, hidden scenarios, every opponent in full."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evaluator.backend import Program
from evaluator.cascade import by_cost, check_everything, note_dear, open_findings, run_controls_once, score, time_all
from evaluator.contests import Contest, claimed
from evaluator.findings import Findings
from evaluator.fitness import fitness
from evaluator.outcome import Fault, Fitness, Outcome, Timing, Verdict
from evaluator.pool import random_stream
from evaluator.preparation import Prepared, prepare
from evaluator.request import Request
from evaluator.session import Session, new_pool
from evaluator.sittings import Part, Sittings, earlier_note, sittings_of, utc_now
from evaluator.stages import baseline_opponent, rival_opponent
from population.candidate import Candidate, short_id

FRESH_SECRET_BYTES = 32
FINAL_PARTS = 4
"""A final that goes program by program needs this part of the memory that a search has for its input sets, which stay there."""
BEST_OF_ALL = "best of all"
"""The opponent that is, scenario by scenario, the baseline against which the candidate does worst."""


def final(session: Session, request: Request) -> Outcome:
    """The outcome whose fitness and ``versus`` may be published; OK only where all of it holds."""
    secret = session.entropy(FRESH_SECRET_BYTES)
    settings = replace(session.settings, pool_bytes=session.settings.pool_bytes // (FINAL_PARTS if _one_by_one(session) else 1))
    fresh = replace(session, pool=new_pool(session.task, session.backend, settings, secret), publishes=True)
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
    contests = [*(Contest(opponent=baseline_opponent(fresh, one), baseline=one) for one in fresh.baselines[1:])]
    contests += [Contest(opponent=rival_opponent(fresh, rival), scenarios=claimed(rival)) for rival in rivals]
    note_dear(findings, (*programs, *hidden))
    with fresh.backend.lease(f"final of {short_id(request.candidate.id)}") as findings.lease:
        kept = sittings_of(fresh, request) if _one_by_one(session) else Sittings(None)
        try:
            fault = check_everything(findings, rng, hidden) or _judge_all(findings, rng, programs, contests, kept)
        except BaseException:
            kept.close(finished=False)
            raise
        kept.close(finished=fault is None or fault.verdict is not Verdict.HARNESS_FAULT)
        session.controls = fresh.controls
        if fault is not None:
            return findings.refused(fault)
        for note in _cross_checked(findings, programs, rng):
            findings.note(note)
        versus = (*(contest.score(findings) for contest in contests), _best_of_all(findings, programs))
        return replace(score(findings), versus=tuple(found for found in versus if found is not None))


def _judge_all(
    findings: Findings, rng: np.random.Generator, programs: Sequence[Program], contests: Sequence[Contest], kept: Sittings
) -> Fault | None:
    """Check and race all programs, batch by batch, but for those of earlier sittings.

    The session's controls are run in the middle one, as in a search, by each sitting that measures anything.
    """
    if kept.parts:
        earlier = [kept.parts[program.scenario.name] for program in programs if program.scenario.name in kept.parts]
        findings.note(earlier_note(earlier, len(programs)))
    for number, batch in enumerate(_batches(findings.session, programs)):
        findings.session.progress(f"{number} of {len(programs)} scenarios")
        part = kept.parts.get(batch[0].scenario.name)
        if part is not None:
            _take_over(findings, contests, part)
            continue
        before = (len(findings.checks), len(findings.timings), len(findings.notes))
        fault = _judge_batch(findings, rng, programs, batch, contests, sanitized=number == 0)
        if fault is not None:
            return fault
        kept.add(_part_of(findings, contests, batch[0].scenario.name, before))
    return None


def _judge_batch(
    findings: Findings,
    rng: np.random.Generator,
    programs: Sequence[Program],
    batch: Sequence[Program],
    contests: Sequence[Contest],
    *,
    sanitized: bool,
) -> Fault | None:
    fault = check_everything(findings, rng, batch)
    if fault is not None:
        return fault
    if sanitized:
        said = _sanitized(findings.session, programs, rng)
        if isinstance(said, Fault):
            return said
        for note in said:
            findings.note(note)
    fault = run_controls_once(findings, rng, programs) or time_all(findings, rng, batch)
    if fault is not None:
        return fault
    for contest in contests:
        contest.hold(findings, rng, batch)
    return None


def _part_of(findings: Findings, contests: Sequence[Contest], scenario: str, before: tuple[int, int, int]) -> Part:
    """What has been found since there were so many checks, timings and notes."""
    checks, timings, notes = before
    return Part(
        scenario=scenario,
        checks=tuple(findings.checks[checks:]),
        timings=tuple(findings.timings[timings:]),
        slower={contest.opponent.name: contest.slower[scenario] for contest in contests if scenario in contest.slower},
        broken=tuple(contest.opponent.name for contest in contests if contest.broken),
        notes=tuple(findings.notes[notes:]),
        at=utc_now(),
    )


def _take_over(findings: Findings, contests: Sequence[Contest], part: Part) -> None:
    findings.checks += part.checks
    findings.timings += part.timings
    for note in part.notes:
        findings.note(note)
    for contest in contests:
        name = contest.opponent.name
        if name in part.slower:
            contest.slower[part.scenario] = part.slower[name]
        contest.raced += [timing.scenario for timing in part.timings if timing.opponent == name]
        contest.broken = contest.broken or name in part.broken


def _batches(session: Session, programs: Sequence[Program]) -> Sequence[Sequence[Program]]:
    """Programs that are checked and raced together: on a GPU one by one, while its memory holds their answers; else all."""
    return [(program,) for program in programs] if _one_by_one(session) else [programs]


def _one_by_one(session: Session) -> bool:
    return session.backend.device.kind == "cuda"


def _sanitized(session: Session, programs: Sequence[Program], rng: np.random.Generator) -> tuple[str, ...] | Fault:
    """What a sanitizer says of the cheapest program, as notes or a verdict, or why none was asked."""
    if session.backend.device.kind != "cuda":
        return ("races not checked: no sanitizer on this backend",)
    from evaluator.cuda.sanitizer import inspect_smallest

    return inspect_smallest(session, programs, rng)


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
