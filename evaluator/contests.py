"""A final's races against everybody but the primary baseline, which may go on over several batches of programs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from evaluator.backend import Program
from evaluator.baseline import Baseline
from evaluator.findings import Findings
from evaluator.fitness import fitness
from evaluator.outcome import Fault, Fitness
from evaluator.preparation import Prepared
from evaluator.restarts import race_all
from evaluator.stages import Opponent, slower_than

OUTCLASSED_BY = 1.15


@dataclass(slots=True, kw_only=True)
class Contest:
    """Races against one opponent: a baseline, or a rival over the ``scenarios`` that it claims.

    Where two executions show that a baseline takes OUTCLASSED_BY times as long as the primary one, it can't be the best of all
    and isn't raced; ``slower`` holds by how much, scenario by scenario. After a fault in a race, which the candidate's own score
    survives, no more races are held.
    """

    opponent: Opponent
    baseline: Baseline | None = None
    scenarios: Collection[str] = ()
    raced: list[str] = field(default_factory=list)
    slower: dict[str, float] = field(default_factory=dict)
    broken: bool = False

    def hold(self, findings: Findings, rng: np.random.Generator, programs: Sequence[Program]) -> None:
        """Race the programs, as far as the opponent computes them, once they have been raced against the primary baseline."""
        worth = self._worth(findings, rng, programs)
        raced = () if self.broken else race_all(findings, rng, worth, self.opponent)
        if isinstance(raced, Fault):
            self.broken = True
            findings.note(f"no score against {self.opponent.name}: {raced.verdict} in {raced.scenario}: {raced.message}")
            return
        self.raced += [timing.scenario for timing in raced]
        findings.timings.extend(raced)

    def score(self, findings: Findings) -> Fitness | None:
        """The score over all that was raced; None where the opponent was outclassed, or a race failed."""
        if self.slower:
            name, primary = self.opponent.name, findings.session.primary.name
            findings.outclassed.append(name)
            computed = len(self.slower) + len(self.raced)
            findings.note(
                f"{name} takes {min(self.slower.values()):.2f} to {max(self.slower.values()):.2f} times as long as {primary} in "
                f"{len(self.slower)} of the {computed} scenarios that it computes, and wasn't raced there"
            )
        if self.slower or self.broken:
            return None
        return fitness(self.raced, findings.checks, findings.timings, self.opponent.name)

    def _worth(self, findings: Findings, rng: np.random.Generator, programs: Sequence[Program]) -> Sequence[Program]:
        if self.baseline is None:
            return [program for program in programs if program.scenario.name in self.scenarios]
        primary = findings.session.primary.name
        primary_us = {timing.scenario: timing.opponent_us for timing in findings.timings if timing.opponent == primary}
        worth = []
        for program in programs:
            if self.broken or not self.baseline.supports(program.scenario.symbols):
                continue
            share = slower_than(findings.session, rng, program, self.baseline, primary_us[program.scenario.name])
            if share is not None and share > OUTCLASSED_BY:
                self.slower[program.scenario.name] = share
            else:
                worth.append(program)
        return worth


def claimed(rival: Prepared) -> Collection[str]:
    """The names of the scenarios that a rival claims."""
    return {program.scenario.name for program in rival.programs}
