"""What a run prints at its end: baseline, seeds, best with its final, and what each question gave."""

from evolve.api import RunResult
from population.candidate import Origin, short_id
from results.reader import Reader
from results.terminal import best_lines, duration, outcome_lines, question_rows, ratio


def summary_lines(reader: Reader, result: RunResult) -> list[str]:
    """The end of a run as text, from its store."""
    info = reader.info()
    lines = [
        f"run {info.name}: stopped by {result.stopped_by}; {result.candidates} evaluations, {result.questions_asked} questions, "
        f"{duration(info.spent_s)}",
        f"task {info.card.name}, {len(info.card.scenarios)} scenarios of {info.card.scenario_set}",
        "",
        *_seed_lines(reader),
    ]
    if result.best is None:
        return [*lines, "", "No candidate is right in every scenario. `askevolve status` shows where steps ended."]
    row, final = reader.row(result.best.id), reader.final(result.best.id)
    lines += ["", *best_lines(row, final)]
    if final is not None:
        lines += ["", *outcome_lines(final)]
    better = result.best.over_better_seed
    if better is not None:
        lines += ["", f"best over the better seed ({short_id(better.name)}): {ratio(better.ratio, better.low, better.high)}"]
    over = result.best.over_baseline
    word = "verified" if result.best.verified else "not verified"
    lines.append(f"best over {over.name}: {ratio(over.ratio, over.low, over.high)} ({word})")
    questions = reader.questions()
    if questions:
        lines += ["", "What each question gave:", *question_rows(questions, "question")]
    return lines


def _seed_lines(reader: Reader) -> list[str]:
    """One line for each seed with its figure against the baseline, whose median times stand beside it."""
    lines = []
    for row in reader.candidates():
        if row.origin is not Origin.SEED:
            continue
        if row.geomean is None or row.low is None or row.high is None:
            lines.append(f"seed {short_id(row.id)}: {row.verdict or 'not evaluated'}")
            continue
        lines.append(f"seed {short_id(row.id)}: {ratio(row.geomean, row.low, row.high)} of baseline {row.opponent}")
    return lines
