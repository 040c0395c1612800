"""The pack's plain CUDA kernels run on the CPU under the harness's own check: right ones pass, bad ones get their verdict."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.task import Task
from evaluator.task_card import Scenario
from tests.cheats.cuda_cases import (
    ATTENTION,
    EITHER,
    GOOD_ATTENTION,
    MEMORY,
    SET,
    WRONG,
    attention_source,
    bad_source,
    honest_attention,
    honest_sources,
    light_task,
    small_attention,
)
from tests.cheats.emulation import can_emulate, judge

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

LIGHT = {"n": 9, "m": 68, "dtype": "fp32"}
HALF = {"n": 7, "m": 40, "dtype": "fp16"}
SHAPES = {
    "grouped_causal": {"b": 2, "sq": 5, "sk": 70, "h": 4, "hkv": 2, "d": 64, "causal": 1, "window": 0, "dtype": "bf16"},
    "window": {"b": 1, "sq": 9, "sk": 35, "h": 2, "hkv": 1, "d": 64, "causal": 1, "window": 6, "dtype": "bf16"},
    "full": {"b": 1, "sq": 24, "sk": 70, "h": 2, "hkv": 2, "d": 128, "causal": 0, "window": 0, "dtype": "fp16"},
}
ONE_BY_ONE = {
    "race": "its order varies on a GPU only",
    "undeclared_atomics": "its order varies on a GPU only",
    "lost_updates": "blocks come one after the other",
    "counter_not_reset": "the audit finds it",
    "looks_for_another_answer": "the address is nobody's",
    "reads_past_keys": "the address may be nobody's",
}
"""Bad candidates that emulation can't show."""
BAD_LIGHT = [name for name in (*MEMORY, *WRONG) if name not in ONE_BY_ONE and can_emulate(bad_source(name))]
BAD_ATTENTION = [name for name in ATTENTION if name not in ONE_BY_ONE and can_emulate(attention_source(name))]
FAST = {"unwritten_rows", "split_keys"}
EVERYDAY, EVERY = "everyday inputs", "all inputs"


def judged(names: list[str]) -> list[object]:
    """A few candidates on everyday inputs in every run of the tests, all of them on all inputs in the slow one."""
    quick = [pytest.param(name, EVERYDAY) for name in names if name in FAST]
    return [*quick, *(pytest.param(name, EVERY, marks=pytest.mark.slow) for name in names)]


def distributions(task: Task, which: str) -> tuple[str, ...]:
    names = tuple(task.distributions)
    if which == EVERY:
        return names
    return ("blended",) if "blended" in names else names[:1]


def tiny(task: Task, shapes: dict[str, dict[str, int | str]]) -> Task:
    scenarios = (Scenario(name=name, symbols=symbols, region=task.region(symbols)) for name, symbols in shapes.items())
    return replace(task, scenarios={SET: tuple(scenarios)})


def light() -> Task:
    return tiny(light_task(), {"fp32": LIGHT, "fp16": HALF})


def attention() -> Task:
    return tiny(small_attention(), SHAPES)


@pytest.mark.parametrize(("name", "which"), judged([name for name, source in honest_sources().items() if can_emulate(source)]))
def test_right_light_kernels_pass(name: str, which: str, tmp_path: Path) -> None:
    for checked in judge(honest_sources()[name], light(), SET, tmp_path, distributions(light(), which)):
        assert checked.fault is None, checked.fault


@pytest.mark.parametrize(
    ("name", "which"),
    judged([GOOD_ATTENTION.stem, *(name for name, source in honest_attention().items() if can_emulate(source))]),
)
def test_right_attention_kernels_pass(name: str, which: str, tmp_path: Path) -> None:
    source = honest_attention().get(name) or attention_source(name)
    for checked in judge(source, attention(), SET, tmp_path, distributions(attention(), which)):
        assert checked.fault is None, checked.fault


@pytest.mark.parametrize(("name", "which"), judged(BAD_LIGHT))
def test_bad_light_kernels_get_their_verdicts(name: str, which: str, tmp_path: Path) -> None:
    found = judge(bad_source(name), light(), SET, tmp_path, distributions(light(), which))
    verdicts = {checked.fault.verdict for checked in found if checked.fault is not None}
    assert verdicts
    assert verdicts <= set({**MEMORY, **WRONG}[name])


@pytest.mark.parametrize(("name", "which"), judged(BAD_ATTENTION))
def test_bad_attention_kernels_get_their_verdicts(name: str, which: str, tmp_path: Path) -> None:
    found = judge(attention_source(name), attention(), SET, tmp_path, distributions(attention(), which))
    verdicts = {checked.fault.verdict for checked in found if checked.fault is not None}
    assert verdicts
    assert verdicts <= set(ATTENTION[name]), [checked.fault for checked in found]


def test_most_of_the_pack_can_be_emulated() -> None:
    assert len(BAD_LIGHT) + len(BAD_ATTENTION) >= 25
    assert set(ONE_BY_ONE) <= {*MEMORY, *WRONG, *ATTENTION, "looks_for_another_answer"}
    assert not set(EITHER) & {*BAD_LIGHT, *BAD_ATTENTION}
