"""A run's trace, from a store that the tests fill."""

from pathlib import Path

import pytest

from evaluator.outcome import Verdict
from mutators.question import Usage
from results.codec import plain
from results.comparison_trace import Trace, trace_of
from results.events import CONFIG_FACT, UNANSWERED, RunNoted, RunStopped, TimeSpent
from results.reader import Reader
from results.store import Store
from tests.results.makers import asked, evaluated, fill, final, folded, started

CONFIG = {
    "run": {"name": "first", "seed": 7},
    "mutation": {"style": "command", "answerer": "knobs"},
    "budget": {"candidates": 20},
}


def traced(folder: Path, *events: object, label: str | None = None) -> Trace:
    with Store.create(folder, started(config=CONFIG)) as store:
        fill(store)
        store.append(*events)  # type: ignore[arg-type]
    with Reader.open(folder) as reader:
        return trace_of(reader, label)


def test_a_trace_tells_style_seed_spending_and_ends(tmp_path: Path) -> None:
    trace = traced(tmp_path, TimeSpent(wall_s=3.0), RunStopped(reason="candidates"))
    assert (trace.name, trace.arm, trace.style, trace.seed, trace.stopped_by) == ("first", "command", "command", 7, "candidates")
    assert [(point.answers, point.evaluations, point.ratio) for point in trace.points] == [
        (0, 1, pytest.approx(0.998)),
        (0, 2, pytest.approx(0.998)),
        (1, 3, pytest.approx(1.497)),
        (2, 4, pytest.approx(1.497)),
        (3, 4, pytest.approx(1.497)),
        (4, 4, pytest.approx(1.497)),
        (4, 4, pytest.approx(1.497)),
    ]
    assert [point.wall_s for point in trace.points[-2:]] == [0.0, 3.0]
    assert trace.last.tokens == 5 * 120  # one answer more was paid for than was folded
    assert trace.last.usd == pytest.approx(1.25)
    assert trace.best is not None
    assert (trace.best.ratio, trace.best.verified) == (1.45, True)
    assert trace.rejections == {"duplicate": 1, "no_code": 1}
    assert trace.verdicts == {"OK": 1, "WRONG": 1}
    assert trace.accepted == 1
    assert {gain.key: (gain.asked, gain.accepted) for gain in trace.layers} == {"schedule": (5, 1)}
    assert trace.noise_pct == 0.2
    assert trace.terms["device"] == "cpu test (none, 2 cores)"
    assert trace.settings == {"mutation.answerer": "'knobs'", "budget.candidates": "20", "askevolve": "0.1.0"}


def test_a_label_takes_the_place_of_the_style(tmp_path: Path) -> None:
    assert traced(tmp_path, label="mine").arm == "mine"


def test_what_a_final_refuted_was_never_good(tmp_path: Path) -> None:
    trace = traced(tmp_path, final("child", verdict=Verdict.WRONG))
    assert [point.ratio for point in trace.points] == [pytest.approx(0.998)] * 7
    assert trace.best is not None
    assert not trace.best.verified


def test_calls_without_an_answer_and_a_changed_configuration_count(tmp_path: Path) -> None:
    lost = RunNoted(text="lost", facts={UNANSWERED: plain(Usage(prompt_tokens=1000))})
    changed = RunNoted(text="changed", facts={CONFIG_FACT: {**CONFIG, "budget": {"candidates": 40}}})
    trace = traced(tmp_path, lost, changed, evaluated(6, "late", 1.6), folded(6, "late"))
    assert trace.last.tokens == 5 * 120 + 1000
    assert trace.last.ratio == pytest.approx(1.6 * 0.998)
    assert trace.settings["budget.candidates"] == "40"


def test_a_fault_of_the_harness_is_no_evaluation(tmp_path: Path) -> None:
    trace = traced(tmp_path, evaluated(6, "late", verdict=Verdict.HARNESS_FAULT), folded(6, "child"))
    assert trace.last.evaluations == 4
    assert trace.last.answers == 5


def test_a_run_without_a_question_has_a_trace(tmp_path: Path) -> None:
    with Store.create(tmp_path, started(config=CONFIG)) as store:
        store.append(asked(0, "seed a"))
    with Reader.open(tmp_path) as reader:
        trace = trace_of(reader)
    assert (trace.points, trace.best, trace.last.answers) == ((), None, 0)


def test_a_seed_with_a_wide_interval_has_a_lower_bound_and_such_a_child_has_none(tmp_path: Path) -> None:
    with Store.create(tmp_path, started(config=CONFIG)) as store:
        store.append(asked(0, "a"), evaluated(0, "a", 0.7, verdict=Verdict.AMBIGUOUS), folded(0, "a", status="best"))
        store.append(asked(1, "b", "a"), evaluated(1, "b", 0.9, verdict=Verdict.AMBIGUOUS), folded(1, "a"))
    with Reader.open(tmp_path) as reader:
        trace = trace_of(reader)
    assert [point.ratio for point in trace.points] == [pytest.approx(0.7 * 0.998)] * 2
