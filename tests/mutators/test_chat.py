"""The chat answerer against a server that fails in every way that servers do."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mutators.answerers.base import ModelRecord
from mutators.answerers.budget import Caps, Ledger
from mutators.answerers.chat import ChatAnswerer, ChatSettings
from mutators.answerers.completion import Model
from mutators.answerers.failures import AnswererPaused, AnswererRefused
from mutators.answerers.usage import TEMPLATE_TOKENS
from tests.mutators import chat_server as server
from tests.mutators.chat_server import USAGE, ChatServer, Play, says
from tests.mutators.chatting import GOOD, KEY, PRICE, TEXT, Open, prompt


def test_an_answer_comes_with_model_usage_and_cost(ask: Open) -> None:
    asked = ask(says(GOOD, reasoning_content="let me think"), model={"parameters": {"temperature": 0.3}})
    answer = asked()
    assert answer.text == GOOD
    assert (answer.answerer, answer.model) == ("chat", "m")
    assert (answer.usage.prompt_tokens, answer.usage.answer_tokens, answer.usage.estimated) == (40, 20, False)
    assert answer.usage.cost_usd == pytest.approx((40 * 2 + 20 * 10) / 1e6)
    assert asked.ledger.spent.tokens == 60
    assert asked.notes == []


def test_what_is_sent(ask: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "my-company")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "my-project")
    asked = ask(says(GOOD), model={"parameters": {"temperature": 0.3}})
    asked()
    (request,) = asked.server.handled.requests
    assert request.body == {
        "model": "tiny", "messages": [{"role": "user", "content": TEXT}], "stream": True,
        "stream_options": {"include_usage": True}, "max_tokens": 100, "temperature": 0.3,
    }  # fmt: skip
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert set(request.headers) == {
        "host", "accept", "accept-encoding", "connection", "content-length", "content-type", "user-agent", "authorization",
        "x-stainless-raw-response",
    }  # fmt: skip


def test_without_a_key_none_is_sent(ask: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    asked = ask(says(GOOD), model={"key": None})
    asked()
    assert "authorization" not in asked.server.handled.requests[0].headers


@pytest.mark.parametrize(
    "fault",
    [
        server.fails(500), server.fails(503), server.fails(408), server.fails(429), server.hangs_up, server.cut("int a"),
        server.broken_json, server.error_in_stream, server.page, server.short_body, server.stalls(), server.stalls("int a"),
        server.silent, says(""), says("  \n"), says("", reasoning_content="hm"), says("int", finish="content_filter"),
        says("", refusal="I can't help with that"),
    ],
    ids=[
        "500", "503", "408", "429", "hangs up", "cut stream", "broken JSON", "error in the stream", "web page", "short body",
        "stalled at once", "stalled", "no status line", "empty", "blank", "only reasoning", "filtered", "refusal",
    ],
)  # fmt: skip
def test_a_passing_fault_is_tried_again(ask: Open, fault: Play) -> None:
    asked = ask(fault, says(GOOD))
    assert asked().text == GOOD
    assert len(asked.server.bodies) == 2


def test_what_a_broken_stream_cost_is_counted(ask: Open) -> None:
    asked = ask(server.cut("int a = 1;"), says(GOOD))
    usage = asked().usage
    assert usage.estimated
    assert usage.prompt_tokens == 40 + -(-len(TEXT) * 2 // 7)
    assert usage.answer_tokens == 20 + 3
    assert asked.ledger.spent.tokens == usage.prompt_tokens + usage.answer_tokens


def test_what_never_reached_a_model_costs_nothing(ask: Open) -> None:
    asked = ask(server.fails(429), server.fails(503), server.hangs_up, says(GOOD))
    assert asked().usage.prompt_tokens == 40


def test_the_wait_that_a_server_asks_for(ask: Open) -> None:
    asked = ask(
        server.fails(429, headers=[("Retry-After", "7")]), server.fails(429, headers=[("retry-after-ms", "1500")]), says(GOOD)
    )
    asked()
    assert 7 <= asked.waits[0] <= 8
    assert 1.5 <= asked.waits[1] <= 2.5


def test_waits_grow_without_one(ask: Open) -> None:
    asked = ask(*[server.fails(500)] * 4, says(GOOD))
    asked()
    assert [low <= wait <= 2 * low for low, wait in zip((0.5, 1, 2, 4), asked.waits, strict=True)] == [True] * 4


def test_a_very_long_wait_pauses_the_run(ask: Open) -> None:
    asked = ask(server.fails(429, headers=[("Retry-After", "3600")]))
    with pytest.raises(AnswererPaused, match=r"asks to wait 3600 s.*resume"):
        asked()
    assert asked.waits == []


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_not_repeated_and_shows_no_key(ask: Open, status: int) -> None:
    asked = ask(server.fails(status, f"Incorrect API key provided: {KEY}"))
    with pytest.raises(AnswererRefused, match=r"\[key\].*check the model's name") as caught:
        asked()
    assert KEY not in str(caught.value)
    assert len(asked.server.bodies) == 1


def test_a_spent_account_is_no_rate_limit(ask: Open) -> None:
    asked = ask(server.fails(429, "You exceeded your current quota", code="insufficient_quota"))
    with pytest.raises(AnswererRefused, match="quota"):
        asked()


def test_too_long_a_prompt_is_no_unknown_parameter(ask: Open) -> None:
    asked = ask(
        server.fails(400, "This model's maximum context length is 4096 tokens; max_tokens is invalid", param="max_tokens")
    )
    with pytest.raises(AnswererRefused, match="maximum context length"):
        asked()
    assert len(asked.server.bodies) == 1


def test_a_parameter_is_dropped_once_and_remembered(ask: Open) -> None:
    asked = ask(server.refuses_parameter("temperature", GOOD), model={"parameters": {"temperature": 0.3, "top_p": 0.9}})
    asked(), asked()
    assert [("temperature" in body, "top_p" in body) for body in asked.server.bodies] == [
        (True, True),
        (False, True),
        (False, True),
    ]
    assert [note for note in asked.notes if "temperature" in note] == asked.notes[:1]
    assert asked.waits == []


def test_a_strict_server_gets_what_it_takes(ask: Open) -> None:
    asked = ask(server.validates(["model", "messages", "stream", "max_tokens"], GOOD), model={"parameters": {"min_p": 0.1}})
    answer = asked()
    assert answer.text == GOOD
    assert answer.usage.estimated  # without stream_options no figures come
    assert len(asked.notes) == 2


def test_the_limit_is_sent_under_its_other_name(ask: Open) -> None:
    asked = ask(server.refuses_parameter("max_tokens", GOOD))
    asked()
    assert "max_tokens" not in asked.server.bodies[1]
    assert asked.server.bodies[1]["max_completion_tokens"] == 100


def test_a_server_that_takes_no_limit_is_refused(ask: Open) -> None:
    asked = ask(server.validates(["model", "messages", "stream", "stream_options"], GOOD))
    with pytest.raises(AnswererRefused, match="nothing bounds its answers"):
        asked()


def test_a_server_without_streams(ask: Open) -> None:
    asked = ask(server.refuses_parameter("stream", GOOD))
    answer = asked()
    assert (answer.text, answer.usage.prompt_tokens) == (GOOD, 40)
    assert asked.server.bodies[1]["stream"] is False
    assert "stream_options" not in asked.server.bodies[1]


@pytest.mark.parametrize(
    ("reported", "counted"),
    [
        (None, "own"),
        ({"prompt_tokens": 0, "completion_tokens": 0}, "own"),
        ({"prompt_tokens": -5, "completion_tokens": "many"}, "own"),
        ({"prompt_tokens": True, "completion_tokens": None}, "own"),
        ({"prompt_tokens": 10**9, "completion_tokens": 10**9}, "worst"),
    ],
)
def test_wrong_figures_are_counted_by_our_own(ask: Open, reported: Any, counted: str) -> None:
    usage = ask(says(GOOD, usage=reported))().usage
    assert usage.estimated
    if counted == "own":
        assert (usage.prompt_tokens, usage.answer_tokens) == (-(-len(TEXT) * 2 // 7), -(-len(GOOD) * 2 // 7))
    else:
        assert (usage.prompt_tokens, usage.answer_tokens) == (len(TEXT) + TEMPLATE_TOKENS, 100)


def test_reasoning_is_paid_for_and_left_out(ask: Open) -> None:
    usage = ask(says(GOOD, usage=None, reasoning="x" * 70))().usage
    assert usage.answer_tokens == -(-(len(GOOD) + 70) * 2 // 7)


def test_content_in_parts_is_joined(ask: Open) -> None:
    def parts(handler: server.Handler, body: Mapping[str, Any]) -> None:
        handler.begin()
        handler.event(
            server.chunk("stop", content=[{"type": "text", "text": "int "}, {"type": "image"}, {"type": "text", "text": "a;"}])
        )

    assert ask(parts)().text == "int a;"


def test_an_answer_cut_at_the_limit_is_an_answer(ask: Open) -> None:
    assert ask(says("int a", finish="length"))().text == "int a"


def test_long_events_are_no_long_answer_and_no_end_mark_is_needed(ask: Open) -> None:
    answer = ask(server.wordy(GOOD))()
    assert (answer.text, answer.usage.answer_tokens) == (GOOD, 20)


def test_an_answer_beyond_every_limit_is_cut(ask: Open) -> None:
    asked = ask(server.endless)
    answer = asked()
    assert 6400 < len(answer.text) < 200_000
    assert answer.usage.answer_tokens == 100
    assert len(asked.server.bodies) == 1


@pytest.mark.parametrize("fault", [says(""), says("", finish="content_filter")])
def test_lasting_silence_is_an_empty_answer(ask: Open, fault: Play) -> None:
    asked = ask(fault)
    answer = asked()
    assert answer.text == ""
    assert answer.usage.prompt_tokens == 80
    assert len(asked.server.bodies) == 2


def test_a_stream_without_an_end_meets_its_deadline(ask: Open) -> None:
    asked = ask(server.trickles, tries=1, deadline_s=5.0, step_s=1.0)
    with pytest.raises(AnswererPaused, match="didn't end in time"):
        asked()


def test_a_slow_server_is_waited_for(ask: Open) -> None:
    asked = ask(server.slow("int a;", 0.1), stall_s=0.5)
    assert asked().text == "int a;"


def test_the_breaker_pauses_with_a_hint_and_costs_no_more(ask: Open) -> None:
    asked = ask(server.fails(502, "bad gateway"), tries=4)
    with pytest.raises(AnswererPaused, match=r"4 calls in a row failed.*bad gateway.*resume"):
        asked()
    with pytest.raises(AnswererPaused):
        asked()
    assert len(asked.server.bodies) == 4
    assert asked.ledger.spent.tokens == 0


def test_the_breaker_counts_over_questions(ask: Open) -> None:
    asked = ask(server.fails(500), server.fails(500), says(GOOD), *[server.fails(500)] * 9, tries=9, failures=5)
    asked()
    with pytest.raises(AnswererPaused, match="5 calls in a row"):
        asked()
    assert len(asked.server.bodies) == 3 + 5


def test_another_model_takes_over(ask: Open) -> None:
    with ChatServer(server.fails(503)) as dead:
        asked = ask(says(GOOD))
        asked.answerer.close()
        well = Model(name="well", served_as="w", base_url=asked.server.url, price=PRICE)
        models = (Model(name="dead", served_as="d", base_url=dead.url, price=PRICE), well)
        answerer = ChatAnswerer(
            ChatSettings(models=models, tries=2),
            asked.ledger,
            clock=asked.clock,
            note=asked.notes.append,
            sleep=asked.waits.append,
        )
        favoured = prompt(models={"dead": ModelRecord(answers=50, gain=50, best=1), "well": ModelRecord(answers=50)})
        answers = [answerer.answer(favoured, np.random.default_rng(seed)) for seed in range(3)]
        answerer.close()
    assert [answer.model for answer in answers] == ["well"] * 3
    assert len(dead.bodies) == 2


def test_nobody_there(ask: Open) -> None:
    asked = ask(says(GOOD), model={"base_url": "http://127.0.0.1:9/v1"}, tries=3)
    with pytest.raises(AnswererPaused, match=r"m at http://127\.0\.0\.1:9/v1: .*connection lost: Connection refused"):
        asked()
    assert len(asked.waits) == 2


def test_no_more_calls_at_once_than_allowed(ask: Open) -> None:
    asked = ask(server.slow("int a;", 0.01), concurrency=3)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(asked, range(12)))
    assert len(answers) == 12
    assert 1 < asked.server.handled.most_under_way <= 3


def test_closing_finishes_what_is_under_way_and_begins_nothing_else(ask: Open) -> None:
    asked = ask(server.slow("int a;", 0.05), server.fails(500))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(asked)
        while not asked.server.bodies:
            time.sleep(0.01)
        asked.answerer.close()
    assert first.result().text == "int a;"
    with pytest.raises(AnswererPaused, match="resume it"):
        asked()
    assert len(asked.server.bodies) == 1


def test_closing_ends_a_wait() -> None:
    with ChatServer(server.fails(500)) as dead:
        model = Model(name="m", served_as="m", base_url=dead.url)
        notes: list[str] = []
        answerer = ChatAnswerer(
            ChatSettings(models=(model,)), Ledger(Caps(), time.monotonic), clock=time.monotonic, note=notes.append
        )
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(answerer.answer, prompt(), np.random.default_rng(0))
            while not dead.bodies:
                time.sleep(0.01)
            answerer.close()
        assert isinstance(first.exception(), AnswererPaused)
        assert len(dead.bodies) == 1


def test_the_key_is_not_in_what_is_printed(ask: Open) -> None:
    asked = ask(says(GOOD))
    shown = repr(asked.answerer._settings) + repr(replace(asked.answerer._settings, concurrency=2)) + repr(asked())
    assert KEY not in shown
    assert USAGE["prompt_tokens"] == 40
