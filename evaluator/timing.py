"""The race: candidate against one opponent in one scenario, block by block, until the interval is narrow enough.

A block times four windows, A B B A or B A A B by turns, so that neither side always runs first. A window is a batch of distinct
executions. All buffers of a block are filled before its first window and compared after its last, outside the clock: all of
them, or as many of each window as the terms say, drawn in secret.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.backend import Array, Side
from evaluator.disturbance import Pressure, cpu_pressure_us
from evaluator.outcome import Fault, Stage, Timing, Verdict
from evaluator.pool import Draw
from evaluator.roofline import Floor
from evaluator.settings import HarnessSettings
from evaluator.statistics import Block, Interval, beyond_one_start, is_time, log_ratio, look_interval, median

POISONS = 3

Judge = Callable[[Draw, Mapping[str, Array]], Fault | None]
"""What is wrong with the outputs of one execution, as they were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """The terms of a race.

    ``draw`` gives fresh inputs; ``judge`` says what is wrong with an execution of the candidate, ``judge_opponent`` with one of
    the opponent, which may leave outputs out. A race whose interval lies wholly below ``stop_below`` ends at that look.
    ``deadline_s`` is what one execution may take. ``pressure`` tells of disturbances from outside. ``compared`` is how many
    executions of each window are judged, drawn after it has run; None: all. A race of which only a first impression is wanted
    ends after ``most_looks`` of its looks; where its interval is narrow by then, it is a whole race.
    """

    scenario: str
    opponent: str
    draw: Callable[[], Draw]
    judge: Judge
    judge_opponent: Judge
    floor: Floor
    deadline_s: float
    settings: HarnessSettings
    rng: np.random.Generator
    clock: Callable[[], float] = time.monotonic
    pressure: Pressure = cpu_pressure_us
    stop_below: float | None = None
    compared: int | None = None
    most_looks: int | None = None

    def between_equals(self) -> "Race":
        """The same terms where the candidate is a copy of the opponent and leaves out the same outputs."""
        return replace(self, judge=self.judge_opponent)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """One batch of one side: which slots, and what they were filled with."""

    slots: Sequence[int]
    draws: Sequence[Draw]


def race(candidate: Side, opponent: Side, terms: Race) -> Timing | Fault:
    """The timing of ``candidate`` against ``opponent``, or the fault that ended the race.

    A fault of the opponent comes back as HARNESS_FAULT: it is never the candidate's.
    """
    batch = _batch(candidate, opponent, terms)
    if isinstance(batch, Fault):
        return batch
    settings = terms.settings
    blocks: list[Block] = []
    dropped = 0
    started = terms.clock()
    for look in settings.looks[: terms.most_looks]:
        while len(blocks) < look:
            timed = _block(candidate, opponent, batch, first=not blocks, leads=(len(blocks) + dropped) % 2 == 0, terms=terms)
            if isinstance(timed, Fault):
                return timed
            block, disturbed = timed
            if disturbed and dropped < settings.max_dropped_share * look:
                dropped += 1
            else:
                blocks.append(block)
        fault = candidate.audit()
        if fault is not None:
            return fault
        interval = look_interval([log_ratio(block) for block in blocks], settings.alpha, len(settings.looks))
        if _hopeless(_whole(blocks, interval, settings), terms) or interval.half_width <= settings.narrow_half_width:
            break
        if terms.clock() - started >= settings.race_cap_s:
            break
    return _timing(blocks, interval, dropped, terms)


def _hopeless(whole: Interval, terms: Race) -> bool:
    return terms.stop_below is not None and whole.high < terms.stop_below


def _whole(blocks: Sequence[Block], interval: Interval, settings: HarnessSettings) -> Interval:
    """The interval with what further blocks can't show: how races of the same pair differ from start to start."""
    candidate_us = median([value for block in blocks for value in block.candidate_us])
    opponent_us = median([value for block in blocks for value in block.opponent_us])
    return beyond_one_start(interval, settings.between_starts_us / min(candidate_us, opponent_us), settings.alpha)


def _timing(blocks: Sequence[Block], interval: Interval, dropped: int, terms: Race) -> Timing:
    whole = _whole(blocks, interval, terms.settings)
    return Timing(
        scenario=terms.scenario,
        opponent=terms.opponent,
        ratio=whole.ratio,
        low=whole.low,
        high=whole.high,
        candidate_us=median([value for block in blocks for value in block.candidate_us]),
        opponent_us=median([value for block in blocks for value in block.opponent_us]),
        blocks=len(blocks),
        floor_us=terms.floor.us,
        bound=terms.floor.bound,
        ambiguous=interval.half_width > terms.settings.ambiguous_half_width and not _hopeless(whole, terms),
        dropped=dropped,
    )


def _batch(candidate: Side, opponent: Side, terms: Race) -> int | Fault:
    """Executions per window, the same on both sides, after both have run until their times are level."""
    levels = []
    for side, is_candidate in ((opponent, False), (candidate, True)):
        level_us = _level_us(side, terms, is_candidate)
        if isinstance(level_us, Fault):
            return level_us
        levels.append(level_us)
    most = min(candidate.slots, opponent.slots) // 2
    if most < 1:
        return _ours(terms, f"a race needs two slots a side, got {candidate.slots} and {opponent.slots}")
    return max(1, min(most, math.ceil(terms.settings.batch_us / min(levels))))


