"""Whether the choice of questions learns: questions needed to reach a goal, against uniform choice, with simulated answerers.

`python benchmarks/learning.py [SEEDS] [CASE ...]` prints for every case how many questions both need (median) and how many times
fewer the learning choice needs (geometric mean of the ratios world by world, and ratio of the means, with 95 % bootstrap
intervals). SEEDS is a number or, as `2000:2200`, a range. About four minutes for 50 seeds.

What unlocks what is known here and hidden from the choice. A world holds log speed in stocks, one a layer; most of it sits in two
or three layers, which ones is drawn. Two stocks open only once part of the others is spent, as a bottleneck moves. Of the bank's
questions many unlock nothing and some do harm. The others unlock a part of what is left in their layer, by a chance of their own
that depends on the moment, nearly halves with each success, and is lower for a question that this kernel has heard in vain.
Moments come from the product's own rules, so stalls and failures restrict both choices alike. The goal is a part of all stocks.

Cases: `first` is a project's first run. `later` has the records of eight earlier runs of 120 questions each in the same project:
its kernels' stocks are alike, not equal, and one question in five works otherwise than before. `elsewhere` has such records from
kernels whose stocks are unlike this one's. `misled` has the records of another project, where questions worked otherwise too.
`short` asks how far the first 40 questions of a first run come. `even` has equal stocks and nothing but good questions.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from evaluator.outcome import Verdict
from mutators.attempts import Attempt, Change
from mutators.bank import Entry, load_bank
from mutators.moments import MomentSettings, notice
from mutators.question import Layer, Moment, Question
from mutators.questions import choose, fits
from mutators.records import Records
from population.candidate import hash_text

MOST_QUESTIONS = 1000
GOAL = 0.6
"""Part of all log speed in a world that the goal asks for."""

BACKEND = "cuda"
Shares = np.ndarray[tuple[int], np.dtype[np.float64]]
SETTINGS = MomentSettings()


@dataclass(frozen=True, kw_only=True)
class Model:
    """What is drawn: chances over worlds, questions and answers."""

    concentration: float = 0.5
    """Dirichlet parameter of the stocks: below 1, few layers hold most."""
    alike: float = 6.0
    """Dirichlet weight of a project's profile in the stocks of its kernels."""
    total: float = 1.0
    useless: float = 0.45
    harmful: float = 0.10
    failing: float = 0.15
    """Chance that an answer to any question fails the checks."""
    chance: tuple[float, float] = (2.0, 4.0)
    """Beta parameters of a useful question's chance to unlock something."""
    share: tuple[float, float] = (0.15, 0.45)
    """Part of what is left in the layer that a good answer unlocks."""
    locked: int = 2
    opens_at: float = 0.4
    """So many stocks open only after this part of all others is unlocked."""
    worn_by_success: float = 0.6
    worn_by_failure: float = 0.7
    """Only until the next accepted answer: the next kernel is another one."""
    noise: float = 0.003


@dataclass(kw_only=True)
class World:
    """One kernel and its answerer. ``quality``: a question's chance, -1 for harm; ``fit``: a factor for a question and moment."""

    model: Model
    stocks: dict[Layer, float]
    closed: set[Layer]
    opens_at: float
    quality: dict[str, float]
    fit: dict[tuple[str, Moment], float]
    rng: np.random.Generator
    unlocked: float = 0.0
    worn: dict[str, float] = field(default_factory=dict)
    tired: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """All log speed that there is."""
        return self.model.total

    def answer(self, number: int, parent: str, question: Question) -> Attempt:
        """What becomes of one question."""
        if self.unlocked >= self.opens_at:
            self.closed.clear()
        chance = self.quality[question.entry_id]
        luck, failing = self.rng.random(2)
        if chance < 0:
            return attempt_in(number, parent, question, Verdict.WRONG) if luck < 0.5 else attempt_in(
                number, parent, question, Verdict.SLOWER, -0.02
            )  # fmt: skip
        if failing < self.model.failing:
            return attempt_in(number, parent, question, Verdict.WRONG)
        worn, tired = self.worn.get(question.entry_id, 1.0), self.tired.get(question.entry_id, 1.0)
        open_stock = 0.0 if question.layer in self.closed else self.stocks[question.layer]
        if luck >= chance * self.fit[question.entry_id, question.moment] * worn * tired:
            self.tired[question.entry_id] = tired * self.model.worn_by_failure
            return attempt_in(number, parent, question, Verdict.OK, self.rng.normal(-0.005, self.model.noise))
        gain = open_stock * self.rng.uniform(*self.model.share)
        self.worn[question.entry_id] = worn * self.model.worn_by_success
        measured = gain + self.rng.normal(0, self.model.noise)
        if measured <= 2 * self.model.noise:
            return attempt_in(number, parent, question, Verdict.OK, measured)
        self.stocks[question.layer] -= gain
        self.unlocked += gain
        self.tired.clear()
        return attempt_in(number, parent, question, Verdict.OK, measured, accepted=True, noise=self.model.noise)


