"""Whole searches answered by models: garbage, faults and money end them without losing anything."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evolve.stopping import StopReason
from mutators.answerers.base import ModelRecord, Prompt
from mutators.answerers.chat import ChatAnswerer
from mutators.question import Answer, Rejection
from results.events import UNANSWERED, RunNoted, StepFolded, StepPosed
from tests.evolve.chat_search import answers, asked, go_on, search
from tests.evolve.simulation import SEEDS, stored
from tests.mutators import chat_server as server
from tests.mutators.chat_server import ChatServer, says

GARBAGE = "0x%7f lorem ipsum }}}{{{ \x07 dolor"
KEY = "sk-very-secret-0815"
CAP = 200_000


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_KEY", KEY)


def chat(*servers: ChatServer, **keys: object) -> dict[str, Any]:
    """A [chat] table."""
    models = [
        {"name": f"model {place}", "base_url": one.url, "key_env": "CHAT_KEY", "usd_per_million_prompt_tokens": 1.0,
         "usd_per_million_answer_tokens": 1.0}
        for place, one in enumerate(servers)
    ]  # fmt: skip
    return {"models": models, "max_answer_tokens": 500, "stall_s": 5.0, **keys}


def notes(folder: Path) -> str:
    return "\n".join(event.text for event in stored(folder) if isinstance(event, RunNoted))


def tokens(folder: Path) -> int:
    return sum(answer.usage.prompt_tokens + answer.usage.answer_tokens for answer in answers(folder))


def test_garbage_ends_by_budget_and_loses_nothing(tmp_path: Path) -> None:
    faults = [server.fails(429, headers=[("retry-after-ms", "1")]), says(""), server.cut("int"), server.hangs_up]
    plays = [play for fault in faults for play in (fault, says(GARBAGE, usage=None))]
    with ChatServer(*plays) as one, ChatServer(says(GARBAGE, usage={"prompt_tokens": 10**9, "completion_tokens": 0})) as other:
        first = search(tmp_path, chat(one, other), tokens=CAP)
        again = go_on(first.folder)
    steps = asked(first.folder)
    assert {step.rejected.reason for step in steps if step.rejected} == {Rejection.NO_CODE}
    assert len(steps) >= 5
    assert {step.answer.model for step in steps if step.answer} == {"model 0", "model 1"}
    assert any(step.answer.first for step in steps if step.answer), "what was rejected was sent back"
    assert first.spent["tokens"] == tokens(first.folder) <= CAP
    assert first.spent["usd"] == pytest.approx(first.spent["tokens"] / 1e6)
    assert "the budget of tokens is spent" in notes(first.folder)
    assert (first.stopped_by, again.stopped_by) == (StopReason.TOKENS, StopReason.TOKENS)
    assert again.spent["tokens"] == first.spent["tokens"], "the next driver goes on from what was stored"
    assert first.best is not None, "the seeds were right and still are"
    assert first.best.verified, "a run that is over verifies its best"


def test_a_server_that_is_down_pauses_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    with ChatServer(says(GARBAGE), says(GARBAGE), server.fails(503)) as one:
        first = search(tmp_path, chat(one, tries=1, at_once=1))
        assert first.stopped_by is StopReason.ANSWERER
        assert "no model answers" in notes(first.folder)
        assert "neither [budget] tokens nor usd is set" in notes(first.folder)
        assert first.candidates == 2, "the budget of candidates is untouched"
        before = answers(first.folder)
        one.handled.plays[:] = [says(GARBAGE)]
        again = go_on(first.folder, f"budget.tokens={CAP // 4}")
    assert [answer.first is not None for answer in before] == [True]
    assert len(answers(first.folder)) > 1
    assert again.stopped_by is StopReason.TOKENS


def test_what_calls_without_an_answer_cost_outlives_the_driver(tmp_path: Path) -> None:
    with ChatServer(server.cut("int")) as one:
        first = search(tmp_path, chat(one, tries=1, at_once=1))
        again = go_on(first.folder)
    assert (first.stopped_by, tokens(first.folder)) == (StopReason.ANSWERER, 0)
    noted = [event for event in stored(first.folder) if isinstance(event, RunNoted) and UNANSWERED in event.facts]
    assert len(noted) == 2
    assert 0 < first.spent["tokens"] < again.spent["tokens"]


def test_every_prompt_has_the_records_of_the_models_as_of_its_posing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: defaultdict[int, list[Mapping[str, ModelRecord]]] = defaultdict(list)
    answer = ChatAnswerer.answer

    def spied(answerer: ChatAnswerer, prompt: Prompt, rng: np.random.Generator) -> Answer:
        seen[prompt.step_number].append(prompt.models)
        return answer(answerer, prompt, rng)

    monkeypatch.setattr(ChatAnswerer, "answer", spied)
    with ChatServer(says(GARBAGE)) as one, ChatServer(says(GARBAGE)) as other:
        first = search(tmp_path, chat(one, other), tokens=CAP // 4)
        go_on(first.folder, f"budget.tokens={CAP // 2}")
    folded, answered = 0, {}
    for event in stored(first.folder):
        folded += isinstance(event, StepFolded)
        if isinstance(event, StepPosed):
            answered[event.step.number] = folded - len(SEEDS)
    for number, records in seen.items():
        assert all(one == records[0] for one in records), "a second turn and a resumed run see the same"
        assert sum(record.answers for record in records[0].values()) == answered[number]
    assert max(map(len, seen.values())) > 2, "some step was open when the first driver stopped"


def test_the_key_gets_nowhere(tmp_path: Path) -> None:
    with ChatServer(says(GARBAGE), server.fails(401, f"wrong key: {KEY}")) as one:
        found = search(tmp_path, chat(one))
    assert "wrong key: [key]" in notes(found.folder)
    assert one.handled.requests[0].headers["authorization"] == f"Bearer {KEY}"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