def _level_us(side: Side, terms: Race, is_candidate: bool) -> float | Fault:
    """Time of one execution once two in a row agree, or after ``warm_runs`` of them."""
    last_us = math.inf
    for _ in range(terms.settings.warm_runs):
        draw = terms.draw()
        side.fill(0, draw.inputs, int(terms.rng.integers(POISONS)))
        now_us = _window_us(side, [0], terms, is_candidate)
        if isinstance(now_us, Fault):
            return now_us
        if abs(now_us - last_us) <= terms.settings.warm_agreement * now_us:
            return now_us
        last_us = now_us
    return last_us


def _block(candidate: Side, opponent: Side, batch: int, *, first: bool, leads: bool, terms: Race) -> tuple[Block, bool] | Fault:
    """Times of one ABBA block and whether something disturbed it; a fault where an execution was wrong or failed."""
    draws = [[terms.draw() for _ in range(batch)] for _ in range(2)]
    windows = {is_candidate: _filled(side, draws, terms) for side, is_candidate in ((candidate, True), (opponent, False))}
    times: dict[bool, list[float]] = {True: [], False: []}
    waited_us, began = terms.pressure(), terms.clock()
    for is_candidate in (leads, not leads, not leads, leads):
        side = candidate if is_candidate else opponent
        window = windows[is_candidate][len(times[is_candidate])]
        taken_us = _window_us(side, window.slots, terms, is_candidate)
        if isinstance(taken_us, Fault):
            return taken_us
        times[is_candidate].append(taken_us)
    disturbed = _disturbed(waited_us, began, terms)
    fault = _judge(candidate, windows[True], terms.judge, terms)
    if fault is not None:
        return fault
    fault = _judge(opponent, windows[False][:1], terms.judge_opponent, terms) if first else None
    if fault is not None:
        return _theirs(terms, fault)
    block = Block(
        candidate_us=(times[True][0], times[True][1]),
        opponent_us=(times[False][0], times[False][1]),
    )
    return block, disturbed


def _filled(side: Side, draws: Sequence[Sequence[Draw]], terms: Race) -> list[_Window]:
    """Two windows over random distinct slots, filled in random order, so that buffers move from block to block."""
    batch = len(draws[0])
    slots = [int(slot) for slot in terms.rng.permutation(side.slots)[: 2 * batch]]
    windows = [_Window(slots=slots[:batch], draws=draws[0]), _Window(slots=slots[batch:], draws=draws[1])]
    pairs = [pair for window in windows for pair in zip(window.slots, window.draws, strict=True)]
    for index in terms.rng.permutation(len(pairs)):
        slot, draw = pairs[int(index)]
        side.fill(slot, draw.inputs, int(terms.rng.integers(POISONS)))
    return windows


def _window_us(side: Side, slots: Sequence[int], terms: Race, is_candidate: bool) -> float | Fault:
    """Time of one execution in a batch over ``slots``, after the checks that a time must pass."""
    ran = side.run(slots, terms.deadline_s * len(slots))
    if isinstance(ran, Fault):
        return ran if is_candidate else _theirs(terms, ran)
    each_us = ran.elapsed_us / len(slots)
    if not is_time(each_us):
        return _ours(terms, f"the clock gave {ran.elapsed_us} us for {len(slots)} executions")
    if each_us < terms.settings.physics_factor * terms.floor.us:
        message = (
            f"{each_us:.3g} us an execution, but this device needs at least {terms.floor.us:.3g} us for the "
            f"{terms.floor.bound} of {terms.scenario}: no kernel that does the whole work is that fast. "
            "Compute every output element from the inputs of this execution."
        )
        fault = Fault(verdict=Verdict.TOO_FAST, stage=Stage.TIME, message=message, scenario=terms.scenario)
        return fault if is_candidate else _theirs(terms, fault)
    return each_us


def _disturbed(waited_us: int | None, began: float, terms: Race) -> bool:
    now_us = terms.pressure()
    if waited_us is None or now_us is None:
        return False
    return now_us - waited_us > terms.settings.disturbed_share * (terms.clock() - began) * 1e6


def _judge(side: Side, windows: Sequence[_Window], judge: Judge, terms: Race) -> Fault | None:
    """What is wrong with the first wrong execution among those of the windows that are compared."""
    for window in windows:
        every = range(len(window.slots))
        chosen = every if terms.compared is None else sorted(terms.rng.permutation(every)[: terms.compared])
        for index in chosen:
            fault = judge(window.draws[index], side.read(window.slots[index]))
            if fault is not None:
                return fault
    return None


def _theirs(terms: Race, fault: Fault) -> Fault:
    """A fault of the opponent, which the candidate must not pay for."""
    return Fault(
        verdict=Verdict.HARNESS_FAULT,
        stage=Stage.TIME,
        message=f"the opponent {terms.opponent} failed in {terms.scenario} ({fault.verdict}): {fault.message}",
        detail=fault.detail,
        scenario=terms.scenario,
    )


def _ours(terms: Race, message: str) -> Fault:
    return Fault(verdict=Verdict.HARNESS_FAULT, stage=Stage.TIME, message=message, scenario=terms.scenario)
