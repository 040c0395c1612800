"""A run's facts as text for a terminal: plain lines, the same with and without a tty."""

import difflib
import math
import time
from collections.abc import Iterable, Mapping, Sequence

from evaluator.outcome import Fitness, Outcome, Verdict
from mutators.question import Question
from population.candidate import Candidate, Origin, short_id
from results.events import OutcomeMerged, StepAsked
from results.mailbox import Mailbox
from results.outcome_text import TOO_NOISY, device_text, fitness_line, opponent_name, outcome_lines
from results.reader import Reader
from results.rows import CandidateRow, DeviceRow, FunnelRow, QuestionRow, RunInfo, StepRow
from results.text import count, duration, interval, one_line, ratio, table

FINISHED = "finished"
"""How the state of a run begins that is over."""

STOPPED = {
    "goal": "finished: the goal is met",
    "candidates": "finished: all candidates spent",
    "hours": "finished: all hours spent",
    "tokens": "finished: all tokens spent",
    "usd": "finished: all money spent",
    "gpu_hours": "finished: all GPU hours spent",
    "exhausted": "finished: no new candidate found any more",
    "requested": "stopped on request",
    "waiting": "waiting for answers",
    "evaluation": "waiting for evaluation on another machine",
    "faults": "stopped by faults of the harness",
    "environment": "stopped because nothing is left that may evaluate",
    "answerer": "stopped because the answerer failed",
}
"""What the reason for which a driver stopped means to a person."""


def run_rows(runs: Iterable[RunInfo], bests: Iterable[CandidateRow | None]) -> list[str]:
    """One line for each run, with its best."""
    rows = [
        (info.name, info.card.name, info.card.scenario_set, info.candidates, duration(info.spent_s),
         short_id(best.id) if best else None, f"{best.geomean:.3f}x" if best and best.geomean else None,
         time.strftime("%Y-%m-%d %H:%M", time.localtime(info.last_at)), state(info))
        for info, best in zip(runs, bests, strict=True)
    ]  # fmt: skip
    return table(("run", "task", "scenarios", "tried", "spent", "best", "ratio", "last event", "state"), rows)


def state(info: RunInfo) -> str:
    """What a run is doing: running, why it stopped, or interrupted (no driver, no word)."""
    if info.live:
        return "running"
    return STOPPED.get(info.stopped_by, info.stopped_by) if info.stopped_by else "interrupted"


def status_screen(reader: Reader) -> list[str]:
    """One screen about the run that is read, its mailbox included."""
    info, best = reader.info(), reader.headline()
    answered = Mailbox(info.folder).answered() & {one.step.number for one in reader.open_steps()}
    final = reader.verifying(best.id) if best else None
    lines = status_lines(info, best, final, reader.funnel(), reader.layers(), len(answered))
    return [*lines, *elsewhere_rows(reader.devices_elsewhere())]


def elsewhere_rows(rows: Sequence[DeviceRow]) -> list[str]:
    """What came home from which kind of device and stands beside the run's own outcomes; nothing where nothing did."""
    if not rows:
        return []
    cells = ((f"{row.device} ({row.arch})", row.outcomes, row.finals, row.verified) for row in rows)
    return ["", "Measured elsewhere (`askevolve show RUN ID` has it):", *table(("on", "outcomes", "finals", "verified"), cells)]


def status_lines(
    info: RunInfo,
    best: CandidateRow | None,
    final: Outcome | None,
    funnel: Sequence[FunnelRow],
    layers: Sequence[QuestionRow],
    answered: int = 0,
) -> list[str]:
    """One screen about a run: what it does, the best so far and whether to believe it, the funnel, the questions.

    ``answered`` of the open prompts have an answer that waits to be taken in.
    """
    counts = f"{info.evaluated} evaluated, {info.accepted} accepted"
    lines = [
        f"run {info.name}, {state(info)}",
        f"task {info.card.name}, {count(len(info.card.scenarios), 'scenario')} of {info.card.scenario_set}",
        f"{count(info.steps, 'step')} asked, {counts}; {duration(info.spent_s)} spent",
        *([f"{count(info.swept, 'step')} of these turned knobs after an accepted edit"] if info.swept else []),
        *open_lines(info, answered),
        "",
    ]
    none = "No candidate is right in every scenario yet." if info.evaluated else "Nothing is evaluated yet."
    lines += best_lines(best, final) if best else [none]
    if funnel:
        lines += ["", "Where steps ended:", *table(("stage", "verdict", "steps"), ((r.stage, r.word, r.steps) for r in funnel))]
    if layers:
        lines += ["", "What each layer of questions gave:", *question_rows(layers, "layer")]
    return lines


