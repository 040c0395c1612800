"""What a run spends beside candidates: counted from its events, the same for a driver that goes on, and an end to the run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluator.request import Request
from evaluator.simulated import SimulatedEvaluator
from evolve.api import resume, run
from evolve.chat import charging
from evolve.desks import ThreadDesk
from evolve.executors.base import Done
from evolve.stopping import StopReason
from mutators.answerers.base import Prompt
from mutators.answerers.budget import Amounts, Caps, Ledger, Resource
from mutators.answerers.failures import BudgetSpent
from mutators.question import Answer, Usage
from results.events import StepEvaluated
from results.mailbox import Mailbox
from tests.evolve.simulation import ShuffledExecutor, card, config, stored
from tests.mutators.chatting import prompt

HELD_S = 90.0


class OnGpu(ShuffledExecutor):
    """A shuffled executor whose evaluations hold a GPU for ``HELD_S``."""

    def collect(self, timeout_s: float) -> Sequence[Done]:
        return [replace(done, outcome=held(done)) for done in super().collect(timeout_s)]


def held(done: Done) -> object:
    return replace(done.outcome, facts={**done.outcome.facts, "lease_s": HELD_S})


def on_gpu() -> OnGpu:
    return OnGpu(SimulatedEvaluator(card(), 5), 2, 0)


def test_gpu_hours_end_a_run_and_a_larger_budget_goes_on(tmp_path: Path) -> None:
    first = run(config(budget={"candidates": 24, "gpu_hours": 0.2}), root=tmp_path, executor=on_gpu())
    again = resume(first.folder, ["budget.gpu_hours=0.4"], executor=on_gpu())
    assert (first.stopped_by, again.stopped_by) == (StopReason.GPU_HOURS, StopReason.GPU_HOURS)
    assert 0.2 <= first.spent["gpu_hours"] < 0.4 <= again.spent["gpu_hours"]
    assert first.candidates < again.candidates < 24
    assert first.best is not None
    assert first.best.verified


def test_the_ledger_is_charged_for_evaluations() -> None:
    outcome = SimulatedEvaluator(card(), 5).evaluate(Request(candidate=prompt().parent, incumbent_low=None))
    ledger = Ledger(Caps(gpu_s=100.0), float)
    for _ in range(2):
        charging(ledger)(StepEvaluated(step_number=2, outcome=replace(outcome, facts={"lease_s": HELD_S})))
    assert ledger.spent.gpu_s == 2 * HELD_S
    assert str(ledger.reserve(Amounts(tokens=1))).startswith("the budget of gpu_s is spent")


class Broke:
    """Answers one prompt badly and has no money for another; ``close`` is heard."""

    name = "broke"

    def __init__(self) -> None:
        self.calls = 0
        self.closed = False

    def answer(self, prompt: Prompt, rng: np.random.Generator) -> Answer:
        self.calls += 1
        if self.calls > 1:
            raise BudgetSpent("no money", Resource.USD, Usage(prompt_tokens=7))
        return Answer(text="no header", answerer="broke", usage=Usage(prompt_tokens=5))

    def close(self) -> None:
        self.closed = True


def test_a_desk_gives_what_it_has_before_it_says_that_the_money_is_spent(tmp_path: Path) -> None:
    answerer = Broke()
    desk = ThreadDesk(answerer, Mailbox(tmp_path), 1)
    rng = np.random.default_rng(0)
    desk.put(replace(prompt(), step_number=2), rng)
    desk.put(replace(prompt(), step_number=3), rng)
    while True:
        try:
            desk.take(3)
        except BudgetSpent:
            break
        desk.wait(0.1)
    answer = desk.take(2)
    assert answer == Answer(text="no header", answerer="broke", usage=Usage(prompt_tokens=12)), "the second turn's cost is kept"
    desk.put(replace(prompt(), step_number=4), rng)
    assert (desk.close().prompt_tokens, desk.close().prompt_tokens) == (7, 0), "told once"
    assert (answerer.closed, answerer.calls) == (True, 3)
    with pytest.raises(BudgetSpent):
        desk.take(4)


def test_a_change_of_models_is_recorded_and_spending_stays(tmp_path: Path) -> None:
    first = run(config(), root=tmp_path, executor=on_gpu())
    again = resume(first.folder, ["chat.at_once=2", "budget.candidates=26"], executor=on_gpu())
    assert again.stopped_by is StopReason.CANDIDATES
    assert again.spent["gpu_hours"] > first.spent["gpu_hours"] > 0
    assert sum(isinstance(event, StepEvaluated) for event in stored(first.folder)) >= 26
