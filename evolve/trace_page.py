"""The story of a run as a Markdown page: every step, what each layer and moment gave, predictions against measurements."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from evolve.compare import readded_share
from mutators.calibration import HEADINGS, Held, calibrate, calibration_rows, held_of
from population.candidate import Origin, short_id
from results.outcome_text import opponent_name
from results.reader import Reader
from results.rows import StepRow
from results.terminal import percent
from results.text import interval, markdown, one_line

TITLES = ("step", "question", "layer", "moment", "parent", "verdict", "ratio", "interval", "over the parent", "predicted", "kept")
GROUP_TITLES = ("", "asked", "right", "kept", "mean gain of these", "kept of asked")
RIGHT = ("OK", "SLOWER", "AMBIGUOUS")


def trace_page(reader: Reader) -> list[str]:
    """The page's lines. Gains are geometric means over the parent's, as measured in the search; ``kept`` is the archive's word.

    Raises RunDamaged.
    """
    info = reader.info()
    steps = reader.steps()
    asked = [step for step in steps if step.question_id is not None and step.answerer is not None]
    held = _held(reader, asked)
    best = reader.headline()
    lines = [
        f"# {info.name}",
        "",
        f"Task {info.card.name}, {len(info.card.scenarios)} scenarios of {info.card.scenario_set}; {len(asked)} answers, "
        f"{info.evaluated} evaluations, {info.accepted} kept as better than their parent, {info.swept} turned knobs; "
        f"{info.spent_s / 60:.0f} min of drivers with work in hand, {info.tokens:,} tokens.",
    ]
    if best is not None and best.geomean is not None and best.low is not None and best.high is not None:
        lines += [
            "",
            f"Best: {short_id(best.id)}, {best.geomean:.3f}x {interval(best.low, best.high)} over "
            f"{opponent_name(best.opponent or '')} in the search. {_verified(reader, best.id)}",
        ]
    elif best is not None and best.step_number is None:
        lines += ["", f"Best: {short_id(best.id)}, which came home from elsewhere. {_verified(reader, best.id)}"]
    lines += ["", "## Steps", "", *markdown(TITLES, [_row(reader, step, held) for step in steps])]
    lines += ["", "## By layer", "", *_groups(asked, lambda step: step.layer or "")]
    lines += ["", "## By moment", "", *_groups(asked, lambda step: step.moment or "")]
    lines += ["", "## Predictions", ""]
    every = [one for found in held.values() for one in found]
    lines += markdown(HEADINGS, calibration_rows(calibrate(every))) if every else ["No answer predicted anything."]
    share = readded_share([recorded.event for recorded in reader.events()])
    said = "No answer added a line."
    if share is not None:
        said = f"{100 * share:.1f} % of the lines that answers added had been deleted earlier in their lineage."
    return [*lines, "", "## Lines that came back", "", said]


def _held(reader: Reader, steps: Iterable[StepRow]) -> dict[int, tuple[Held, ...]]:
    """Each answer's predictions by its step."""
    card = reader.info().card
    found = {}
    for step in steps:
        header = reader.step(step.number).header
        outcome = reader.outcome(step.candidate_id) if step.candidate_id and step.duplicate_of is None else None
        parent = reader.outcome(step.parent_id) if step.parent_id else None
        found[step.number] = held_of(step.answerer or "", header.prediction if header else {}, outcome, parent, card)
    return found


def _row(reader: Reader, step: StepRow, held: dict[int, tuple[Held, ...]]) -> tuple[str, ...]:
    everywhere = next((one for one in held.get(step.number, ()) if one.region == "all"), None)
    measured = everywhere.measured if everywhere is not None else None
    what = step.entry_id or (one_line(step.hypothesis or "", 60) if step.origin is Origin.SWEEP else step.origin.value)
    known = step.low is not None and step.high is not None and step.geomean is not None
    return (
        str(step.number),
        what,
        step.layer or "",
        step.moment or "",
        short_id(step.parent_id) if step.parent_id else "",
        step.verdict or step.rejection or ("duplicate" if step.duplicate_of else "waiting"),
        f"{step.geomean:.3f}x" if known else "",
        interval(step.low or 0.0, step.high or 0.0) if known else "",
        f"{measured.ratio:.3f}x" if measured is not None else "",
        f"{everywhere.predicted:.2f}x" if everywhere is not None else "",
        "yes" if step.accepted and step.parent_id else "",
    )


def _groups(steps: Sequence[StepRow], key: Callable[[StepRow], str]) -> list[str]:
    """Questions by a property of theirs, those that gave most first."""
    found: dict[str, list[StepRow]] = defaultdict(list)
    for step in steps:
        found[key(step)].append(step)
    order = sorted(found, key=lambda name: (-sum(step.gain or 0.0 for step in found[name]), name))
    return markdown(GROUP_TITLES, [_group(name, found[name]) for name in order])


def _group(name: str, steps: Sequence[StepRow]) -> tuple[str, ...]:
    kept = [step for step in steps if step.accepted]
    gain = math.fsum(step.gain or 0.0 for step in kept) / max(1, len(kept))  # siblings' gains don't multiply
    right = sum(step.verdict in RIGHT for step in steps)
    return (name, str(len(steps)), str(right), str(len(kept)), percent(gain), f"{100 * len(kept) / len(steps):.0f} %")


def _verified(reader: Reader, candidate_id: str) -> str:
    final = reader.verifying(candidate_id)
    if final is None:
        return "No final has verified it."
    if final.fitness is None:
        return f"Its final: {final.verdict}."
    rows = (final.fitness, *final.versus)
    return "Its final: " + "; ".join(
        f"{one.geomean:.3f}x {interval(one.low, one.high)} over {opponent_name(one.opponent)}" for one in rows
    ) + "."  # fmt: skip
