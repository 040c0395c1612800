"""What an evaluation has found so far, and the outcome that it amounts to."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evaluator.backend import Facts, Lease
from evaluator.outcome import Check, Fault, Fitness, Outcome, Stage, Timing, Verdict
from evaluator.request import Request
from evaluator.session import Session
from evaluator.settings import harness_id

SIZES = ("bytes", "registers")


@dataclass(slots=True, kw_only=True)
class Findings:
    """Collects evidence while the stages run; ``outcome`` freezes it. ``lease`` is the device while it is held."""

    session: Session
    request: Request
    started_s: float
    supported: tuple[str, ...] = ()
    checks: list[Check] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    facts: dict[str, int | float | str | bool] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    outclassed: list[str] = field(default_factory=list)
    lease: Lease = field(default_factory=Lease)

    def note(self, text: str) -> None:
        """Keep a note once."""
        if text not in self.notes:
            self.notes.append(text)

    def learn(self, facts: Facts) -> None:
        """Keep what the driver says of one scenario's launches: over scenarios the largest sizes and the least of all else.

        All else is what fits on the device at once, and whether launches are replayed.
        """
        for name, value in facts.items():
            known = self.facts.get(name, value)
            if not isinstance(value, str) and not isinstance(known, str):
                self.facts[name] = (max if name.endswith(SIZES) else min)(known, value)
            else:
                self.facts[name] = known

    def refused(self, fault: Fault) -> Outcome:
        """The outcome that a fault ends with."""
        return self._outcome(fault.verdict, fault.stage, fault.message, fault=fault)

    def ended(self, verdict: Verdict, stage: Stage, message: str, fitness: Fitness | None = None) -> Outcome:
        """An outcome that isn't a fault but decides nothing: SLOWER, or AMBIGUOUS with the fitness as far as it is known."""
        return self._outcome(verdict, stage, message, fitness=fitness)

    def scored(self, score: Fitness, versus: tuple[Fitness, ...] = ()) -> Outcome:
        """OK with its score."""
        message = (
            f"{score.geomean:.3f} times {score.opponent} [{score.low:.3f}, {score.high:.3f}] over {score.scenarios} scenarios; "
            f"worst {score.worst_scenario} at {score.worst_ratio:.3f}"
        )
        return self._outcome(Verdict.OK, Stage.SCORE, message, fitness=score, versus=versus)

    def _outcome(
        self,
        verdict: Verdict,
        stage: Stage,
        message: str,
        *,
        fault: Fault | None = None,
        fitness: Fitness | None = None,
        versus: tuple[Fitness, ...] = (),
    ) -> Outcome:
        session = self.session
        controls = session.controls
        facts: Mapping[str, int | float | str | bool] = {**self.facts, **self.lease.facts()}
        return Outcome(
            candidate_id=self.request.candidate.id,
            effort=self.request.effort,
            verdict=verdict,
            stage=stage,
            message=message,
            device=session.backend.device,
            task_hash=session.card.hash,
            harness=harness_id(session.settings),
            wall_s=session.clock() - self.started_s,
            fault=fault,
            supported=self.supported,
            checks=tuple(self.checks),
            timings=tuple(self.timings),
            fitness=fitness,
            versus=versus,
            facts=facts,
            noise_floor_pct=None if controls is None else controls.noise_floor_pct,
            controls=() if controls is None else controls.races,
            notes=(*self.notes, *self._disturbances(), *(() if controls is None else controls.notes)),
        )

    def _disturbances(self) -> tuple[str, ...]:
        """What the device says of disturbances, how many blocks they cost, and where disturbed ones had to be kept."""
        hit = [timing for timing in self.timings if timing.dropped]
        if not hit:
            return tuple(self.lease.notes())
        worst = max(hit, key=lambda timing: timing.dropped / timing.blocks)
        text = (
            f"{sum(timing.dropped for timing in hit)} blocks were dropped as disturbed in {len(hit)} of {len(self.timings)} "
            f"races, most in {worst.scenario} against {worst.opponent}: {worst.dropped} beside {worst.blocks} kept"
        )
        limit = self.session.settings.max_dropped_share
        full = sum(timing.dropped >= limit * timing.blocks for timing in hit)
        more = f"; {full} of these races reached the limit, so that disturbed blocks may be among those kept" if full else ""
        return (*self.lease.notes(), text + more)
