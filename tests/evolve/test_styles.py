"""The three styles in a run's parts: what each puts, shows and leaves to later runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.outcome import Device, Outcome
from evaluator.request import Request
from evaluator.simulated import SimulatedEvaluator
from evaluator.task import load_task
from evolve import api
from evolve.config import ConfigError, RunConfig
from evolve.machine_code import MachineCode
from evolve.parts import assemble
from evolve.remembering import keep, noted_earlier
from evolve.state import State
from mutators.arms import Arm
from mutators.question import Layer
from mutators.record_file import FILE_NAME
from mutators.records import Record, Records
from population.candidate import Candidate, Language
from population.novelty import candidate_of
from tests.evolve.simulation import SEEDS, card, config

CPU = Device(kind="cpu", name="test", arch="x86_64", cores=2, peak_tflops=1.0, peak_gbs=1.0)


def attention(style: str) -> RunConfig:
    return config(
        task={"name": "attention_forward", "scenarios": "cpu_quick", "backend": "cpu"},
        population={"seeds": ("cpu_blocked",)},
        mutation={"style": style},
    )


def seed(name: str) -> Candidate:
    task = load_task("attention_forward")
    return candidate_of(task.seeds(Language.CPP)[name].read_text(), Language.CPP)


@pytest.mark.parametrize("arm", Arm)
def test_a_style_gives_its_arm_and_only_tools_shows_machine_code(arm: Arm) -> None:
    mutation = assemble(attention(arm.value)).mutation
    assert mutation.arm is arm
    assert (mutation.machine_code is not None) is (arm is Arm.TOOLS)
    assert assemble(config(mutation={"style": arm.value})).mutation.machine_code is None


def test_the_machine_code_of_a_seed_is_that_of_its_loops_and_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task = load_task("attention_forward")
    shows = MachineCode(task=task, card=task.card("cpu_quick"))
    candidate = seed("cpu_plain")
    outcome = replace(_outcome(), device=CPU)
    text = shows(candidate, outcome)
    assert "innermost loop of" in text
    monkeypatch.setenv("PATH", "")
    assert shows(candidate, outcome) is text
    broken = candidate_of(candidate.source.replace("float", "flaot"), Language.CPP)
    assert shows(broken, outcome) == ""


def test_only_runs_that_put_questions_give_and_take_records(tmp_path: Path) -> None:
    state = State(card(), assemble(config()).rules)
    state.records = Records(entries={"tile": Record(asked=3)}, layers={Layer.MEMORY: Record(asked=3)})
    for style in ("command", "tools"):
        assert keep(tmp_path, attention(style), state) is None
        assert not (tmp_path / FILE_NAME).exists()
        assert noted_earlier(tmp_path, attention(style)) == ()


def test_a_run_that_remembers_nothing_neither_reads_nor_writes_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object) -> None:
        raise AssertionError("records were touched")

    monkeypatch.setattr(api, "keep", never)
    monkeypatch.setattr(api, "noted_earlier", never)
    small = config(budget={"candidates": 3})
    folder = api.run(small, root=tmp_path, remembers=False).folder
    api.resume(folder, ["budget.candidates=4"], remembers=False)
    with pytest.raises(AssertionError, match="records were touched"):
        api.resume(folder, ["budget.candidates=5"])


def test_a_run_keeps_its_style(tmp_path: Path) -> None:
    folder = api.run(config(budget={"candidates": 3}), root=tmp_path).folder
    with pytest.raises(ConfigError, match=r"mutation\.style: 'question' -> 'tools'"):
        api.resume(folder, ["mutation.style=tools"])


def _outcome() -> Outcome:
    candidate = candidate_of(Path(SEEDS[0]).read_text(), Language.CPP)
    return SimulatedEvaluator(card(), 5).evaluate(Request(candidate=candidate))
