"""``--explain`` leaves nothing out: every check, race, fact and note of an outcome with its figure, those of a GPU among them."""

import dataclasses
from pathlib import Path

import pytest

from evaluator.cuda.facts import launch_facts
from evaluator.cuda.monitor import Monitor, Reading
from evaluator.outcome import Outcome, Verdict
from evaluator.request import Request
from results.outcome_text import outcome_lines
from tests.evaluator.cuda_cases import launch, plan
from tests.evaluator.fake_backend import FakeBackend, candidate
from tests.evaluator.tiny_harness import harness

POWER_CAP, THERMAL = 0x04, 0x20


@pytest.fixture
def found(tmp_path: Path) -> Outcome:
    outcome = harness(FakeBackend(), tmp_path).evaluate(Request(candidate=candidate()))
    assert outcome.verdict is Verdict.OK
    return outcome


def explained(outcome: Outcome) -> str:
    return "\n".join(outcome_lines(outcome, explain=True))


def test_every_check_and_race_has_a_line_with_its_figures(found: Outcome) -> None:
    lines = explained(found).splitlines()
    for check in found.checks:
        assert check.max_error is not None
        figures = (f"{check.max_error:.2e}", f"{check.max_allowed:.2e}", f"{check.rms_allowed:.2e}", "pass")
        row = [check.scenario, check.distribution, check.tensor]
        assert any(line.split()[:3] == row and all(figure in line for figure in figures) for line in lines), row
    dropped = dataclasses.replace(found, timings=tuple(dataclasses.replace(race, dropped=37) for race in found.timings))
    for race in found.timings:
        rows = [line for line in explained(dropped).splitlines() if line.startswith(race.scenario) and " 37 " in line]
        assert len(rows) == 1
        assert f"{race.ratio:.3f}x" in rows[0]


def test_the_controls_of_the_session_are_told_even_where_all_is_well(found: Outcome) -> None:
    text = explained(found)
    assert "noise floor (the baseline against itself)" in text
    assert "  a copy of peer over peer: 1.000x [1.000, 1.000] in n8, 8 blocks" in text
    assert "  a copy slowed by 3 % over peer: 0.971x [0.971, 0.971] in n8, 8 blocks" in text
    disturbed = dataclasses.replace(found, controls=tuple(dataclasses.replace(race, dropped=5) for race in found.controls))
    assert explained(disturbed).count("8 blocks, 5 dropped") == 2


def test_every_fact_of_a_gpu_and_every_note_has_a_line(found: Outcome) -> None:
    readings = iter(
        [Reading(sm_clock_mhz=1980, reasons=POWER_CAP, others=()), Reading(sm_clock_mhz=1755, reasons=THERMAL, others=(7,))]
    )
    monitor = Monitor(lambda: next(readings))
    assert monitor.pressure_us() == 0
    assert monitor.pressure_us() is not None
    built = {
        "registers": 168,
        "static_shared_bytes": 0,
        "spill_bytes": 0,
        "barriers": 1,
        "sass_examined": True,
        "hgmma_count": 96,
    }
    resolved = plan(launch("attention", "q:p out:p", block=(384, 1, 1), shared_bytes=200_000))
    facts = {
        **found.facts,
        **built,
        **launch_facts(built, resolved, "sm_90a"),
        **monitor.facts(),
        "lease_s": 1.5,
        "gpu_busy_s": 0.25,
    }
    notes = tuple(f"note number {number}" for number in range(12))
    text = explained(dataclasses.replace(found, facts=facts, notes=notes))
    for name in facts:
        assert any(line.split()[0] == name for line in text.splitlines() if line), name
    assert "sm_clock_least_mhz" in facts
    assert "power cap, software thermal slowdown" in text
    assert facts["other_processes"] == 1
    assert all(f"note: {note}" in text for note in notes)


def test_without_it_the_outcome_is_short(found: Outcome) -> None:
    short = outcome_lines(found)
    assert len(short) < len(outcome_lines(found, explain=True)) / 2
    assert not any("a copy slowed" in line for line in short)
