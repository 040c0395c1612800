"""A run's facts as text for a terminal: plain lines, the same with and without a tty."""

import difflib
import time
from collections.abc import Iterable, Sequence

from evaluator.outcome import Check, Fitness, Outcome, Timing
from mutators.question import Question
from population.candidate import Candidate, short_id
from results.events import StepAsked
from results.rows import CandidateRow, FunnelRow, QuestionRow, RunInfo, StepRow


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Aligned columns, two spaces apart; numbers (and what looks like one) to the right, text to the left."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [all(_is_number(row[column]) for row in cells) if cells else False for column in range(len(titles))]
    widths = [max(len(title), *(len(row[i]) for row in cells)) if cells else len(title) for i, title in enumerate(titles)]

    def line(row: Sequence[str]) -> str:
        parts = [value.rjust(w) if right else value.ljust(w) for value, w, right in zip(row, widths, numeric, strict=True)]
        return "  ".join(parts).rstrip()

    return [line(titles), *(line(row) for row in cells)]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else one_line(str(value))


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "").replace(",", "").replace("x", "").replace("%", "").lstrip("+-").isdigit()


def one_line(text: str, limit: int = 160) -> str:
    """The text on one line without control characters, cut with an ellipsis where it is longer than ``limit``."""
    clean = "".join(c if c.isprintable() else " " for c in text.encode("utf-8", "replace").decode("utf-8"))
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


def ratio(value: float, low: float, high: float) -> str:
    """A ratio with its interval, such as ``1.234x [1.220, 1.249]``."""
    return f"{value:.3f}x [{low:.3f}, {high:.3f}]"


def fitness_line(fitness: Fitness) -> str:
    """The geometric mean against one opponent in a line, the worst scenario with it."""
    opponent = fitness.opponent
    name = f"candidate {short_id(opponent.removeprefix('candidate:'))}" if opponent.startswith("candidate:") else opponent
    return (
        f"{ratio(fitness.geomean, fitness.low, fitness.high)} {name} over {fitness.scenarios} scenarios; "
        f"worst {fitness.worst_ratio:.3f}x in {fitness.worst_scenario}"
    )


def duration(seconds: float) -> str:
    """Seconds as people say them: ``42 s``, ``3 min 5 s``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def run_rows(runs: Iterable[RunInfo]) -> list[str]:
    """One line for each run."""
    rows = [
        (info.name, state(info), info.card.name, info.card.scenario_set, info.candidates, duration(info.spent_s),
         short_id(info.best_id) if info.best_id else None,
         time.strftime("%Y-%m-%d %H:%M", time.localtime(info.last_at)))
        for info in runs
    ]  # fmt: skip
    return table(("run", "state", "task", "scenarios", "candidates", "spent", "best", "last event"), rows)


def state(info: RunInfo) -> str:
    """What a run is doing: running, why it stopped, or interrupted (no driver, no word)."""
    if info.live:
        return "running"
    return f"stopped: {info.stopped_by}" if info.stopped_by else "interrupted"


def status_lines(
    info: RunInfo,
    best: CandidateRow | None,
    final: Outcome | None,
    funnel: Sequence[FunnelRow],
    layers: Sequence[QuestionRow],
) -> list[str]:
    """One screen about a run: what it does, the best so far and whether to believe it, the funnel, the questions."""
    lines = [
        f"{info.name}: {state(info)}; task {info.card.name}, {len(info.card.scenarios)} scenarios of {info.card.scenario_set}",
        f"asked {info.steps}, evaluated {info.evaluated}, accepted {info.accepted}; spent {duration(info.spent_s)}",
    ]
    lines.append("")
    if best is None:
        lines.append("No candidate is right in every scenario yet.")
    else:
        lines += best_lines(best, final)
    if funnel:
        lines += ["", "Where steps ended:", *table(("stage", "verdict", "steps"), ((r.stage, r.word, r.steps) for r in funnel))]
    if layers:
        lines += ["", "What each layer of questions gave:", *question_rows(layers, "layer")]
    return lines


def best_lines(best: CandidateRow, final: Outcome | None) -> list[str]:
    """The best candidate with the search's own figure and, where there is one, the verified figure of its final."""
    lines = [f"best {short_id(best.id)}, step {best.step_number} ({best.origin})"]
    if best.geomean is not None and best.low is not None and best.high is not None:
        lines.append(f"  search: {ratio(best.geomean, best.low, best.high)} {best.opponent}")
    if final is None:
        lines.append("  not verified by a final yet")
    else:
        fitted = [final.fitness, *final.versus] if final.fitness else []
        lines.append(f"  final:  {final.verdict}" + ("" if fitted else f": {one_line(final.message)}"))
        lines += [f"          {fitness_line(fitness)}" for fitness in fitted]
    return lines


def question_rows(rows: Sequence[QuestionRow], key: str) -> list[str]:
    """The record of questions or layers: how often asked, answered, right, accepted, and what it gained and cost."""
    return table(
        (key, "asked", "new", "right", "accepted", "gain", "cost_s"),
        (
            (row.key, row.asked, row.answered, row.right, row.accepted, f"{100 * (2.718281828459045**row.gain - 1):+.1f}%",
             f"{row.evaluation_s + row.answer_s:.1f}")
            for row in rows
        ),
    )  # fmt: skip


