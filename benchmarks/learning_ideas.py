"""The study of benchmarks/learning.py in a world of another make, looked at so that the rule isn't fitted to one model.

`python benchmarks/learning_ideas.py [SEEDS] [CASE ...]` prints the same figures for first runs in three such worlds; some minutes
for 40 seeds.

There are no stocks here. Each question holds a few ideas (a Poisson number), each of which raises log speed once, by an amount of
its own (log-normal, so a few great ones hold most), and is then used up. Some ideas pay only after another one, which may lie in
any layer. The answerer finds an idea by a chance that depends on its skill in the layer and on the question. Layers differ by a
log-normal factor in what their ideas are worth. A tenth of the questions do harm. The goal is a part of all ideas.

`plain` is that. `layers` has layers that differ more, and no ideas that wait for others. `alike` has layers that are worth the
same: there is little to learn, and what counts is how little a choice that learns loses. Moments are the product's own.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.learning import attempt_in, learning, plain_bank, run, seeds_in, shown, times_fewer, uniform
from evaluator.outcome import Verdict
from mutators.attempts import Attempt
from mutators.bank import Entry
from mutators.question import Layer, Question
from mutators.records import Records

MOST_QUESTIONS = 1500
GOAL = 0.3
"""Part of the worth of all ideas that the goal asks for."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """What is drawn: ``spread`` of the layers' log worth, mean number of ``ideas`` in a question, part of them ``waiting``."""

    spread: float = 0.7
    ideas: float = 0.8
    waiting: float = 0.3
    harmful: float = 0.1
    failing: float = 0.15
    noise: float = 0.003


CASES = {"plain": Model(), "layers": Model(spread=1.2, waiting=0.0), "alike": Model(spread=0.0)}


class Ideas:
    """One kernel and its answerer, drawn by ``seed``."""

    def __init__(self, bank: Sequence[Entry], model: Model, seed: int) -> None:
        rng = np.random.default_rng([seed, 202])
        worth = {layer: float(np.exp(rng.normal(0, model.spread))) for layer in Layer}
        owners = [entry for entry in bank for _ in range(rng.poisson(model.ideas))]
        sizes = np.array([worth[entry.layer] * float(np.exp(rng.normal())) for entry in owners])
        skill = {layer: float(rng.beta(2, 3)) for layer in Layer}
        self.unlocked, self.total = 0.0, 1.0
        self._model = model
        self._rng = np.random.default_rng([seed, 203])
        self._sizes = sizes / sizes.sum()
        self._of: defaultdict[str, set[int]] = defaultdict(set)
        for idea, entry in enumerate(owners):
            self._of[entry.id].add(idea)
        order = rng.permutation(len(owners))  # an idea waits for one before it, so none waits for ever
        self._needs = {
            int(idea): int(order[rng.integers(place)])
            for place, idea in enumerate(order)
            if place and rng.random() < model.waiting
        }
        self._chance = {entry.id: min(0.9, skill[entry.layer] * float(rng.uniform(0.3, 1.2))) for entry in bank}
        self._harmful = {entry.id for entry in bank if rng.random() < model.harmful}
        self._found: set[int] = set()

    def answer(self, number: int, parent: str, question: Question) -> Attempt:
        """What becomes of one question."""
        name, noise = question.entry_id, self._model.noise
        harm, failing, luck = self._rng.random(3)
        if (name in self._harmful and harm < 0.7) or failing < self._model.failing:
            return attempt_in(number, parent, question, Verdict.WRONG)
        ready = [idea for idea in sorted(self._of[name] - self._found) if self._needs.get(idea, idea) in self._found | {idea}]
        if not ready or luck >= self._chance[name]:
            return attempt_in(number, parent, question, Verdict.OK, float(self._rng.normal(-0.01, 0.01)))
        idea = ready[int(self._rng.integers(len(ready)))]
        measured = float(self._sizes[idea] + self._rng.normal(0, noise))
        if measured <= 2 * noise:
            return attempt_in(number, parent, question, Verdict.OK, measured)
        self._found.add(idea)
        self.unlocked += float(self._sizes[idea])
        return attempt_in(number, parent, question, Verdict.OK, measured, accepted=True, noise=noise)


def questions_needed(case: str, bank: Sequence[Entry], seed: int, most: int = MOST_QUESTIONS) -> tuple[float, float]:
    """Questions to the goal by uniform and by learning choice in one world."""
    uniformly, learnt = (
        run(bank, Ideas(bank, CASES[case], seed), chooser, seed, most, GOAL) for chooser in (uniform, learning(Records()))
    )
    return uniformly.questions, learnt.questions


def main() -> None:
    seeds = seeds_in(sys.argv[1]) if len(sys.argv) > 1 else range(40)
    bank = plain_bank()
    for case in sys.argv[2:] or CASES:
        pairs = [questions_needed(case, bank, seed) for seed in seeds]
        first, second = np.median(np.array(pairs), axis=0)
        typical, overall = times_fewer(pairs)
        print(
            f"{case:8s}questions to the goal, median: uniform {first:.0f}, learning {second:.0f}; times fewer: "
            f"{shown(typical)} in the typical world, {shown(overall)} over all {len(seeds)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