def attempt_in(
    number: int,
    parent: str,
    question: Question,
    verdict: Verdict,
    log: float | None = None,
    accepted: bool = False,
    noise: float = 0,
) -> Attempt:
    """An attempt as a search would record it; ``log`` is its log ratio to the parent, ``noise`` half of that's half-width."""
    change = None
    if log is not None:
        ratio = math.exp(log)
        change = Change(
            ratio=ratio, low=math.exp(log - 2 * noise), best_scenario="a", best_ratio=ratio, worst_scenario="b",
            worst_ratio=ratio, rest_ratio=ratio, scenarios=2,
        )  # fmt: skip
    return Attempt(
        number=number, island=0, parent_id=parent, candidate_id=f"c{number}", verdict=verdict.value, accepted=accepted,
        question=question, change=change, wall_s=30.0,
    )  # fmt: skip


def plain_bank() -> tuple[Entry, ...]:
    """The shipped bank with its layers and moments, its slots and preconditions taken to be known and true."""
    return tuple(replace(entry, text=f"{entry.id}?", when="") for entry in load_bank() if BACKEND in entry.backends)


def draw_quality(bank: Sequence[Entry], model: Model, rng: np.random.Generator) -> dict[str, float]:
    """A chance for each question; -1 for one that does harm, 0 for one that unlocks nothing."""
    quality = {}
    for entry in bank:
        kind = rng.random()
        good = float(rng.beta(*model.chance))
        quality[entry.id] = -1.0 if kind < model.harmful else 0.0 if kind < model.harmful + model.useless else good
    return quality


def profile_of(model: Model, project: int) -> Shares:
    """Stocks that the kernels of one project have on average: the same task on the same device."""
    return np.random.default_rng([project, 55]).dirichlet([model.concentration] * len(Layer))


def world_of(bank: Sequence[Entry], model: Model, seed: int, quality: dict[str, float], profile: Shares | None = None) -> World:
    """A world; ``quality`` fixes the questions' chances, ``profile`` the stocks' mean where there is a project."""
    rng = np.random.default_rng([seed, 77])
    own = profile is None
    shares = rng.dirichlet([model.concentration] * len(Layer) if own else 1e-3 + model.alike * np.asarray(profile))
    layers = list(Layer)
    closed = {layers[index] for index in rng.permutation(len(layers))[: model.locked]}
    stocks = {layer: model.total * float(share) for layer, share in zip(layers, shares, strict=True)}
    return World(
        model=model,
        stocks=stocks,
        closed=closed,
        opens_at=model.opens_at * sum(stock for layer, stock in stocks.items() if layer not in closed),
        quality=quality,
        fit={(entry.id, moment): float(rng.choice([0.5, 1.0, 1.5])) for entry in bank for moment in Moment},
        rng=rng,
    )


Chooser = Callable[[Sequence[Entry], Moment, Records, Sequence[Layer], np.random.Generator, set[str]], Question]


def uniform(
    bank: Sequence[Entry], moment: Moment, records: Records, layers: Sequence[Layer], rng: np.random.Generator, asked: set[str]
) -> Question:
    """Any question that fits the moment, all as likely; one that this parent hasn't had where there is one."""
    del records, layers
    fitting = [entry for entry in bank if fits(entry, moment, {}, BACKEND)]
    questions = [_asked(entry, moment) for entry in fitting]
    fresh = [question for question in questions if question.id not in asked]
    if not fresh:
        fresh = [q for entry in bank if fits(entry, Moment.ROUTINE, {}, BACKEND) if (q := _asked(entry, moment)).id not in asked]
    pool = fresh or questions
    return pool[int(rng.integers(len(pool)))]


def _asked(entry: Entry, moment: Moment) -> Question:
    return Question(
        id=hash_text(f"{entry.id}\n{entry.text}"), entry_id=entry.id, layer=entry.layer, moment=moment, text=entry.text,
        settle=entry.settle,
    )  # fmt: skip


def learning(prior: Records) -> Chooser:
    """The product's own choice, with the records of earlier runs."""

    def chosen(
        bank: Sequence[Entry],
        moment: Moment,
        records: Records,
        layers: Sequence[Layer],
        rng: np.random.Generator,
        asked: set[str],
    ) -> Question:
        return choose(bank, moment, {}, records, layers, BACKEND, rng, prior=prior, asked_ids=asked)

    return chosen


@dataclass(frozen=True, kw_only=True)
class Run:
    """``questions`` to the goal (the most allowed where it wasn't reached), the log speed ``unlocked``, and what was learnt."""

    questions: int
    unlocked: float
    records: Records


class Kernel(Protocol):
    """A kernel of some world: ``total`` log speed that there is in it, ``unlocked`` so far, and who answers about it."""

    unlocked: float

    @property
    def total(self) -> float: ...

    def answer(self, number: int, parent: str, question: Question) -> Attempt: ...