def candidate_lines(row: CandidateRow, asked: StepAsked, outcome: Outcome | None, final: Outcome | None) -> list[str]:
    """Everything about a candidate but its source: where it came from, the question, the prediction, what was measured."""
    lines = [f"candidate {row.id}", f"step {row.step_number} ({row.origin}) on island {row.island}; status {row.status or '-'}"]
    lines.append(f"parent {short_id(row.parent_id)}, {row.depth} steps from its seed" if row.parent_id else "a seed")
    if asked.question is not None:
        lines += ["", *question_lines(asked.question)]
    if asked.header is not None:
        predicted = ", ".join(f"{name} {value:.3f}x" for name, value in asked.header.prediction.items()) or "nothing"
        lines += [f"  hypothesis: {one_line(asked.header.hypothesis, 400)}", f"  predicted: {predicted}"]
    for title, found in (("search", outcome), ("final", final)):
        if found is not None:
            lines += ["", f"{title}:", *outcome_lines(found)]
    return lines


def question_lines(question: Question) -> list[str]:
    """A question as it was put."""
    return [
        f"question {question.entry_id} ({question.layer}, {question.moment}):",
        f"  {one_line(question.text, 600)}",
    ]


def outcome_lines(outcome: Outcome, explain: bool = False) -> list[str]:
    """An outcome: verdict and message, ratios, scenario table; ``explain`` adds every check with its figures."""
    lines = [f"{outcome.verdict} at {outcome.stage}: {one_line(outcome.message, 600)}"]
    if outcome.fault is not None and outcome.fault.detail:
        lines += ["  | " + one_line(line, 200) for line in outcome.fault.detail.splitlines()[:20]]
    for fitness in [outcome.fitness, *outcome.versus] if outcome.fitness else []:
        lines.append("  " + fitness_line(fitness))
    if outcome.checks:
        lines += ["", *check_rows(outcome.checks, explain)]
    if outcome.timings:
        lines += ["", *timing_rows(outcome.timings)]
    if outcome.noise_floor_pct is not None:
        lines.append(f"noise floor (baseline against itself): {outcome.noise_floor_pct:.2f} %")
    if explain and outcome.facts:
        lines += ["", *table(("fact", "value"), sorted(outcome.facts.items()))]
    lines += [f"note: {one_line(note, 300)}" for note in outcome.notes]
    lines.append(f"device: {outcome.device.name} ({outcome.device.arch}); harness {outcome.harness}; {outcome.wall_s:.1f} s")
    return lines


def check_rows(checks: Sequence[Check], explain: bool) -> list[str]:
    """A line on correctness and, with ``explain`` or where one failed, the checks themselves."""
    failed = [check for check in checks if not check.passed]
    lines = [f"correctness: {len(checks) - len(failed)} of {len(checks)} checks passed"]
    errors = [check.max_error for check in checks if check.max_error is not None]
    differences = [check.baseline_difference for check in checks if check.baseline_difference is not None]
    if errors:
        lines[0] += f"; largest difference to the reference {max(errors):.3g}"
    if differences:
        lines[0] += f", to the baseline {max(differences):.3g}"
    shown = checks if explain else failed
    if shown:
        rows = (
            (c.scenario, c.distribution, c.tensor, "pass" if c.passed else "FAIL", _small(c.max_error), _small(c.max_allowed),
             _small(c.rms_error), _small(c.rms_allowed), _small(c.baseline_difference), c.message)
            for c in shown
        )  # fmt: skip
        titles = ("scenario", "inputs", "tensor", "", "max_error", "allowed", "rms_error", "allowed", "to_baseline", "")
        lines += table(titles, rows)
    return lines


def _small(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"


def timing_rows(timings: Sequence[Timing]) -> list[str]:
    """The races, scenario by scenario: ratio with interval, times, and the share of the physical bound."""
    rows = (
        (t.scenario, t.opponent if not t.opponent.startswith("candidate:") else short_id(t.opponent.removeprefix("candidate:")),
         f"{t.ratio:.3f}x", f"{t.low:.3f}", f"{t.high:.3f}", f"{t.candidate_us:.1f}", f"{t.opponent_us:.1f}", t.blocks,
         f"{100 * t.floor_us / t.candidate_us:.1f}%", t.bound + (" ambiguous" if t.ambiguous else ""))
        for t in timings
    )  # fmt: skip
    titles = ("scenario", "opponent", "ratio", "low", "high", "us", "opponent_us", "blocks", "of_bound", "bound")
    return table(titles, rows)


def lineage_lines(line: Sequence[tuple[CandidateRow, StepRow | None]]) -> list[str]:
    """A path from a seed to a candidate, oldest first: each step's question, hypothesis and what it gained."""
    lines: list[str] = []
    for row, step in line:
        figure = ratio(row.geomean, row.low, row.high) if row.geomean and row.low and row.high else (row.verdict or "waiting")
        lines.append(f"{short_id(row.id)}  step {row.step_number:<4} {row.origin:<9} {figure}")
        if step is not None and step.question is not None:
            lines.append(f"    asked ({step.layer}, {step.moment}): {one_line(step.question, 300)}")
        if step is not None and step.hypothesis:
            lines.append(f"    answered: {one_line(step.hypothesis, 300)}")
    return lines


def diff_lines(old: Candidate, new: Candidate) -> list[str]:
    """The unified diff between two sources."""
    return list(
        difflib.unified_diff(
            old.source.splitlines(), new.source.splitlines(), short_id(old.id), short_id(new.id), lineterm="", n=3
        )
    )
