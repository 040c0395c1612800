"""Facts from a parent's own outcome: its scenarios, the one in focus, and pairs that differ in one symbol."""

import math
from collections.abc import Mapping, Sequence

from evaluator.outcome import Outcome, Timing
from evaluator.task_card import Scenario, SymbolValue, TaskCard
from mutators.question import FactValue

BOUNDS: Mapping[str, str] = {"flop": "arithmetic", "bytes": "data movement"}


def timings_of(outcome: Outcome) -> Sequence[Timing]:
    """The races against the opponent of the fitness, else against the first opponent that occurs."""
    if not outcome.timings:
        return ()
    opponent = outcome.fitness.opponent if outcome.fitness else outcome.timings[0].opponent
    return [timing for timing in outcome.timings if timing.opponent == opponent]


def focus_of(timings: Sequence[Timing], turn: int) -> Timing | None:
    """The scenario that a question speaks about: the half farthest from its physical bound, taken in turns."""
    far = sorted(timings, key=lambda timing: (timing.floor_us / timing.candidate_us, timing.scenario))
    return far[turn % max(1, math.ceil(len(far) / 2))] if far else None


def whole_facts(outcome: Outcome, timings: Sequence[Timing]) -> dict[str, FactValue]:
    """The candidate over all its scenarios, its device and its compiler facts."""
    device = outcome.device
    facts: dict[str, FactValue] = dict(outcome.facts)
    facts |= {"device": device.name, "arch": device.arch, "cores": device.cores}
    facts |= {"peak_tflops": device.peak_tflops, "peak_gbs": device.peak_gbs, "scenario_count": len(timings)}
    if device.kind != "cpu":
        facts["sm_count"] = device.cores
    if outcome.noise_floor_pct is not None:
        facts["noise_pct"] = outcome.noise_floor_pct
    if timings:
        shares = [math.log(roofline_pct(timing)) for timing in timings]
        facts["mean_roofline_pct"] = math.exp(sum(shares) / len(shares))
        facts["data_bound_count"] = sum(timing.bound == "bytes" for timing in timings)
    if outcome.fitness is not None:
        facts |= {"peer": outcome.fitness.opponent, "ratio": outcome.fitness.geomean}
    if len(timings) > 1:
        worst, best = min(timings, key=_ratio), max(timings, key=_ratio)
        small, large = min(timings, key=lambda t: t.floor_us), max(timings, key=lambda t: t.floor_us)
        facts |= {"worst_scenario": worst.scenario, "worst_ratio": worst.ratio, "best_scenario": best.scenario}
        facts |= {"best_ratio": best.ratio, "spread": best.ratio / worst.ratio}
        facts |= {"small_scenario": small.scenario, "small_roofline_pct": roofline_pct(small), "small_us": small.candidate_us}
        facts |= {"large_scenario": large.scenario, "large_roofline_pct": roofline_pct(large)}
        facts["worst_is_small"] = worst.floor_us <= sorted(t.floor_us for t in timings)[(len(timings) - 1) // 3]
    return facts


def focus_facts(timing: Timing) -> dict[str, FactValue]:
    """One scenario's time beside its bound and its opponent."""
    return {
        "scenario": timing.scenario,
        "scenario_ratio": timing.ratio,
        "time_us": timing.candidate_us,
        "peer_us": timing.opponent_us,
        "bound": BOUNDS.get(timing.bound, timing.bound),
        "bound_us": timing.floor_us,
        "roofline_pct": roofline_pct(timing),
        "headroom": timing.candidate_us / timing.floor_us,
    }


def roofline_pct(timing: Timing) -> float:
    """How near a race came to its physical bound, in percent."""
    return 100 * timing.floor_us / timing.candidate_us


def contrast_facts(card: TaskCard, timings: Sequence[Timing]) -> dict[str, FactValue]:
    """Pairs of scenarios that differ in one respect: the mask, the head dim, the length."""
    timed = {timing.scenario: timing for timing in timings}
    known = [(scenario, timed[scenario.name]) for scenario in card.scenarios if scenario.name in timed]
    facts: dict[str, FactValue] = {}
    if pair := _pair(known, {"causal"}, "causal"):
        (_, dense), (masked, causal) = pair
        facts |= {"causal_scenario": masked.name, "causal_time_pct": 100 * causal.candidate_us / dense.candidate_us}
        facts["causal_work_pct"] = 100 * causal.floor_us / dense.floor_us
    if pair := _pair(known, {"d"}, "d"):
        (narrow, first), (wide, second) = pair
        facts |= {"narrow_scenario": narrow.name, "wide_scenario": wide.name}
        facts |= {"narrow_roofline_pct": roofline_pct(first), "wide_roofline_pct": roofline_pct(second)}
    if pair := _pair(known, {"sq", "sk"}, "sk"):
        (short, first), (long, second) = pair
        facts |= {"short_scenario": short.name, "long_scenario": long.name}
        facts["length_time_ratio"] = second.candidate_us / first.candidate_us
        facts["length_work_ratio"] = second.floor_us / first.floor_us
    return facts


_Timed = tuple[Scenario, Timing]


def _pair(known: Sequence[_Timed], free: set[str], symbol: str) -> tuple[_Timed, _Timed] | None:
    """The scenarios with the largest step in one symbol among those equal in all others, smaller value first."""
    groups: dict[tuple[tuple[str, SymbolValue], ...], list[_Timed]] = {}
    for scenario, timing in known:
        if isinstance(scenario.symbols.get(symbol), int):
            rest = tuple(sorted((name, value) for name, value in scenario.symbols.items() if name not in free))
            groups.setdefault(rest, []).append((scenario, timing))
    best, step = None, 0
    for members in groups.values():
        members.sort(key=lambda member: (int(member[0].symbols[symbol]), member[0].name))
        width = int(members[-1][0].symbols[symbol]) - int(members[0][0].symbols[symbol])
        if width > step:
            best, step = (members[0], members[-1]), width
    return best


def _ratio(timing: Timing) -> tuple[float, str]:
    return timing.ratio, timing.scenario
