"""One outcome as text for a terminal: verdict, checks, races."""

import math
from collections.abc import Sequence

from evaluator.outcome import Check, Device, Fitness, Outcome, Timing
from population.candidate import short_id
from results.text import interval, microseconds, one_line, ratio, table

DETAIL_LINES = 20
NOTES = 5
TOO_NOISY = "right, but timed too loosely to be ranked"
"""What AMBIGUOUS means, to somebody who meets it for the first time."""

RIVAL = "candidate:"
"""What the name of an opponent that is no baseline begins with; its id follows."""


def outcome_lines(outcome: Outcome, explain: bool = False) -> list[str]:
    """An outcome: verdict and message, ratios, scenario table; ``explain`` adds every check, race and fact."""
    lines = [f"{outcome.verdict} at {outcome.stage}: {one_line(outcome.message, 600)}"]
    if outcome.fault is not None and outcome.fault.detail:
        lines += detail_lines(outcome.fault.detail, None if explain else DETAIL_LINES)
    for fitness in [outcome.fitness, *outcome.versus] if outcome.fitness else []:
        lines.append("  " + fitness_line(fitness))
    if outcome.checks:
        lines += ["", *check_rows(outcome.checks, explain)]
    if outcome.timings:
        lines += ["", *timing_rows(outcome.timings, explain)]
    if outcome.noise_floor_pct is not None:
        lines += ["", f"noise floor (the baseline against itself): {outcome.noise_floor_pct:.2f} %"]
        lines += [f"  {_control(race)}" for race in outcome.controls if explain]
    if explain and outcome.facts:
        lines += ["", *table(("fact", "value"), sorted(outcome.facts.items()))]
    shown = outcome.notes if explain else outcome.notes[:NOTES]
    lines += [f"note: {one_line(note, 300)}" for note in shown]
    if len(shown) < len(outcome.notes):
        lines.append(f"and {len(outcome.notes) - len(shown)} more notes")
    lines.append(f"device: {device_text(outcome.device)}; harness {outcome.harness}; took {outcome.wall_s:.1f} s")
    return lines


def device_text(device: Device) -> str:
    """A device as people know it: name, architecture and, where there is one, the driver's version."""
    driver = device.versions.get("driver")
    return f"{device.name} ({device.arch})" + (f", driver {driver}" if driver else "")


def detail_lines(detail: str, limit: int | None) -> list[str]:
    """The evidence of a fault, such as a compiler's log, marked at the left; None: all of it."""
    found = detail.splitlines()
    shown = ["  | " + one_line(line, 200) for line in found[:limit]]
    return shown if len(shown) == len(found) else [*shown, f"  | ... and {len(found) - len(shown)} more lines"]


def fitness_line(fitness: Fitness) -> str:
    """The geometric mean against one opponent in a line, the worst scenario with it."""
    return (
        f"{ratio(fitness.geomean, fitness.low, fitness.high)} over {opponent_name(fitness.opponent)}; "
        f"worst {fitness.worst_ratio:.3f}x in {fitness.worst_scenario}"
    )


def hardest_ratio(timings: Sequence[Timing], scenario: str) -> float:
    """The lowest ratio to any baseline that raced in a scenario."""
    return min(item.ratio for item in timings if item.scenario == scenario and not item.opponent.startswith(RIVAL))


def several_baselines(timings: Sequence[Timing]) -> bool:
    """Whether more than one baseline raced at all; in some scenarios the others may have been too slow to race."""
    return len({item.opponent for item in timings if not item.opponent.startswith(RIVAL)}) > 1


def opponent_name(opponent: str) -> str:
    """A baseline's name, or a rival candidate's short id."""
    rival = opponent.removeprefix(RIVAL)
    return opponent if rival == opponent else short_id(rival)