def open_lines(info: RunInfo, answered: int) -> list[str]:
    """What may be answered, what was answered and waits for a driver, and how to go on where none runs."""
    free = info.open_steps - answered
    if not info.live and state(info).startswith(FINISHED):
        return [f"{count(free, 'prompt')} left unanswered, since the run is over"] if free else []
    lines = [f"{count(free, 'prompt')} open: askevolve next {info.name}"] if free else []
    if answered:
        lines.append(f"{count(answered, 'answer')} to be taken in by the run's driver")
    if not info.live and (answered or not info.stopped_by):
        lines.append(f"no driver runs; go on: askevolve resume {info.name}")
    return lines


def best_lines(best: CandidateRow, final: Outcome | None) -> list[str]:
    """The best candidate with the search's own figure and, where there is one, the verified figures of its final."""
    lines = [f"best {short_id(best.id)}, {came_by(best)}"]
    if best.geomean is not None and best.low is not None and best.high is not None:
        lines.append(f"in the search: {ratio(best.geomean, best.low, best.high)} over {best.opponent}{_unranked(best.verdict)}")
    if final is None:
        lines.append("not verified by a final yet")
    elif final.fitness is None:
        lines.append(f"refuted by its final: {final.verdict} at {final.stage}: {one_line(final.message)}")
    else:
        verdict = f"{final.verdict}{_unranked(final.verdict)}"
        lines += [f"final: {verdict} on {device_text(final.device)}", *fitness_rows([final.fitness, *final.versus])]
    return lines


def _unranked(verdict: str | None) -> str:
    """What AMBIGUOUS means, "" for other verdicts."""
    return f" ({TOO_NOISY})" if verdict == Verdict.AMBIGUOUS else ""


def came_by(row: CandidateRow) -> str:
    """The step that first proposed a candidate and why, or that it came home from elsewhere."""
    return "came home from elsewhere" if row.step_number is None else f"step {row.step_number} ({row.origin})"


def fitness_rows(fits: Sequence[Fitness]) -> list[str]:
    """Geometric means against each opponent with their intervals and worst scenarios."""
    rows = [
        (opponent_name(fit.opponent), f"{fit.geomean:.3f}x", interval(fit.low, fit.high), f"{fit.worst_ratio:.3f}x",
         fit.worst_scenario)
        for fit in fits
    ]  # fmt: skip
    return table(("over", "geomean", "interval", "worst", "in"), rows)


def question_rows(rows: Sequence[QuestionRow], key: str) -> list[str]:
    """The record of questions or layers: how often asked, answered, right, accepted, and what it gained and cost."""
    lines = table(
        (key, "asked", "new", "right", "accepted", "gain", "seconds"),
        (
            (
                row.key,
                row.asked,
                row.answered,
                row.right,
                row.accepted,
                percent(row.gain),
                f"{row.evaluation_s + row.answer_s:.1f}",
            )
            for row in rows
        ),
    )
    return [
        *lines,
        "new: made a new candidate; right: verdict OK or SLOWER;",
        "accepted: better than its parent by its lower bound",
    ]


def percent(gain: float) -> str:
    """A gain, given as the logarithm of a ratio, in per cent: ``+3.6%``."""
    return f"{100 * math.expm1(gain):+.1f}%"


