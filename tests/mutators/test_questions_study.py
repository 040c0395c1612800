"""A small form of benchmarks/learning.py: the choice with records of earlier runs against uniform choice."""

import numpy as np
import pytest

from benchmarks.learning import EVEN, Model, draw_quality, plain_bank, questions_needed, times_fewer, uniform, world_of
from mutators.question import Moment
from mutators.records import Records

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
