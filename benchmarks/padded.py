"""For benchmarks/noise.py: kernels that are slower by a known share, by one more launch whose work is calibrated in races."""

import re
import time
from collections.abc import Sequence

import numpy as np

from evaluator.backend import Program
from evaluator.findings import Findings
from evaluator.outcome import Fault, Timing
from evaluator.preparation import Prepared, prepare
from evaluator.request import Request
from evaluator.session import Session
from evaluator.stages import race_opponent, rival_opponent
from evaluator.task_card import Scenario
from population.candidate import Candidate, Language
from population.novelty import candidate_of

FIRST_GUESS_US = 0.0025  # one step: about four cycles of a dependent multiply-add
TRIAL_SHARE = 0.2
WORK = {
    Language.CUDA: """
extern "C" __global__ void pad_work(float* sink, int spins) {
    float x = 1.0f + 1e-9f * spins;
    for (int i = 0; i < spins; ++i) x = fmaf(x, 0.999f, 0.5f);
    if (threadIdx.x == 0) *sink = x;
}
""",
    Language.CPP: """
extern "C" void pad_work(long, void* const* args) {
    const int spins = *static_cast<const int*>(args[1]);
    float x = 1.0f + 1e-9f * spins;
    for (int i = 0; i < spins; ++i) x = x * 0.999f + 0.5f;
    *static_cast<float*>(args[0]) = x;
}
""",
}


def padded(source: str, language: Language, spins: Sequence[tuple[Scenario, int]]) -> Candidate:
    """The kernel with one more launch, a chain of so many dependent steps in each of the scenarios, of none in others."""
    plan, end, code = source.partition("*/")
    block = "block = [32]\n" if language is Language.CUDA else ""
    plan = _with_entry(plan, "workspace", 'pad_sink = { dtype = "float32", shape = [1] }')
    plan = _with_entry(plan, "scalars", f'pad_spins = "{_expression(spins)}"')
    plan += f'\n[[launch]]\nkernel = "pad_work"\ngrid = [1]\n{block}args = ["pad_sink", "pad_spins"]\n'
    return candidate_of(plan + end + code + WORK[language], language)


def _expression(spins: Sequence[tuple[Scenario, int]]) -> str:
    text = "0"
    for scenario, count in spins:
        where = " and ".join(f"{name} == {value}" for name, value in scenario.symbols.items() if isinstance(value, int))
        text = f"{count} if {where} else ({text})"
    return text


def _with_entry(plan: str, table: str, entry: str) -> str:
    """The plan with one more line in a table, which is made before the first launch where there is none."""
    header = f"[{table}]\n"
    if f"\n{header}" in plan:
        return plan.replace(f"\n{header}", f"\n{header}{entry}\n", 1)
    return re.sub(r"^\[\[launch\]\]", f"{header}{entry}\n\n[[launch]]", plan, count=1, flags=re.MULTILINE)


class Ladder:
    """One seed at any share of slowness in some scenarios of a session; ``base`` has the additional launch without its work."""

    def __init__(self, session: Session, source: str, rng: np.random.Generator, scenarios: Sequence[Scenario]) -> None:
        self._session, self._source, self._language = session, source, session.backend.language
        self.base = self.prepared(padded(source, self._language, ()))
        trial = []
        for one in scenarios:
            time_us = self.race(self.base, one, rng).candidate_us
            trial.append((one, max(1, round(TRIAL_SHARE * time_us / FIRST_GUESS_US))))
        heavier = self.prepared(padded(source, self._language, trial))
        self._spins_per_share = [(one, spins / (1.0 / self.race(heavier, one, rng).ratio - 1.0)) for one, spins in trial]

    def candidate(self, share: float) -> Candidate:
        """The source that takes 1 + share times as long in each scenario."""
        return padded(self._source, self._language, [(one, round(share * spins)) for one, spins in self._spins_per_share])

    def prepared(self, candidate: Candidate) -> Prepared:
        """The candidate, built; SystemExit with the reason where it isn't right."""
        found = prepare(self._session, candidate, self._session.card)
        if isinstance(found, Fault):
            raise SystemExit(f"a padded kernel doesn't build: {found.verdict}: {found.message}\n{found.detail}")
        return found

    def race(self, prepared: Prepared, scenario: Scenario, rng: np.random.Generator) -> Timing:
        """The prepared kernel against ``base``."""
        program = program_of(prepared, scenario)
        findings = Findings(session=self._session, request=Request(candidate=prepared.candidate), started_s=time.monotonic())
        raced = race_opponent(findings, rng, program, rival_opponent(self._session, self.base))
        if isinstance(raced, Fault):
            raise SystemExit(f"a race of a padded kernel failed: {raced.verdict}: {raced.message}\n{raced.detail}")
        return raced


def program_of(prepared: Prepared, scenario: Scenario) -> Program:
    return next(program for program in prepared.programs if program.scenario.name == scenario.name)
