"""What the chat answerer spends stays within what it reserved."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mutators.answerers.budget import Caps
from mutators.answerers.failures import AnswererPaused, BudgetSpent
from mutators.answerers.usage import TEMPLATE_TOKENS, Price
from tests.mutators import chat_server as server
from tests.mutators.chat_server import says
from tests.mutators.chatting import GOOD, TEXT, Open


def test_the_token_cap_binds_before_the_call(ask: Open) -> None:
    worst = len(TEXT) + TEMPLATE_TOKENS + 100
    asked = ask(says(GOOD, usage=None), caps=Caps(tokens=3 * worst))
    with pytest.raises(BudgetSpent, match="budget of tokens") as caught:
        asked.until_the_end()
    assert caught.value.resource == "tokens"
    assert 2 * worst < asked.ledger.spent.tokens <= 3 * worst


def test_the_cap_binds_in_many_threads(ask: Open) -> None:
    worst_usd = ((len(TEXT) + TEMPLATE_TOKENS) * 2 + 100 * 10) / 1e6
    asked = ask(
        says(GOOD, usage={"prompt_tokens": 10**9, "completion_tokens": 10**9}), caps=Caps(usd=5.5 * worst_usd), concurrency=8
    )
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(asked, number) for number in range(20)]
    spent = [future for future in futures if isinstance(future.exception(), BudgetSpent)]
    assert len(spent) == 15
    assert asked.ledger.spent.usd == pytest.approx(5 * worst_usd)


def test_an_unknown_price_binds_by_tokens(ask: Open) -> None:
    asked = ask(says(GOOD), caps=Caps(tokens=2000), model={"price": Price(prompt=1.0)})
    with pytest.raises(BudgetSpent, match="budget of tokens"):
        asked.until_the_end()
    assert asked.ledger.spent.usd == 0


def test_time_that_runs_out_in_an_answer_ends_the_run(ask: Open) -> None:
    asked = ask(server.trickles, caps=Caps(wall_s=12.0), deadline_s=100.0, step_s=1.0)
    answer = asked()
    assert answer.text == ""
    assert answer.usage.prompt_tokens > 0
    with pytest.raises(BudgetSpent, match="budget of wall_s"):
        asked()


def test_what_silence_cost_is_kept_when_the_budget_ends(ask: Open) -> None:
    worst = len(TEXT) + TEMPLATE_TOKENS + 100
    asked = ask(says(""), caps=Caps(tokens=worst))
    answer = asked()
    assert (answer.text, answer.model) == ("", "")
    assert answer.usage.prompt_tokens + answer.usage.answer_tokens == asked.ledger.spent.tokens == 60
    with pytest.raises(BudgetSpent):
        asked()


def test_a_call_that_waits_for_room_is_not_made_after_closing(ask: Open) -> None:
    worst = len(TEXT) + TEMPLATE_TOKENS + 100
    asked = ask(server.slow(GOOD, 0.02), caps=Caps(tokens=worst + 100), concurrency=2)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(asked, number) for number in range(2)]
        while not asked.server.handled.requests:
            time.sleep(0.01)
        asked.answerer.close()
    assert [type(future.exception()) for future in futures].count(AnswererPaused) == 1
    assert len(asked.server.handled.requests) == 1
    assert asked.ledger.spent.tokens == 60
