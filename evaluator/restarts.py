"""All races of a set against one opponent; in a final each race is split among fresh pairs of processes, round by round.

An interval over the blocks of one race says nothing of what a single start of its processes decides, and little of what the host
does for minutes on end. In a final every program is therefore raced ``settings.restarts`` times, each time with new processes and
buffers (a baseline's process stays warm and gets new buffers), and all programs once before any again, so that the races of one
pair lie apart in time as well.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evaluator.backend import Program
from evaluator.findings import Findings
from evaluator.fitness import interval_of
from evaluator.outcome import Effort, Fault, Timing
from evaluator.settings import HarnessSettings
from evaluator.stages import Opponent, race_opponent
from evaluator.statistics import median, over_restarts


def race_all(
    findings: Findings, rng: np.random.Generator, programs: Sequence[Program], opponent: Opponent
) -> list[Timing] | Fault:
    """One timing for each program, in their order, or the first fault."""
    settings = findings.session.settings
    rounds = settings.restarts if findings.request.effort is Effort.FINAL else 1
    looks = looks_of_a_round(settings.looks, rounds)
    races: list[list[Timing]] = [[] for _ in programs]
    for _ in range(rounds):
        for program, own in zip(programs, races, strict=True):
            timing = race_opponent(findings, rng, program, opponent, looks=looks)
            if isinstance(timing, Fault):
                return replace(timing, scenario=program.scenario.name)
            own.append(timing)
    return [own[0] if rounds == 1 else combined(own, settings) for own in races]


def looks_of_a_round(looks: tuple[int, ...], rounds: int) -> tuple[int, ...]:
    """The looks of one of ``rounds`` races that share the blocks of a whole one: those in its share, at least the first."""
    return tuple(look for look in looks if look <= max(looks[0], looks[-1] // rounds))


def combined(races: Sequence[Timing], settings: HarnessSettings) -> Timing:
    """One timing of several races of the same pair; times are medians over the races, blocks are counted together."""
    interval = over_restarts([interval_of(item) for item in races], settings.alpha)
    return replace(
        races[0],
        ratio=interval.ratio,
        low=interval.low,
        high=interval.high,
        candidate_us=median([item.candidate_us for item in races]),
        opponent_us=median([item.opponent_us for item in races]),
        blocks=sum(item.blocks for item in races),
        dropped=sum(item.dropped for item in races),
        ambiguous=interval.half_width > settings.ambiguous_half_width,
    )
