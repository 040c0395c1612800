"""One outcome as Markdown, for pages of measurements."""

from collections.abc import Sequence

from evaluator.outcome import Outcome, Timing
from results.outcome_text import fitness_line, hardest_ratio, opponent_name, several_baselines, times
from results.text import interval, markdown, microseconds, one_line


def outcome_markdown(title: str, outcome: Outcome) -> list[str]:
    """Heading, verdict, device, the geometric mean against each opponent, a table of the scenarios, notes."""
    lines = [
        f"### {title}",
        "",
        f"{outcome.verdict} at {outcome.stage}: {one_line(outcome.message, 600)}",
        "",
        f"{outcome.effort} on {outcome.device.name} ({outcome.device.arch}), harness {outcome.harness}, {outcome.wall_s:.0f} s",
    ]
    if outcome.fitness is not None:
        lines += ["", *(f"* {fitness_line(fitness)}" for fitness in (outcome.fitness, *outcome.versus))]
    if outcome.timings:
        lines += ["", *_races(outcome.timings)]
    said = [f"noise floor {outcome.noise_floor_pct:.2f} %"] if outcome.noise_floor_pct is not None else []
    said += [one_line(note, 600) for note in outcome.notes]
    return [*lines, "", *(f"* {text}" for text in said)] if said else lines


def _races(timings: Sequence[Timing]) -> list[str]:
    """A row for each scenario: the race against the first opponent, the ratio to the fastest of all, the share of the bound."""
    first = timings[0].opponent
    shown = [timing for timing in timings if timing.opponent == first]
    several = several_baselines(timings)
    titles = ("scenario", "us", f"{opponent_name(first)} us", "ratio", "interval", "best peer" if several else "", "of bound",
              "bound")  # fmt: skip
    rows = (
        (t.scenario, microseconds(t.candidate_us), microseconds(t.opponent_us), f"{t.ratio:.3f}x", interval(t.low, t.high),
         times(hardest_ratio(timings, t.scenario)) if several else "",
         f"{100 * t.floor_us / t.candidate_us:.1f} %", t.bound)
        for t in shown
    )  # fmt: skip
    return markdown(titles, rows)