def candidate_lines(
    row: CandidateRow,
    asked: StepAsked | None,
    outcome: Outcome | None,
    final: Outcome | None,
    merged: Sequence[OutcomeMerged] = (),
    explain: bool = False,
) -> list[str]:
    """Everything about a candidate but its source: where it came from, the question, the prediction, what was measured.

    ``asked`` is None for one that was evaluated as a file; ``merged`` stand beside the run's own ``outcome`` and ``final``.
    """
    place = "" if row.island is None else f" on island {row.island}; archive: {row.status or 'waiting'}"
    lines = [f"candidate {row.id}", f"{came_by(row)}{place}"]
    if row.parent_id:
        lines.append(f"parent {short_id(row.parent_id)}, {count(row.depth, 'step')} from its seed")
    if asked is not None and asked.question is not None:
        lines += ["", *question_lines(asked.question)]
    if asked is not None and asked.step.origin is Origin.SWEEP and asked.header is not None:
        lines.append(f"turned {one_line(asked.header.hypothesis, 400)}")
    elif asked is not None and asked.header is not None:
        predicted = ", ".join(f"{one_line(name)} {value:.3f}x" for name, value in asked.header.prediction.items())
        lines += [f"hypothesis: {one_line(asked.header.hypothesis, 400)}", f"predicted over the parent: {predicted or 'nothing'}"]
    for title, found in (("search", outcome), ("final", final)):
        if found is not None:
            lines += ["", f"== {title} ==", *outcome_lines(found, explain)]
    for one in merged:
        title = f"{one.outcome.effort}, from {one.came_from}, on {device_text(one.outcome.device)}"
        lines += ["", f"== {one_line(title)} ==", *outcome_lines(one.outcome, explain)]
    return lines


def question_lines(question: Question) -> list[str]:
    """A question as it was put."""
    told = [line for text in question.told for line in ("told by a person:", f"  {one_line(text, 600)}")]
    return [f"question {question.entry_id} ({question.layer}, {question.moment}):", f"  {one_line(question.text, 600)}", *told]


def lineage_lines(
    line: Sequence[tuple[CandidateRow, StepRow | None]], merged: Mapping[str, Sequence[OutcomeMerged]]
) -> list[str]:
    """A path from a seed to a candidate, oldest first: each step's question, hypothesis and what it gained.

    ``merged`` holds by candidate what was measured elsewhere.
    """
    lines: list[str] = []
    for row, step in line:
        figure = row.verdict or ("waiting" if row.step_number is not None else "not evaluated here")
        if row.geomean is not None and row.low is not None and row.high is not None:
            figure = f"{ratio(row.geomean, row.low, row.high)} over {row.opponent}"
        place = "elsewhere" if row.step_number is None else f"step {row.step_number}"
        gained = f"  {percent(step.gain)} over its parent" if step is not None and step.gain else ""
        lines.append(f"{short_id(row.id)}  {place:<9} {row.origin:<9} {figure}{gained}")
        if step is not None and step.question is not None:
            lines.append(f"    asked {step.entry_id} ({step.layer}, {step.moment}): {one_line(step.question, 300)}")
        if step is not None and step.hypothesis:
            done = "turned" if step.origin is Origin.SWEEP else "answered:"
            lines.append(f"    {done} {one_line(step.hypothesis, 300)}")
        lines += [f"    elsewhere: {merged_line(one)}" for one in merged.get(row.id, ())]
    return lines


def merged_line(event: OutcomeMerged) -> str:
    """An outcome that was measured elsewhere in a line: effort, verdict, ratio, device."""
    outcome = event.outcome
    figure = f" {fitness_line(outcome.fitness)}" if outcome.fitness else ""
    return one_line(f"{outcome.effort} {outcome.verdict}{figure}, on {device_text(outcome.device)}, from {event.came_from}", 300)


def diff_lines(old: Candidate, new: Candidate) -> list[str]:
    """The unified diff between two sources."""
    return list(
        difflib.unified_diff(
            old.source.splitlines(), new.source.splitlines(), short_id(old.id), short_id(new.id), lineterm="", n=3
        )
    )
