"""Small forms of benchmarks/learning.py and learning_ideas.py: the choice of questions against uniform choice."""

import numpy as np
import pytest

from benchmarks.learning import EVEN, Model, draw_quality, plain_bank, questions_needed, times_fewer, uniform, world_of
from benchmarks.learning_ideas import CASES, Ideas
from mutators.question import Moment
from mutators.records import Records
from tests.mutators.factories import question

BANK = plain_bank()


def test_with_records_of_earlier_runs_it_needs_far_fewer_questions_than_uniform_choice() -> None:
    typical, overall = times_fewer([questions_needed("later", BANK, seed, runs=4) for seed in range(8)])
    assert typical[0] > 1.5
    assert overall[0] > 1.5


def test_a_world_is_the_same_for_both_choices() -> None:
    quality = draw_quality(BANK, Model(), np.random.default_rng(3))
    first, second = (world_of(BANK, Model(), 3, dict(quality)) for _ in range(2))
    assert (first.stocks, first.closed, first.fit) == (second.stocks, second.closed, second.fit)
    assert sum(first.stocks.values()) == pytest.approx(Model().total)
    assert len(first.closed) == Model().locked
    assert not world_of(BANK, EVEN, 3, quality).closed


def test_uniform_choice_keeps_the_rules_of_moments_and_repeats_nothing() -> None:
    rng = np.random.default_rng(0)
    asked: set[str] = set()
    by_id = {entry.id: entry for entry in BANK}
    fitting = sum(Moment.FAILURE in entry.moments for entry in BANK)
    for number in range(fitting + 5):
        question = uniform(BANK, Moment.FAILURE, Records(), (), rng, asked)
        assert question.id not in asked
        assert (Moment.FAILURE in by_id[question.entry_id].moments) == (number < fitting)
        asked.add(question.id)


@pytest.mark.slow
def test_a_projects_first_run_needs_clearly_fewer_questions_than_uniform_choice() -> None:
    """In worlds on which nothing was chosen; docs/questions.md has the figure over 200 of them."""
    typical, _ = times_fewer([questions_needed("first", BANK, seed) for seed in range(2000, 2100)])
    assert typical[0] > 1.3


@pytest.mark.slow
def test_what_an_idea_waits_for_comes_first_and_nothing_is_found_twice() -> None:
    """The second world: answered at random for long, it gives nearly all there is, and each idea once."""
    world = Ideas(BANK, CASES["plain"], 1)
    rng = np.random.default_rng(0)
    gains = []
    for number in range(40_000):
        chosen = BANK[int(rng.integers(len(BANK)))]
        asked = question(chosen.id, chosen.layer)
        gains.append(world.answer(number, "seed", asked).accepted)
    assert 0.9 < world.unlocked <= world.total + 1e-9
    assert 20 < sum(gains) < 300
