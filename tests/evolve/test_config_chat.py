"""The [chat] table: what it takes, and that no key gets into it."""

import numpy as np
import pytest
from pydantic import ValidationError

from evolve.chat import KeyMissing, chat_answerer, spent_on
from evolve.config_chat import ChatTable, check_chat
from mutators.answerers.budget import Amounts, Caps, Ledger
from mutators.question import Answer, Usage
from tests.mutators.chat_server import ChatServer, says
from tests.mutators.chatting import GOOD, prompt

MODEL = {"name": "coder", "base_url": "http://127.0.0.1:8080/v1/"}
PRICED = MODEL | {"usd_per_million_prompt_tokens": 0.5, "usd_per_million_answer_tokens": 2.0}


def table(*models: dict[str, object], **keys: object) -> ChatTable:
    return ChatTable.model_validate({"models": models, **keys})


def test_defaults() -> None:
    chat = table(MODEL)
    assert chat.models[0].base_url == "http://127.0.0.1:8080/v1"
    assert (chat.at_once, chat.tries, chat.max_answer_tokens, chat.stall_s, chat.time_limit_s) == (4, 5, 32768, 300.0, 1800.0)
    assert ChatTable.model_validate(chat.model_dump(mode="json")) == chat


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"base_url": "127.0.0.1:8080"}, "must look like http://"),
        ({"base_url": "ftp://host/v1"}, "must look like http://"),
        ({"base_url": "https://me:secret@host/v1"}, "no user, password or query"),
        ({"base_url": "https://host/v1?key=secret"}, "no user, password or query"),
        ({"key_env": "sk-secret-4711"}, "never the key"),
        ({"key_env": ""}, "at least 1 character"),
        ({"parameters": {"max_tokens": 9}}, "max_tokens is set by the search"),
        ({"parameters": {"stream": False}}, "stream is set by the search"),
        ({"usd_per_million_prompt_tokens": -1.0}, "greater than or equal to 0"),
        ({"temprature": 0.1}, "Extra inputs are not permitted"),
    ],
)
def test_what_is_refused(change: dict[str, object], text: str) -> None:
    with pytest.raises(ValidationError, match=text) as caught:
        table(MODEL | change)
    messages = " ".join(error["msg"] for error in caught.value.errors())
    assert "secret" not in messages


def test_names_differ() -> None:
    with pytest.raises(ValidationError, match="coder is there twice"):
        table(MODEL, MODEL | {"served_as": "other"})


def test_a_limit_in_money_needs_prices_or_tokens() -> None:
    with pytest.raises(ValueError, match=r"usd = 5.0 can't bind coder.*set \[budget\] tokens"):
        check_chat(table(MODEL), 5.0, None)
    assert check_chat(table(MODEL), 5.0, 10**6) == ["the price of coder isn't known, so its answers count in tokens alone"]
    assert check_chat(table(PRICED), 5.0, None) == []
    assert "neither" in check_chat(table(PRICED), None, None)[0]
    with pytest.raises(ValueError, match="needs a model"):
        check_chat(ChatTable(), None, None)


def test_a_key_that_is_missing_is_named() -> None:
    with pytest.raises(KeyMissing, match="the environment variable CODER_KEY isn't set"):
        chat_answerer(table(MODEL | {"key_env": "CODER_KEY"}), Ledger(Caps(), float), {"CODER_KEY": " "}, [].append)


def test_the_answerer_that_a_table_describes() -> None:
    with ChatServer(says(GOOD)) as server:
        model = PRICED | {"base_url": server.url, "key_env": "CODER_KEY", "served_as": "x", "parameters": {"temperature": 0.5}}
        answerer = chat_answerer(table(model, max_answer_tokens=50), Ledger(Caps(), float), {"CODER_KEY": "sk-1\n"}, [].append)
        answer = answerer.answer(prompt(), np.random.default_rng(0))
    request = server.handled.requests[0]
    assert (request.body["model"], request.body["temperature"], request.body["max_tokens"]) == ("x", 0.5, 50)
    assert request.headers["authorization"] == "Bearer sk-1"
    assert answer.model == "coder"
    assert spent_on([answer, None, answer], wall_s=3.0) == Amounts(tokens=120, usd=2 * answer.usage.cost_usd, wall_s=3.0)
    assert spent_on([Answer(text="", answerer="person", usage=Usage())]) == Amounts()
