"""What a run prints at its end: baseline, seeds, best with its final, and what each question gave."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from evaluator.outcome import Outcome, Verdict
from evolve.api import Best, RunResult
from evolve.utilisation import Utilisation
from population.candidate import Origin, short_id
from results.outcome_text import TOO_NOISY, device_text, outcome_lines, typical_us
from results.reader import Reader
from results.rows import CandidateRow
from results.terminal import question_rows, state
from results.text import count, duration, interval, microseconds, ratio, table

NOISY_PCT = 5.0
"""Most steps of a search gain less than this, so a noise floor above it hides them."""


def summary_lines(reader: Reader, result: RunResult, gpu: Utilisation | None) -> list[str]:
    """The end of a run as text, from its store; ``gpu`` says how busy the evaluations kept theirs."""
    info = reader.info()
    lines = [
        f"run {info.name}, {state(info)}; {count(result.candidates, 'candidate')}, {count(result.questions_asked, 'question')}, "
        f"{duration(info.spent_s)}",
        f"task {info.card.name}, {count(len(info.card.scenarios), 'scenario')} of {info.card.scenario_set}",
        *([_busy(gpu)] if gpu else []),
        "",
        *_standings(reader, result.best),
    ]
    if result.best is None:
        where = f"askevolve status {shlex.quote(str(info.folder))} says where steps ended"
        lines += ["", f"No candidate is right in every scenario; {where}." if info.evaluated else "Nothing is evaluated yet."]
    else:
        measured, final = reader.outcome(result.best.id), reader.verifying(result.best.id)
        lines += [
            "",
            *(_final_lines(result.best, final) if final else ["No final has verified it yet."]),
            "",
            *_verdict(result.best, measured is not None and measured.device.kind == "simulated"),
            *_noise(measured),
        ]
    questions = reader.questions()
    return [*lines, "", "What each question gave:", *question_rows(questions, "question")] if questions else lines


def _final_lines(best: Best, final: Outcome) -> list[str]:
    """The last final of the best, and what it says where that is nothing."""
    unsettled = f"This final settles nothing (AMBIGUOUS: {TOO_NOISY}). On a quieter host: askevolve final RUN {short_id(best.id)}"
    return ["Its final:", *outcome_lines(final), *(["", unsettled] if final.verdict is Verdict.AMBIGUOUS else [])]


def _busy(gpu: Utilisation) -> str:
    """The shares of time in which the GPU was taken, and in which a kernel ran."""
    kernels = "" if gpu.busy_share is None else f", kernels ran {100 * gpu.busy_share:.0f} %"
    return f"GPU held {100 * gpu.lease_share:.0f} % of the {duration(gpu.wall_s)} of evaluations{kernels}"


def _standings(reader: Reader, best: Best | None) -> list[str]:
    """The baseline, the seeds and the best in one table, by the search's figures and, for a verified best, its final's."""
    rows: list[Sequence[object]] = []
    info = reader.info()
    names = info.config["population"]["seeds"]  # type: ignore[index]
    baseline = None
    for row in reader.candidates():
        if row.step_number is not None and row.origin is Origin.SEED:
            outcome = reader.outcome(row.id)
            baseline = baseline or _baseline(outcome)
            rows.append(_standing(f"seed {Path(names[row.step_number]).name}", row, outcome))
    if best is not None:
        row, final = reader.row(best.id), reader.verifying(best.id)
        measured = reader.outcome(best.id)
        rows += [_standing("best, in the search", row, measured)] if row.step_number is not None else []
        if best.verified and final is not None:
            baseline = _baseline(final)
            over = best.over_baseline
            own = typical_us(final.timings)
            there = "" if measured and measured.device.name == final.device.name else f" on {device_text(final.device)}"
            rows.append(
                (f"best, in its final{there}", short_id(best.id), f"{over.ratio:.3f}x", interval(over.low, over.high),
                 microseconds(own[0]) if own else None)
            )  # fmt: skip
    if baseline is not None:
        name, typical = baseline
        rows.insert(0, (f"baseline {name}", "", "1.000x", "", microseconds(typical)))
    return table(("", "id", "ratio", "interval", "typical us"), rows)


def _standing(name: str, row: CandidateRow, outcome: Outcome | None) -> Sequence[object]:
    if row.geomean is None or row.low is None or row.high is None:
        return (name, short_id(row.id), row.verdict or "waiting", "", "")
    own = typical_us(outcome.timings) if outcome else None
    return (name, short_id(row.id), f"{row.geomean:.3f}x", interval(row.low, row.high), microseconds(own[0]) if own else None)


def _baseline(outcome: Outcome | None) -> tuple[str, float] | None:
    """The name and typical time in microseconds of the baseline that an outcome was raced against."""
    if outcome is None or outcome.fitness is None:
        return None
    typical = typical_us(outcome.timings)
    return (outcome.fitness.opponent, typical[1]) if typical else None


def _noise(outcome: Outcome | None) -> list[str]:
    """Why gains may have gone for nothing, where the host is so noisy that it should be said."""
    floor = outcome.noise_floor_pct if outcome else None
    if floor is None or floor < NOISY_PCT:
        return []
    return [f"The noise floor was {floor:.0f} %: only a gain above it makes a new best. A quieter host would see smaller ones."]


def _verdict(best: Best, simulated: bool) -> list[str]:
    """The two figures that a run is about, and whether they are verified."""
    over, better = best.over_baseline, best.over_better_seed
    lines = []
    if better is not None and better.name == best.id:
        lines.append(f"best over the better seed: the best is that seed ({short_id(better.name)})")
    elif better is not None:
        lines.append(f"best over the better seed ({short_id(better.name)}): {ratio(better.ratio, better.low, better.high)}")
    word = "verified" if best.verified else "not verified"
    if simulated:
        word += ", simulated"
    return [*lines, f"best over the baseline {over.name}: {ratio(over.ratio, over.low, over.high)} ({word})"]
