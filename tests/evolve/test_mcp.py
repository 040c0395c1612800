"""The MCP server, used by the official client over standard input and output: an agent as the mutator of a whole run."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from evolve.api import resume, run
from results.folder import find_run
from results.reader import Reader
from tests.evolve.answering import mailbox_config, scripted
from tests.evolve.simulation import shuffled

mcp = pytest.importorskip("mcp", reason="pip install 'askevolve[mcp]'")

SERVE = "from evolve.cli.app import main; main()"


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """The folder of runs with one that waits for answers, four of its prompts open."""
    settings = mailbox_config(executor={"lookahead": 4}, budget={"candidates": 8})
    run(settings, root=tmp_path, executor=shuffled(), until_idle=True)
    return tmp_path


def talk(root: Path, conversation: Callable[[Any], Awaitable[None]]) -> None:
    """Start the server as a client does, and talk to it."""
    from mcp import StdioServerParameters
    from mcp.client import Client
    from mcp.client.stdio import stdio_client

    async def whole() -> None:
        arguments = ["-c", f"import sys; sys.argv = ['askevolve', 'mcp', {str(root)!r}]; {SERVE}"]
        parameters = StdioServerParameters(command=sys.executable, args=arguments, cwd=Path(__file__).parents[2])
        async with Client(stdio_client(parameters)) as client:
            await conversation(client)

    asyncio.run(whole())


async def said(client: Any, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return str(result.content[0].text)


async def refused(client: Any, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content[0].text
    return str(result.content[0].text)


def test_an_agent_answers_open_prompts(waiting: Path) -> None:
    answered: list[int] = []

    def answer_to(prompt: str, number: int) -> str:
        with Reader.open(find_run("sim", waiting)) as reader:
            posed = next(one for one in reader.open_steps() if one.step.number == number)
            parent = reader.candidate(posed.step.parent_id or "")
            assert prompt == reader.prompt(number)
        return scripted(prompt, parent, posed.question).text

    async def work(client: Any) -> None:
        assert sorted(tool.name for tool in (await client.list_tools()).tools) == ["answer", "evaluate", "next", "show", "status"]
        while True:
            taken = await said(client, "next", run="sim", name="bot")
            if taken.startswith("No prompt to take"):
                assert "askevolve resume" in taken
                break
            head, _, prompt = taken.partition("\n\n")
            assert head.startswith("Step ")
            number = int(head.split()[1])
            assert prompt.rstrip().splitlines()[-1].startswith("It would be settled by")
            await said(client, "answer", run="sim", step=number, text=answer_to(prompt, number), name="bot", force=True)
            answered.append(number)

    talk(waiting, work)
    assert len(answered) == 4
    before = resume(find_run("sim", waiting), executor=shuffled(), until_idle=True)
    with Reader.open(find_run("sim", waiting)) as reader:
        assert {reader.step(number).answer.answerer for number in answered} == {"bot"}  # type: ignore[union-attr]
    assert before.questions_asked > 4


def test_looking_judging_and_mistakes(waiting: Path) -> None:
    async def look(client: Any) -> None:
        assert "best" in await said(client, "status", run="sim")
        shown = await said(client, "show", run="sim")
        source = await said(client, "show", run="sim", source=True)
        assert "/* plan" in source
        assert shown != source
        assert (await said(client, "evaluate", source="int a;", language="cpp")).startswith("PLAN_ERROR")
        first = await said(client, "next", run="sim")
        number = int(first.split()[1])
        assert "header" in await refused(client, "answer", run="sim", step=number, text="make it faster")
        assert "isn't open" in await refused(client, "answer", run="sim", step=999, text="+++")
        assert "no run 'nowhere'" in await refused(client, "status", run="nowhere")
        assert "zzzz" in await refused(client, "show", run="sim", candidate="zzzz")
        assert (await said(client, "next", run="sim")).partition("\n")[2] == first.partition("\n")[2]

    talk(waiting, look)
