"""Invented outcomes: a landscape over knobs that costs nothing to explore, for property tests and for trying settings.

Nothing is compiled or run. The device's kind is ``simulated`` wherever such a number is shown.
"""

import hashlib
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evaluator.outcome import Check, Device, Effort, Fault, Fitness, Outcome, Stage, Timing, Verdict
from evaluator.plan.knobs import knob_values
from evaluator.plan.parse import parse_plan
from evaluator.plan.resolve import supported
from evaluator.request import Request
from evaluator.task_card import Scenario, TaskCard
from population.candidate import Candidate

DEVICE = Device(kind="simulated", name="simulated, nothing was measured", arch="none", cores=1, peak_tflops=1.0, peak_gbs=1.0)

_HALF_WIDTH = {Effort.SEARCH: 0.01, Effort.FINAL: 0.003}  # of an interval, as a logarithm
_FAILURES = ((0.04, Verdict.COMPILE_ERROR, Stage.BUILD), (0.08, Verdict.WRONG, Stage.CHECK), (0.10, Verdict.CRASH, Stage.CHECK))


@dataclass(frozen=True, slots=True)
class _Point:
    """What an outcome depends on: the source below the plan, and for each scenario of the domain the knobs' values."""

    body: str
    knobs: Mapping[str, Mapping[str, int]]


class SimulatedEvaluator:
    """Outcomes as a pure function of seed, source and effort: the same source always scores the same.

    Every knob has a best value, drawn from the seed for each region; each doubling away from it costs two per cent. Some
    pairs of knobs interact, bodies differ by a constant, and a tenth of all settings fails. ``delay_s`` gives the seconds
    that an evaluation takes, so that results may arrive in any order; it doesn't enter the outcome.
    """

    def __init__(self, card: TaskCard, seed: int, delay_s: Callable[[Request], float] | None = None) -> None:
        self._card = card
        self._seed = seed
        self._delay_s = delay_s

    def evaluate(self, request: Request) -> Outcome:
        """The invented outcome; plan errors are real ones."""
        if self._delay_s is not None:
            time.sleep(self._delay_s(request))
        point = self._point(request.candidate)
        fault = point if isinstance(point, Fault) else self._failure(point)
        if isinstance(point, Fault) or fault is not None:
            return self._outcome(request, fault, (), (), ())
        timings = self._races(request, point)
        opponents = dict.fromkeys(timing.opponent for timing in timings)
        fits = [_fitness(name, [timing for timing in timings if timing.opponent == name]) for name in opponents]
        return self._outcome(request, None, tuple(point.knobs), timings, fits)

    def close(self) -> None:
        """Nothing is kept."""

    def _point(self, candidate: Candidate) -> _Point | Fault:
        plan = parse_plan(candidate.source, candidate.language, self._card)
        if isinstance(plan, Fault):
            return plan
        scenarios = supported(plan, self._card)
        if isinstance(scenarios, Fault):
            return scenarios
        values = {scenario.name: knob_values(plan.knobs, scenario.symbols, scenario.name) for scenario in scenarios}
        return _Point(candidate.source.partition("*/")[2].strip(), values)

    def _failure(self, point: _Point) -> Fault | None:
        chance = self._unit("failure", point.body, sorted((name, sorted(knobs.items())) for name, knobs in point.knobs.items()))
        for limit, verdict, stage in _FAILURES:
            if chance < limit:
                return Fault(verdict=verdict, stage=stage, message=f"simulated {verdict}: one setting in ten fails, this is one")
        return None

    def _races(self, request: Request, point: _Point) -> Sequence[Timing]:
        """Against every baseline of the task, each 5 % faster than the one before, and against the rivals."""
        timings = []
        others = [rival for rival in request.rivals if rival.id != request.candidate.id]
        rivals = [(f"candidate:{rival.id}", other) for rival in others if isinstance(other := self._point(rival), _Point)]
        for scenario in self._card.scenarios:
            if scenario.name not in point.knobs:
                continue
            own = self._score(scenario, point)
            for place, baseline in enumerate(self._card.baselines):
                timings.append(self._timing(request, scenario, baseline, own - 0.05 * place))
            for name, other in rivals:
                if scenario.name in other.knobs:
                    timings.append(self._timing(request, scenario, name, own - self._score(scenario, other)))
        return timings

    def _score(self, scenario: Scenario, point: _Point) -> float:
        """Logarithm of the true ratio to the first baseline in a scenario."""
        knobs = point.knobs[scenario.name]
        score = 0.2 * self._unit("body", point.body) - 0.1
        for name, value in knobs.items():
            doublings = abs(math.log2(1 + abs(value)) - 8 * self._unit("best", name, scenario.region))
            score += 0.03 - 0.02 * doublings
        names = sorted(knobs)
        for first, second in itertools.pairwise(names):
            score += 0.03 * (self._unit("pair", first, knobs[first], second, knobs[second]) - 0.5)
        return score

    def _timing(self, request: Request, scenario: Scenario, opponent: str, score: float) -> Timing:
        half = _HALF_WIDTH[request.effort]
        noise = self._unit("noise", request.effort, request.candidate.id, scenario.name, opponent) - 0.5
        ratio = math.exp(score + half * noise)
        own_us = (100.0 + 900.0 * self._unit("time", scenario.name)) * math.exp(-score)
        return Timing(
            scenario=scenario.name,
            opponent=opponent,
            ratio=ratio,
            low=ratio * math.exp(-half),
            high=ratio * math.exp(half),
            candidate_us=own_us,
            opponent_us=own_us * ratio,
            blocks=8,
            floor_us=10.0,
            bound="flop",
        )

    def _unit(self, *parts: object) -> float:
        """A number in [0, 1) that depends on the seed and the parts alone, on any machine."""
        digest = hashlib.sha256(repr((self._seed, *map(str, parts))).encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:6], "big") / 2**48

    def _outcome(
        self,
        request: Request,
        fault: Fault | None,
        claimed: tuple[str, ...],
        timings: Sequence[Timing],
        fits: Sequence[Fitness],
    ) -> Outcome:
        return Outcome(
            candidate_id=request.candidate.id,
            effort=request.effort,
            verdict=fault.verdict if fault else Verdict.OK,
            stage=fault.stage if fault else Stage.SCORE,
            message=fault.message if fault else "a simulated score",
            device=DEVICE,
            task_hash=self._card.hash,
            harness="simulated",
            wall_s=0.0,
            fault=fault,
            supported=claimed,
            checks=tuple(_check(name, self._card) for name in claimed),
            timings=tuple(timings),
            fitness=fits[0] if fits else None,
            versus=tuple(fits[1:]),
            noise_floor_pct=None if fault else 100 * _HALF_WIDTH[request.effort],
            notes=("simulated: no kernel was built or run",),
        )


def _check(scenario: str, card: TaskCard) -> Check:
    output = next(tensor.name for tensor in card.tensors if tensor.role == "output")
    return Check(
        scenario=scenario,
        distribution="simulated",
        tensor=output,
        passed=True,
        max_error=0.0,
        max_allowed=1.0,
        rms_error=0.0,
        rms_allowed=1.0,
    )


def _fitness(opponent: str, timings: Sequence[Timing]) -> Fitness:
    worst = min(timings, key=lambda timing: timing.ratio)
    return Fitness(
        opponent=opponent,
        geomean=_geomean([timing.ratio for timing in timings]),
        low=_geomean([timing.low for timing in timings]),
        high=_geomean([timing.high for timing in timings]),
        scenarios=len(timings),
        worst_scenario=worst.scenario,
        worst_ratio=worst.ratio,
    )


def _geomean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))
