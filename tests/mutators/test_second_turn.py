"""Who is asked a second time, and what is kept of both turns."""

import numpy as np
import pytest

from mutators.answerers.base import Prompt
from mutators.answerers.failures import AnswererPaused
from mutators.question import Answer, FirstTurn, Rejection, Usage
from mutators.repair import second_turn
from tests.mutators.chatting import prompt
from tests.mutators.corpus import WORDS

GOOD = f"{WORDS['header']}\n{WORDS['block']}\n"
CLAIM = '+++\nhypothesis = "This is the limit."\nclaim = "ceiling"\n+++\n'
COST = Usage(prompt_tokens=100, answer_tokens=10, cost_usd=0.5, wall_s=2.0)
BOTH = Usage(prompt_tokens=200, answer_tokens=20, cost_usd=1.0, wall_s=4.0)


class Scripted:
    """Says one thing, or raises it, and keeps the prompts."""

    name = "script"

    def __init__(self, says: str | Exception) -> None:
        self.says = says
        self.prompts: list[Prompt] = []

    def answer(self, prompt: Prompt, rng: np.random.Generator) -> Answer:
        self.prompts.append(prompt)
        if isinstance(self.says, Exception):
            raise self.says
        return answer(self.says)


def answer(text: str, usage: Usage = COST) -> Answer:
    return Answer(text=text, answerer="script", model="m", usage=usage)


def kept(first: str, answerer: Scripted) -> Answer:
    return second_turn(answerer, prompt(), answer(first), np.random.default_rng(0))


@pytest.mark.parametrize("first", [GOOD, CLAIM, "", " \n"])
def test_what_is_right_or_meant_or_empty_is_not_sent_back(first: str) -> None:
    answerer = Scripted(GOOD)
    assert kept(first, answerer) == answer(first)
    assert answerer.prompts == []


@pytest.mark.parametrize("second", [GOOD, "still no header"])
def test_a_mistake_goes_back_once_to_the_same_model(second: str) -> None:
    answerer = Scripted(second)
    found = kept("no header", answerer)
    assert (found.text, found.usage) == (second, BOTH)
    assert isinstance(found.first, FirstTurn)
    assert (found.first.text, found.first.rejected.reason) == ("no header", Rejection.NO_CODE)
    assert [(one.model, "no header" in one.text) for one in answerer.prompts] == [("m", True)]


@pytest.mark.parametrize(
    ("nothing", "usage"), [("", BOTH), (AnswererPaused("down", COST), BOTH), (ConnectionError("hung up"), COST)]
)
def test_where_nothing_comes_the_first_answer_stays(nothing: str | Exception, usage: Usage) -> None:
    assert kept("no header", Scripted(nothing)) == answer("no header", usage)
