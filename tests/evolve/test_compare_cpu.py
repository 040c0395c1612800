"""Two arms on real kernels: a program answers, turning the plan's numbers one at a time, whatever the form it is asked in."""

import sys
from pathlib import Path

import pytest

from evolve.compare import compare
from evolve.compare_launch import Ended, launch, planned
from evolve.config import RunConfig
from mutators.arms import Arm
from results.comparison_figure import comparison_svg
from results.comparison_text import comparison_lines
from results.events import FinalMeasured, RunNoted, StepEvaluated
from results.reader import Reader

ANSWERER = """
import hashlib, re, sys
prompt = sys.stdin.read()
source = prompt.split("## Parent", 1)[1].split("## Measurements", 1)[0]
found = re.findall(r"^(\\w+)\\s*= \\{ value = (\\d+), choices = \\[([\\d, ]+)\\]", source, re.M)
turn = int(hashlib.sha256(prompt.encode()).hexdigest(), 16)
name, value, choices = found[turn % len(found)]
others = [one.strip() for one in choices.split(",") if one.strip() != value]
line = next(line for line in source.splitlines() if re.match(rf"{name}\\s*= ", line))
edit = line.replace(f"value = {value}", f"value = {others[turn // 7 % len(others)]}")
print(f'+++\\nhypothesis = "another {name} fits better"\\nprediction = {{ all = 1.02 }}\\nclaim = "none"\\n+++')
print(f"<<<<<<< SEARCH\\n{line}\\n=======\\n{edit}\\n>>>>>>> REPLACE")
"""


def said_in(folder: Path) -> list[str]:
    """Every verdict of a run with its message, and why it stopped."""
    with Reader.open(folder) as reader:
        events = [recorded.event for recorded in reader.events()]
    found = [
        f"{event.outcome.verdict}: {event.outcome.message}"
        for event in events
        if isinstance(event, StepEvaluated | FinalMeasured)
    ]
    return [folder.name, *found, *(event.text for event in events if isinstance(event, RunNoted))]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_arms_on_the_cpu_are_launched_in_turns_and_compared(tmp_path: Path) -> None:
    (tmp_path / "answer.py").write_text(ANSWERER)
    config = RunConfig.model_validate(
        {
            "run": {"name": "arms", "seed": 1},
            "task": {"name": "attention_forward", "scenarios": "cpu_quick"},
            "population": {"seeds": ("cpu_plain", "cpu_blocked"), "islands": 1},
            "mutation": {"answerer": "command"},
            "command": {"program": (sys.executable, str(tmp_path / "answer.py"))},
            "evaluation": {"pace": "quick", "looks": 1, "least_deadline_s": 20.0},
            "executor": {"kind": "inline"},
            "budget": {"candidates": 3},
        }
    )
    launched = launch(planned(config, (Arm.COMMAND, Arm.TOOLS), 1, tmp_path), lambda text: None)
    found = [said for name in ("command-1", "tools-1") for said in said_in(tmp_path / "compare-arms" / name)]
    assert (launched.ended, launched.empty) == (Ended.DONE, ()), "\n".join(found)
    comparison = compare(launched.runs)
    assert [arm.name for arm in comparison.arms] == ["command", "tools"]
    assert comparison.contests[0].says == "1 run an arm: no conclusion"
    for arm in comparison.arms:
        assert arm.best is not None
        assert arm.evaluations == 3
        assert arm.runs[0].last.wall_s > 0
    assert any("no conclusion" in line for line in comparison_lines(comparison))
    assert comparison_svg(comparison).count("wall time, s") == 1
    prompts = []
    for one in launched.runs:
        with Reader.open(one.folder) as reader:
            prompts.append(reader.prompt(2))
    assert "## Machine code" not in prompts[0]
    assert "innermost loop of" in prompts[1]
