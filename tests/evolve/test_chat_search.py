"""Whole searches answered by models: garbage, faults and money end them without losing anything."""

from pathlib import Path

from evolve.config_chat import ChatTable
from evolve.stopping import StopReason
from mutators.answerers.budget import Caps
from mutators.question import Rejection
from results.events import RunNoted
from tests.evolve.chat_search import answers, asked, chatting, search
from tests.evolve.simulation import stored
from tests.mutators import chat_server as server
from tests.mutators.chat_server import ChatServer, says

GARBAGE = "0x%7f lorem ipsum }}}{{{ \x07 dolor"
KEY = "sk-very-secret-0815"
CAP = 200_000


def table(*servers: ChatServer, **keys: object) -> ChatTable:
    models = [
        {"name": f"model {place}", "base_url": one.url, "key_env": "CHAT_KEY", "usd_per_million_prompt_tokens": 1.0,
         "usd_per_million_answer_tokens": 1.0}
        for place, one in enumerate(servers)
    ]  # fmt: skip
    return ChatTable.model_validate({"models": models, "max_answer_tokens": 500, "stall_s": 5.0, **keys})


def notes(folder: Path) -> str:
    return "\n".join(event.text for event in stored(folder) if isinstance(event, RunNoted))


def test_garbage_ends_by_budget_and_loses_nothing(tmp_path: Path) -> None:
    faults = [server.fails(429, headers=[("retry-after-ms", "1")]), says(""), server.cut("int"), server.hangs_up]
    plays = [play for fault in faults for play in (fault, says(GARBAGE, usage=None))]
    with ChatServer(*plays) as one, ChatServer(says(GARBAGE, usage={"prompt_tokens": 10**9, "completion_tokens": 0})) as other:
        models = table(one, other)
        with chatting(models, Caps(tokens=CAP), KEY) as ledgers:
            first = search(tmp_path)
            again = search(tmp_path, resumed=first.folder)
    steps = asked(first.folder)
    assert {step.rejected.reason for step in steps if step.rejected} == {Rejection.HEADER_MISSING}
    assert len(steps) >= 10
    assert {step.answer.model for step in steps if step.answer} == {"model 0", "model 1"}
    spent = sum(answer.usage.prompt_tokens + answer.usage.answer_tokens for answer in answers(first.folder))
    assert spent == ledgers[0].spent.tokens <= CAP
    assert "the budget of tokens is spent" in notes(first.folder)
    assert (first.stopped_by, again.stopped_by) == (StopReason.ANSWERER, StopReason.ANSWERER)
    assert ledgers[1].spent.tokens == spent, "the next driver goes on from what was stored"
    assert first.best is not None, "the seeds were right and still are"


def test_a_server_that_is_down_pauses_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    with ChatServer(says(GARBAGE), says(GARBAGE), server.fails(503)) as flaky, chatting(table(flaky, tries=1), Caps()):
        first = search(tmp_path)
    assert first.stopped_by is StopReason.ANSWERER
    assert "no model answers" in notes(first.folder)
    assert first.candidates == 2, "the budget of candidates is untouched"
    before = len(answers(first.folder))
    with ChatServer(says(GARBAGE)) as well, chatting(table(well), Caps(tokens=CAP // 4)):
        search(tmp_path, resumed=first.folder)
    assert before == 2
    assert len(answers(first.folder)) > before


def test_the_key_gets_nowhere(tmp_path: Path) -> None:
    with ChatServer(says(GARBAGE), server.fails(401, f"wrong key: {KEY}")) as one, chatting(table(one), Caps(), KEY):
        found = search(tmp_path)
    assert "wrong key: [key]" in notes(found.folder)
    assert one.handled.requests[0].headers["authorization"] == f"Bearer {KEY}"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
