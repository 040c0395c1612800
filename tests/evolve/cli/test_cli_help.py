import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HEAVY = ("numpy", "pandas", "pydantic", "torch", "ray", "openai")
COMMANDS = (
    "", "init", "doctor", "run", "resume", "stop", "status", "list", "show", "diff", "lineage", "trace", "next", "answer", "ask",
    "evaluate", "final", "export", "dashboard", "report", "gc", "task", "task list", "task check", "task new",
)  # fmt: skip
PROBE = f"""
import sys
from evolve.cli.app import main
for command in {COMMANDS!r}:
    sys.argv = ["askevolve", *command.split(), "--help"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, command
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    assert not loaded, (command, loaded)
"""


def test_no_help_page_loads_a_heavy_package(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: askevolve") == len(COMMANDS)
    assert "<list" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_every_command_has_a_whole_sentence_in_the_overview(ask) -> None:
    overview = ask("--help").out.partition("Commands:")[2]
    assert "..." not in overview
    for command in COMMANDS[1:]:
        if " " not in command:
            assert f"\n  {command} " in overview


def test_the_exit_codes_are_documented_as_they_are(ask) -> None:
    from evolve.cli.output import Exit

    words = " ".join(ask("--help").out.split())
    for code in Exit:
        assert f"{code.value} " in words.partition("Exit codes:")[2]


@pytest.mark.parametrize("line", [["bogus"], ["run"], ["show"], ["list", "--nope"], ["gc", "--max-gb", "-1"]])
def test_a_usage_error_ends_with_2_and_names_the_help(ask, line: list[str]) -> None:
    ran = ask(*line)
    assert (ran.code, ran.out) == (2, "")
    assert "--help" in ran.err
