"""What the first layer would have refused is caught by the next: attacks with that first layer switched off."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from evaluator.check import Checked
from evaluator.outcome import Check, Outcome, Verdict
from evaluator.request import Request
from tests.cheats.attention_session import Watched, bad_source
from tests.evaluator import fake_backend
from tests.evaluator.fake_backend import Behaviour, FakeBackend, Outputs, candidate
from tests.evaluator.tiny_harness import harness

KEPT = {Verdict.STALE_OUTPUT, Verdict.NONDETERMINISTIC, Verdict.WRONG}
WITHOUT_GATE: Mapping[str, set[Verdict]] = {
    "device_cache": KEPT,
    "thread_local_data": {Verdict.SANDBOX},
    "heap": {Verdict.SANDBOX},
    "print_result": {Verdict.SANDBOX},
    "write_result": {Verdict.SANDBOX},
    "system_call": {Verdict.SANDBOX},
    "clock": {Verdict.SANDBOX},
}
WITHOUT_CHECKS = (
    "all_zeros",
    "mean_of_all_v",
    "copy_of_v",
    "copy_of_q",
    "mean_of_v",
    "unmasked_corner",
    "ignores_last_tile",
    "causal_off_by_one",
    "wrong_head_map",
    "wrong_scale",
    "sniffs_first_tile",
    "remembers_on_stack",
)
ALL_PASSED = Check(
    scenario="any", distribution="any", tensor="any", passed=True, max_error=0.0, max_allowed=1.0, rms_error=0.0, rms_allowed=1.0
)


@pytest.mark.parametrize("name", WITHOUT_GATE)
def test_without_the_gate(watched: Watched, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("evaluator.cpu.backend.gate", lambda build, resolved: None)
    outcome = watched.evaluate(bad_source(name))
    assert outcome.verdict in WITHOUT_GATE[name], outcome.message


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_CHECKS)
def test_without_checks_the_race_compares(watched: Watched, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("evaluator.stages.check", lambda *given: Checked(checks=(ALL_PASSED,), fault=None))
    outcome = watched.evaluate(bad_source(name))
    assert outcome.stage == "time"
    assert outcome.verdict is Verdict.WRONG, outcome.message


def spoilt(tmp_path: Path, behaviour: Behaviour) -> Outcome:
    one = candidate()
    return harness(FakeBackend(behaviours={one.id: behaviour}), tmp_path).evaluate(Request(candidate=one))


def test_without_repeats_the_race_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update that is lost now and then: repeats that happen to agree leave it to the comparison."""
    monkeypatch.setattr("evaluator.check._same", lambda one, other: True)

    def lost(execution: int, right: Outputs, before: Outputs) -> Outputs:
        return {**right, "total": right["total"] * (0.5 if execution % 3 == 2 else 1.0)}

    assert spoilt(tmp_path, Behaviour(spoil=lost)).verdict is Verdict.WRONG


def test_without_repeats_a_memory_on_the_stack_is_wrong(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluator.check._same", lambda one, other: True)
    outcome = watched.evaluate(bad_source("remembers_on_stack"))
    assert outcome.verdict in {Verdict.WRONG, Verdict.NONFINITE}, outcome.message


@pytest.mark.parametrize("left_over", [0.0, 1.0])
def test_without_poison_stale_memory_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_over: float) -> None:
    monkeypatch.setattr(fake_backend, "POISONS", (left_over,) * 3)
    outcome = spoilt(tmp_path, Behaviour(spoil=lambda execution, right, before: before))
    assert outcome.verdict is Verdict.WRONG


def test_without_poison_an_answer_that_was_kept_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_backend, "POISONS", (0.0,) * 3)
    kept: dict[tuple[int, ...], Outputs] = {}

    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        return {name: array.copy() for name, array in kept.setdefault(right["y"].shape, right).items()}

    assert spoilt(tmp_path, Behaviour(spoil=spoil)).verdict is Verdict.WRONG
