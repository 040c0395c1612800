"""Admission: good tasks pass, and every kind of fault in a task is found."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluator.admission import admit, representatives, run_baseline
from evaluator.baseline import Baseline, Bound
from evaluator.scaffold import new_task
from evaluator.task import load_baselines, load_task

ATTENTION = load_task("attention_forward")


def test_attention_is_admitted_on_the_quick_set() -> None:
    admission = admit(ATTENTION, "cpu_quick", "cpu")
    assert admission.passed, admission.problems
    answers = {row.answer for row in admission.rows}
    assert {"baseline torch_cpu", "all zeros", "mean of v", "copy of v", "first tile only", "causal off by one"} <= answers
    assert {"wrong head map", "scale 1 % too large", "next lower precision", "plain maths through the transform"} <= answers
    assert {row.scenario for row in admission.rows} == {s.name for s in representatives(ATTENTION, "cpu_quick")}
    assert {row.distribution for row in admission.rows} == set(ATTENTION.distributions)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_sixteen_bit_attention_is_admitted(dtype: str) -> None:
    quick = ATTENTION.card("cpu_quick").scenarios
    small = tuple(replace(s, symbols={**s.symbols, "dtype": dtype}) for s in quick if s.name.startswith("d64"))
    admission = admit(replace(ATTENTION, scenarios={"small": small}), "small", "cpu")
    assert admission.passed, admission.problems


def test_representatives_are_the_cheapest_of_each_region() -> None:
    names = [s.name for s in representatives(ATTENTION, "cpu_small")]
    assert names == [
        "d32_h4_64_full",
        "d32_h4_64_causal",
        "d128_h4_64_full",
        "d128_h4_64_causal",
        "d64_h4_300of200_causal",
        "d64_h4_512_window100",
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "small"
    new_task(place)
    return place


@pytest.mark.parametrize(
    ("file", "old", "new", "answer"),
    [
        ("task.toml", "[tolerance]", "[tolerance]\ny = 0.1", "1 % too large"),
        ("task.toml", "[tolerance]", "[tolerance]\ny = 100.0", "all zeros"),
        ("baselines.py", "weight, 1e-6)", "weight, 1e-1)", "baseline torch_cpu"),
        ("task.py", "flip_signs(new", "(lambda x, f: x)(new", "plain maths through the transform"),
    ],
)
def test_faults_of_a_task_are_found(folder: Path, file: str, old: str, new: str, answer: str) -> None:
    assert admit(load_task(str(folder)), "quick", "cpu").passed
    path = folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    admission = admit(load_task(str(folder)), "quick", "cpu")
    assert not admission.passed
    assert answer in {row.answer for row in admission.problems}
    assert all(row.detail for row in admission.problems)


def test_a_task_without_a_baseline_here_is_not_admitted(folder: Path) -> None:
    admission = admit(load_task(str(folder)), "quick", "cuda")
    assert [row.must for row in admission.problems] == ["be there"] * len(representatives(load_task(str(folder)), "quick"))
    assert admission.problems[0].detail == "no cuda baseline"


def test_a_missing_baseline_says_why(folder: Path) -> None:
    task = load_task(str(folder))
    absent = replace(load_baselines(folder)[0], available=lambda: "needs a moon")
    assert admit(task, "quick", "cpu", [absent]).problems[0].detail == "torch_cpu: needs a moon"


def test_outputs_that_a_baseline_leaves_out_are_not_judged() -> None:
    symbols = dict(ATTENTION.card("cpu_quick").scenarios[0].symbols, sq=8, sk=8)
    partial = Baseline(
        name="partial",
        backend="cpu",
        available=lambda: None,
        version=lambda: "1",
        supports=lambda s: True,
        bind=lambda s, inputs, outputs: Bound(call=lambda: None, store=lambda: None),
        leaves_out=("lse",),
    )
    inputs = ATTENTION.inputs(symbols, "normal", np.random.default_rng(0))
    assert set(run_baseline(ATTENTION, partial, symbols, inputs)) == {"out"}
