"""Programs that answer: what they get, what counts as an answer, and what is left of those that fail."""

import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from mutators.answerers.base import Prompt
from mutators.answerers.command import CommandAnswerer, CommandFailed
from tests.mutators.factories import candidate, question

RNG = np.random.default_rng(0)


def prompt(text: str = "What → ?\n") -> Prompt:
    return Prompt(step_number=1, question=question(), parent=candidate(), knobs=(), children=(), lineage=(), text=text)


def command(
    code: str, *arguments: str | Path, limit_s: float = 20.0, environment: Mapping[str, str] | None = None, tries: int = 3
) -> CommandAnswerer:
    program = [sys.executable, "-c", code, *map(str, arguments)]
    return CommandAnswerer(program, time_limit_s=limit_s, environment=environment or {}, pauses_s=(0.0,) * (tries - 1))


def test_the_prompt_goes_in_and_the_answer_comes_out() -> None:
    code = "import sys; sys.stdout.buffer.write(b'+++\\n' + sys.stdin.buffer.read())"
    answer = command(code).answer(prompt(), RNG)
    assert (answer.text, answer.answerer) == ("+++\nWhat → ?\n", "command")
    assert answer.usage.wall_s > 0


def test_a_program_has_an_empty_folder_and_the_environment_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "never seen")
    code = "import os; print(os.listdir(), sorted(set(os.environ) - {'LC_CTYPE'}), os.environ['KEY'])"
    assert command(code, environment={"KEY": "value"}).answer(prompt(), RNG).text == "[] ['KEY'] value\n"


def test_its_folder_is_gone_afterwards(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    code = "import os, sys; open('made', 'w'); open(sys.argv[1], 'w').write(os.getcwd()); print('+++')"
    command(code, seen).answer(prompt(), RNG)
    assert not Path(seen.read_text()).parent.exists()


COUNTING = """
import pathlib, sys
count = pathlib.Path(sys.argv[1])
count.write_text(count.read_text() + "x" if count.exists() else "x")
"""


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("sys.exit('no credit left')", "ended with status 1, saying: no credit left"),
        ("print('  ')", "printed nothing"),
        ("import os; os.kill(os.getpid(), 9)", "ended with status -9"),
    ],
)
def test_failures_are_tried_again_and_then_named(tmp_path: Path, code: str, says: str) -> None:
    with pytest.raises(CommandFailed, match=r"tried 3 times\. Mend \[command\] program") as failed:
        command(COUNTING + code, tmp_path / "count").answer(prompt(), RNG)
    assert says in str(failed.value)
    assert (tmp_path / "count").read_text() == "xxx"


def test_a_failure_that_passes_costs_a_try(tmp_path: Path) -> None:
    code = COUNTING + "sys.exit(3) if len(count.read_text()) < 3 else print('+++ at last')"
    assert command(code, tmp_path / "count").answer(prompt(), RNG).text == "+++ at last\n"


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandFailed, match=r"/no/such can't be started"):
        CommandAnswerer(["/no/such"], time_limit_s=1, environment={}, pauses_s=()).answer(prompt(), RNG)


def test_what_runs_too_long_is_killed_with_all_it_started(tmp_path: Path) -> None:
    code = "import os, subprocess, sys, time; subprocess.Popen(['sleep', '7362']); print('half', flush=True); time.sleep(60)"
    with pytest.raises(CommandFailed, match="ran into its time limit"):
        command(code, limit_s=1.0, tries=1, environment={"PATH": os.environ["PATH"]}).answer(prompt(), RNG)
    assert not [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", "7362"]]


def test_bytes_that_are_no_text_and_floods_do_no_harm() -> None:
    assert command("import sys; sys.stdout.buffer.write(b'+++ \\xff')").answer(prompt(), RNG).text == "+++ \ufffd"
    flood = command("print('x' * 9_000_000)").answer(prompt(), RNG).text
    assert len(flood) == 4 * 1024 * 1024


def test_once_closed_nothing_is_tried_again(tmp_path: Path) -> None:
    answerer = command(COUNTING + "sys.exit(1)", tmp_path / "count")
    answerer.close()
    with pytest.raises(CommandFailed, match="tried 1 times"):
        answerer.answer(prompt(), RNG)


def test_several_run_at_once(tmp_path: Path) -> None:
    code = """
import pathlib, sys, time
name = sys.stdin.read()
folder = pathlib.Path(sys.argv[1])
(folder / name).touch()
while len(list(folder.iterdir())) < 2:
    time.sleep(0.01)
print(name)
"""
    answerer = command(code, tmp_path, tries=1)
    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda text=text: texts.append(answerer.answer(replace(prompt(), text=text), RNG).text))
        for text in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts) == ["a\n", "b\n"], "each waits for the other, so they ran together"