def run(bank: Sequence[Entry], world: Kernel, chooser: Chooser, seed: int, most: int = MOST_QUESTIONS, goal: float = GOAL) -> Run:
    """One search along one lineage: each accepted answer is the next parent."""
    rng = np.random.default_rng([seed, 5])
    history: list[Attempt] = []
    layers: list[Layer] = []
    records, parent = Records(), "seed"
    asked: set[str] = set()
    target = goal * world.total
    for number in range(most):
        question = chooser(bank, notice(history[-200:], parent, SETTINGS), records, layers[-8:], rng, asked)
        attempt = world.answer(number, parent, question)
        history.append(attempt)
        layers.append(question.layer)
        asked.add(question.id)
        records = records.plus(attempt)
        if attempt.accepted and attempt.candidate_id:
            parent, asked = attempt.candidate_id, set()
        if world.unlocked >= target:
            return Run(questions=number + 1, unlocked=world.unlocked, records=records)
    return Run(questions=most, unlocked=world.unlocked, records=records)


EARLIER_RUNS, EARLIER_QUESTIONS = 8, 120
KEPT = 0.8
"""Part of the questions that work in a world as they did in earlier ones."""


def earlier_records(bank: Sequence[Entry], quality: dict[str, float], seed: int, runs: int, profile: Shares | None) -> Records:
    """The records of earlier runs by the product's choice, each knowing those before it."""
    prior = Records()
    for number in range(runs):
        one = 10_000 + 100 * seed + number
        done = run(bank, world_of(bank, Model(), one, dict(quality), profile), learning(prior), one, EARLIER_QUESTIONS, goal=1.0)
        prior = prior.joined(done.records)
    return prior


def related(bank: Sequence[Entry], model: Model, quality: dict[str, float], seed: int) -> dict[str, float]:
    """Chances of which most are those given, the others new."""
    rng = np.random.default_rng([seed, 99])
    fresh = draw_quality(bank, model, rng)
    return {name: chance if rng.random() < KEPT else fresh[name] for name, chance in quality.items()}


EVEN = Model(concentration=1000.0, useless=0.0, harmful=0.0, locked=0)


def questions_needed(case: str, bank: Sequence[Entry], seed: int, runs: int = EARLIER_RUNS) -> tuple[float, float]:
    """Questions to the goal by uniform and by learning choice in one world; for `short` log speed by learning and by uniform."""
    model = EVEN if case == "even" else Model()
    quality = draw_quality(bank, model, np.random.default_rng([seed, 11]))
    profile = None if case in ("elsewhere", "even") else profile_of(model, seed)
    before = profile_of(model, 500 + seed) if case == "misled" else profile
    prior = earlier_records(bank, quality, seed, runs, before) if case in ("later", "elsewhere", "misled") else Records()
    fresh = draw_quality(bank, model, np.random.default_rng([seed, 12]))
    here = fresh if case == "misled" else related(bank, model, quality, seed)
    most = 40 if case == "short" else MOST_QUESTIONS
    uniformly, learnt = (
        run(bank, world_of(bank, model, seed, dict(here), profile), chooser, seed, most) for chooser in (uniform, learning(prior))
    )
    return (learnt.unlocked, uniformly.unlocked) if case == "short" else (uniformly.questions, learnt.questions)


def times_fewer(pairs: Sequence[tuple[float, float]]) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """First over second column with 95 % bootstrap intervals over the rows: geometric mean of the rows' ratios, and ratio of
    the columns' means.
    """
    table = np.array(pairs, dtype=float)
    drawn = table[np.random.default_rng(0).integers(len(table), size=(4000, len(table)))]
    logs, means = np.log(drawn[..., 0] / drawn[..., 1]).mean(axis=1), drawn.mean(axis=1)
    typical = float(np.exp(np.log(table[:, 0] / table[:, 1]).mean()))
    return (typical, *_interval(np.exp(logs))), (
        float(table[:, 0].mean() / table[:, 1].mean()),
        *_interval(means[:, 0] / means[:, 1]),
    )


def _interval(values: Shares) -> tuple[float, float]:
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


CASES = ("first", "later", "elsewhere", "misled", "short", "even")


def main() -> None:
    seeds = seeds_in(sys.argv[1]) if len(sys.argv) > 1 else range(50)
    bank = plain_bank()
    for case in sys.argv[2:] or CASES:
        pairs = [questions_needed(case, bank, seed) for seed in seeds]
        first, second = np.median(np.array(pairs), axis=0)
        if case == "short":
            line = f"log speed after 40 questions, median: learning {first:.3f}, uniform {second:.3f}; times as far:"
            pairs = [(max(a, 1e-3), max(b, 1e-3)) for a, b in pairs]
        else:
            line = f"questions to the goal, median: uniform {first:.0f}, learning {second:.0f}; times fewer:"
        typical, overall = times_fewer(pairs)
        print(f"{case:10s}{line} {shown(typical)} in the typical world, {shown(overall)} over all {len(seeds)}", flush=True)


def seeds_in(text: str) -> range:
    """The seeds that an argument names: so many from 0 on, or from one to before another, as in ``2000:2200``."""
    first, colon, end = text.partition(":")
    return range(int(first), int(end)) if colon else range(int(first))


def shown(value: tuple[float, float, float]) -> str:
    """A ratio with its interval."""
    return f"{value[0]:.2f} [{value[1]:.2f}, {value[2]:.2f}]"


if __name__ == "__main__":
    main()
