"""What turned knobs were found to do, region by region, and which of the values are worth keeping together."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from evaluator.expression import parse
from evaluator.outcome import Outcome, Verdict
from evaluator.task_card import TaskCard
from mutators.calibration import Measured, measured_over
from mutators.knob_roles import value_in
from mutators.measured import timings_of
from mutators.moves import Move
from mutators.plan_text import Target, add_case, change
from population.candidate import Knob

TIMED = frozenset({Verdict.OK, Verdict.SLOWER, Verdict.AMBIGUOUS})
"""Verdicts whose times say something of a value; one stopped early (SLOWER) counts with the scenarios that it was timed in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one move did where it changes a value: over all those scenarios, and over those of each region.

    ``shares``: the part of the kernel's timed scenarios that each region's makes up.
    """

    move: Move
    everywhere: Measured
    regions: Mapping[str, Measured]
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """A value to keep, in one ``region`` alone or (None) wherever the number counts; ``gain`` is the log speed expected of it."""

    target: Target
    key: str
    old: int
    new: int
    region: str | None
    gain: float

    @property
    def text(self) -> str:
        """What is turned from what to what, and where."""
        return turned(self.key, self.old, self.new) + (f" in {self.region}" if self.region else "")


def turned(key: str, old: int, new: int) -> str:
    """A move in words."""
    return f"{key} from {old} to {new}"


def values_of(knobs: Sequence[Knob], card: TaskCard) -> tuple[tuple[int, ...], ...]:
    """Every knob's value in every scenario of the card: kernels that differ in knobs alone and agree in this do the same."""
    return tuple(tuple(value_in(knob, scenario.symbols) for knob in knobs) for scenario in card.scenarios)


def effect_of(
    move: Move, before: Sequence[Knob], after: Sequence[Knob], outcome: Outcome, parent: Outcome, card: TaskCard
) -> Effect | None:
    """What a move from the knobs ``before`` to those ``after`` did, None where it wasn't timed."""
    if outcome.verdict not in TIMED:
        return None
    rows = zip(card.scenarios, values_of(before, card), values_of(after, card), strict=True)
    reach = [scenario for scenario, old, new in rows if old != new]
    everywhere = measured_over({scenario.name for scenario in reach}, outcome, parent)
    if everywhere is None:
        return None
    regions: dict[str, Measured] = {}
    shares: dict[str, float] = {}
    timed = {timing.scenario for timing in timings_of(parent)}
    for region in dict.fromkeys(scenario.region for scenario in reach):
        inside = {scenario.name for scenario in reach if scenario.region == region}
        if (measured := measured_over(inside, outcome, parent)) is not None:
            regions[region], shares[region] = measured, len(inside & timed) / len(timed)
    return Effect(move=move, everywhere=everywhere, regions=regions, shares=shares)


def adoptions(effects: Sequence[Effect], tellable: Collection[str]) -> list[Adoption]:
    """The values worth keeping, those first of which most is expected. ``tellable``: regions that a plan can tell apart.

    A number takes the value that is clearly faster where it counts, if one is: the interval of its ratio to the old value lies
    above 1. A region goes its own way where another of the values, the old one included, is clearly faster there.
    """
    found: list[Adoption] = []
    for target in dict.fromkeys(effect.move.target for effect in effects):
        found += _of_number([effect for effect in effects if effect.move.target == target], tellable)
    return sorted(found, key=lambda adoption: -adoption.gain)


def _of_number(effects: Sequence[Effect], tellable: Collection[str]) -> list[Adoption]:
    base = max(
        (effect for effect in effects if effect.everywhere.low > 1), key=lambda effect: effect.everywhere.ratio, default=None
    )
    found = []
    if base is not None:
        gain = math.log(base.everywhere.ratio) * sum(base.shares.values())
        found.append(_adoption(base.move, base.move.new, None, gain))
    for region in dict.fromkeys(name for effect in effects for name in effect.regions if name in tellable):
        if (own := _of_region(effects, base, region)) is not None:
            found.append(own)
    return found


def _of_region(effects: Sequence[Effect], base: Effect | None, region: str) -> Adoption | None:
    """The value that a region takes for itself, None where it goes with ``base`` (None: with the old value)."""
    here = [effect for effect in effects if region in effect.regions and effect is not base]
    known = base.regions.get(region) if base is not None else None
    floor = known.high if known is not None else 1.0
    best = max(here, key=lambda effect: effect.regions[region].ratio, default=None)
    if best is not None and best.regions[region].low > max(floor, 1.0):
        gain = math.log(best.regions[region].ratio / (known.ratio if known else 1.0)) * best.shares[region]
        return _adoption(best.move, best.move.new, region, gain)
    if base is not None and known is not None and known.high < 1:
        return _adoption(base.move, base.move.old, region, -math.log(known.ratio) * base.shares[region])
    return None


def _adoption(move: Move, new: int, region: str | None, gain: float) -> Adoption:
    return Adoption(target=move.target, key=move.key, old=move.old, new=new, region=region, gain=gain)


def applied(source: str, knobs: Sequence[Knob], kept: Sequence[Adoption], conditions: Mapping[str, str]) -> str | None:
    """The source with these values, None where the plan's text doesn't let one of them be written alone.

    ``conditions`` hold exactly in the regions they are named by. A value for a region becomes a case before the number that it
    takes the region from.
    """
    cases = {knob.name: knob.cases for knob in knobs}
    changed: str | None = source
    for one in sorted(kept, key=lambda one: (one.region is not None, one.target.case is not None, -(one.target.case or 0))):
        if changed is None:
            return None
        if one.region is None:
            changed = change(changed, one.target, one.new)
            continue
        condition = conditions[one.region]
        if one.target.case is not None:
            condition = f"({condition}) and ({cases[one.target.name][one.target.case][0]})"
        changed = add_case(changed, one.target, condition, one.new)
    return changed


def conditions_of(regions: Mapping[str, str], symbols: Collection[str]) -> dict[str, str]:
    """For each region of a task a condition over scenario symbols that holds in it alone.

    ``regions`` maps names to conditions in their order; a scenario belongs to the first that fits. One that needs other names
    than symbols can't be told in a plan, nor can those after it.
    """
    found: dict[str, str] = {}
    earlier: list[str] = []
    for region, text in regions.items():
        if not parse(text).names <= set(symbols):
            break
        found[region] = f"({text}) and not ({' or '.join(earlier)})" if earlier else text
        earlier.append(f"({text})")
    return found