def check_rows(checks: Sequence[Check], explain: bool) -> list[str]:
    """A line on correctness and, with ``explain`` or where one failed, the checks themselves."""
    failed = [check for check in checks if not check.passed]
    line = f"correctness: {len(checks) - len(failed)} of {len(checks)} checks passed"
    shares = [c.max_error / c.max_allowed for c in checks if c.max_error is not None and c.max_allowed > 0]
    differences = [check.baseline_difference for check in checks if check.baseline_difference is not None]
    if shares:
        line += f"; largest error {100 * max(shares):.3g} % of what is allowed there"
    if differences:
        line += f"; largest difference to the baseline {max(differences):.3g}"
    shown = checks if explain else failed
    if not shown:
        return [line]
    rows = (
        (c.scenario, c.distribution, c.tensor, "pass" if c.passed else "FAIL", _small(c.max_error), _small(c.max_allowed),
         _small(c.rms_error), _small(c.rms_allowed), _small(c.baseline_difference))
        for c in shown
    )  # fmt: skip
    titles = ("scenario", "inputs", "tensor", "", "max error", "allowed", "rms error", "allowed", "to baseline")
    messages = dict.fromkeys(one_line(check.message, 300) for check in failed if check.message)
    return [line, *table(titles, rows), *(f"  {message}" for message in messages)]


def _control(race: Timing) -> str:
    """A control race of the session: who ran, the ratio, over how many blocks."""
    dropped = f", {race.dropped} dropped" if race.dropped else ""
    return f"{race.opponent}: {ratio(race.ratio, race.low, race.high)} in {race.scenario}, {race.blocks} blocks{dropped}"


def _small(value: float | None) -> str | None:
    return None if value is None else f"{value:.2e}"


def timing_rows(timings: Sequence[Timing], explain: bool) -> list[str]:
    """The races against the first opponent, scenario by scenario, and the plain ratios to the others.

    ``explain`` gives every race its line. ``best peer`` is the ratio to the fastest baseline of the scenario,
    ``of bound`` the share of what the device could do at most.
    """
    first = timings[0].opponent
    others = list(dict.fromkeys(timing.opponent for timing in timings if timing.opponent != first))
    shown = timings if explain else [timing for timing in timings if timing.opponent == first]
    several = not explain and several_baselines(timings)
    rows = (
        (t.scenario, opponent_name(t.opponent) if explain else "", microseconds(t.candidate_us), microseconds(t.opponent_us),
         f"{t.ratio:.3f}x", interval(t.low, t.high), times(hardest_ratio(timings, t.scenario)) if several else "",
         t.blocks if explain else "", t.dropped if explain else "",
         f"{100 * t.floor_us / t.candidate_us:.1f}% {t.bound}", "ambiguous" if t.ambiguous else "")
        for t in shown
    )  # fmt: skip
    against = "" if explain else opponent_name(first)
    titles = ("scenario", "over" if explain else "", "us", f"{against} us".strip() if against else "its us", "ratio", "interval",
              "best peer" if several else "",
              "blocks" if explain else "", "dropped" if explain else "", "of bound", "")  # fmt: skip
    lines = table(titles, rows)
    if others and not explain:
        ratios = {(timing.scenario, timing.opponent): f"{timing.ratio:.3f}x" for timing in timings}
        scenarios = dict.fromkeys(timing.scenario for timing in timings)
        matrix = ((name, *(ratios.get((name, other)) for other in others)) for name in scenarios)
        lines += ["", *table(("ratio over", *map(opponent_name, others)), matrix)]
    return lines


def times(value: float | None) -> str:
    """A ratio without an interval, such as ``1.234x``; nothing for None."""
    return "" if value is None else f"{value:.3f}x"


def typical_us(timings: Sequence[Timing]) -> tuple[float, float] | None:
    """Geometric means over scenarios of the candidate's and the first opponent's times; None without a race."""
    first = [timing for timing in timings if timing.opponent == timings[0].opponent]
    if not first:
        return None
    own = sum(math.log(timing.candidate_us) for timing in first) / len(first)
    theirs = sum(math.log(timing.opponent_us) for timing in first) / len(first)
    return math.exp(own), math.exp(theirs)
