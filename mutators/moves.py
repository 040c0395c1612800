"""Moves of the numbers that a plan declares as knobs, each weighed by what is known of such moves."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mutators.answerers.base import Relative
from mutators.attempts import assignment_of
from mutators.knob_roles import suits
from mutators.plan_text import Target
from mutators.question import Layer
from population.candidate import Knob

SUITED = 4.0
"""How much likelier a knob is moved that belongs to the question's layer."""

FAR_SHARE = 0.35
"""Weight of a step by two choices against a step by one; each further choice counts this much less again."""

TRUST, MIN_WEIGHT, MAX_WEIGHT = 15.0, 0.1, 8.0
"""A move that earlier gave a mean log ratio g over n tries weighs exp(TRUST g n / (n + 1)), within these limits."""

EXPECTED = 1.02
"""Predicted ratio of a move that nothing is known about."""

Gains = Mapping[tuple[str, bool], Sequence[float]]
"""Log ratios that earlier moves gave, by number and direction (True: upwards)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One number from ``old`` to ``new``; ``steps`` counts choices, negative towards smaller ones."""

    target: Target
    key: str
    old: int
    new: int
    steps: int
    weight: float
    expected: float


def moves_of(knobs: Sequence[Knob], layer: Layer, gains: Gains) -> list[Move]:
    """Every number of a plan to every other choice, weighed by the layer that is asked about and by earlier moves."""
    moves = []
    for knob in knobs:
        targets = [(Target(name=knob.name), knob.name, knob.value)]
        targets += [
            (Target(name=knob.name, case=index), f"{knob.name} when {condition}", value)
            for index, (condition, value) in enumerate(knob.cases)
        ]
        for target, key, old in targets:
            moves += [_move(knob, layer, target, key, old, new, gains) for new in knob.choices if new != old]
    return moves


def gains_of(knobs: Sequence[Knob], children: Sequence[Relative], lineage: Sequence[Relative]) -> Gains:
    """What moves from a kernel with these knobs gave its children, and those along its own line (oldest first).

    A move of two numbers counts half for each.
    """
    gains: dict[tuple[str, bool], list[float]] = {}
    current = assignment_of(knobs)
    steps = [(current, child) for child in children]
    steps += [(before.knobs, after) for before, after in itertools.pairwise(lineage)]
    for before, after in steps:
        moved = [key for key, value in after.knobs.items() if key in before and before[key] != value]
        if after.ratio is None or after.ratio <= 0 or not 1 <= len(moved) <= 2:
            continue
        for key in moved:
            gains.setdefault((key, after.knobs[key] > before[key]), []).append(math.log(after.ratio) / len(moved))
    return gains


def _move(knob: Knob, layer: Layer, target: Target, key: str, old: int, new: int, gains: Gains) -> Move:
    ladder = sorted({*knob.choices, old})
    steps = ladder.index(new) - ladder.index(old)
    known = gains.get((key, steps > 0), ())
    mean = sum(known) / len(known) if known else 0.0
    learnt = math.exp(TRUST * mean * len(known) / (len(known) + 1))
    weight = min(MAX_WEIGHT, max(MIN_WEIGHT, learnt)) * FAR_SHARE ** (abs(steps) - 1)
    return Move(
        target=target,
        key=key,
        old=old,
        new=new,
        steps=steps,
        weight=weight * (SUITED if suits(knob.name, layer) else 1.0),
        expected=math.exp(mean) if known else EXPECTED,
    )
