"""The bandit over language models."""

from dataclasses import replace

import numpy as np
import pytest

from mutators.answerers.base import ModelRecord
from mutators.answerers.models import choose_model, model_records, with_answer
from mutators.attempts import Attempt, Change
from mutators.question import Answer, Usage

NAMES = ("a", "b", "c")


def attempt(ratio: float | None) -> Attempt:
    change = None if ratio is None else Change(
        ratio=ratio, low=ratio, best_scenario="s", best_ratio=ratio, worst_scenario="s", worst_ratio=ratio, rest_ratio=ratio,
        scenarios=1,
    )  # fmt: skip
    return Attempt(number=1, island=0, parent_id="p", candidate_id="c", verdict="OK", accepted=ratio is not None, change=change)


def answer(model: str, usd: float = 0.0) -> Answer:
    return Answer(text="", answerer="chat", model=model, usage=Usage(cost_usd=usd, wall_s=2.0))


def counts(records: dict[str, ModelRecord], names: tuple[str, ...] = NAMES) -> dict[str, int]:
    chosen = [choose_model(records, names, np.random.default_rng(seed)) for seed in range(400)]
    return {name: chosen.count(name) for name in names}


def test_an_accepted_improvement_is_the_gain() -> None:
    records = with_answer(with_answer({}, answer("a", 0.2), attempt(1.5)), answer("a", 0.1), attempt(None))
    assert records["a"] == ModelRecord(answers=2, gain=pytest.approx(np.log(1.5)), best=pytest.approx(np.log(1.5)), wall_s=4.0,
                                       cost_usd=pytest.approx(0.3))  # fmt: skip
    assert model_records([(answer("a", 0.2), attempt(1.5)), (None, attempt(3.0)), (answer("a", 0.1), attempt(None))]) == records
    assert with_answer(records, answer(""), attempt(2.0)) is records
    assert with_answer(records, None, attempt(2.0)) is records


def test_models_without_a_record_are_alike() -> None:
    assert min(counts({}).values()) > 90


def test_the_same_records_and_stream_choose_the_same() -> None:
    records = {"a": ModelRecord(answers=9, gain=0.4, best=0.2)}
    first = [choose_model(records, NAMES, np.random.default_rng(seed)) for seed in range(50)]
    assert [choose_model(dict(records), NAMES[::-1], np.random.default_rng(seed)) for seed in range(50)] == first
    assert len(set(first)) == 3


def test_what_gains_more_is_asked_more() -> None:
    records = {
        "a": ModelRecord(answers=40, gain=2.0, best=0.1), "b": ModelRecord(answers=40, gain=0.2, best=0.1),
        "c": ModelRecord(answers=40, gain=0.0),
    }  # fmt: skip
    assert counts(records)["a"] > 350


def test_of_equal_gains_the_cheaper_is_asked_more() -> None:
    one = ModelRecord(answers=40, gain=1.0, best=0.1, cost_usd=0.4)
    assert counts({"a": one, "b": replace(one, cost_usd=40.0)}, ("a", "b"))["a"] > 350


def test_a_new_model_is_tried_beside_a_poor_one() -> None:
    records = {"a": ModelRecord(answers=60, gain=0.3, best=0.1), "gone": ModelRecord(answers=5, gain=9.0, best=3.0)}
    found = counts(records, ("a", "b"))
    assert found["b"] > 300
