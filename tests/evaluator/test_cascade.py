"""The cascade on the fake backend: who leaves where, and what an outcome holds."""

from pathlib import Path

import numpy as np
import pytest

from evaluator.outcome import Outcome, Stage, Verdict
from evaluator.request import Request
from population.candidate import Candidate, Language, short_id
from tests.evaluator.fake_backend import Behaviour, FakeBackend, Outputs, candidate, fault, noisy
from tests.evaluator.tiny_harness import harness, tiny


def evaluated(tmp_path: Path, behaviour: Behaviour, incumbent_low: float | None = None, set_name: str = "three") -> Outcome:
    backend = FakeBackend()
    one = candidate()
    backend.behaviours[one.id] = behaviour
    return harness(backend, tmp_path, set_name).evaluate(Request(candidate=one, incumbent_low=incumbent_low))


def test_a_right_candidate_gets_a_score_over_the_whole_set(tmp_path: Path) -> None:
    found = evaluated(tmp_path, Behaviour(time_us=noisy(np.random.default_rng(0), 50.0)))
    assert (found.verdict, found.stage, found.fault) == (Verdict.OK, Stage.SCORE, None)
    assert found.fitness is not None
    assert found.fitness.opponent == "peer"
    assert found.fitness.low < 2.0 < found.fitness.high
    assert found.supported == ("n4", "n8", "n16")
    assert [timing.scenario for timing in found.timings] == ["n4", "n8", "n16"]
    assert {check.scenario for check in found.checks} == set(found.supported)
    assert found.noise_floor_pct is not None
    assert found.facts["baseline_version"] == "peer 1.0"
    assert found.facts["builds"] == 1
    assert found.wall_s > 0.0
    assert "2.0" in found.message or "1.99" in found.message


def test_a_slow_right_candidate_without_an_incumbent_is_ok(tmp_path: Path) -> None:
    found = evaluated(tmp_path, Behaviour(time_us=lambda s, e: 250.0))
    assert found.verdict is Verdict.OK
    assert found.fitness is not None
    assert found.fitness.geomean == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("behaviour", "verdict", "stage"),
    [
        (Behaviour(build_fault=fault(Verdict.COMPILE_ERROR, Stage.BUILD)), Verdict.COMPILE_ERROR, Stage.BUILD),
        (Behaviour(gate_fault=fault(Verdict.GATE_VIOLATION, Stage.GATE)), Verdict.GATE_VIOLATION, Stage.GATE),
        (Behaviour(start_fault=fault(Verdict.LAUNCH_ERROR, Stage.CHECK)), Verdict.LAUNCH_ERROR, Stage.CHECK),
        (Behaviour(faults={0: fault(Verdict.CRASH, Stage.CHECK)}), Verdict.CRASH, Stage.CHECK),
        (Behaviour(faults={4: fault(Verdict.TIMEOUT, Stage.CHECK)}), Verdict.TIMEOUT, Stage.TIME),
        (Behaviour(time_us=lambda s, e: 1e-4), Verdict.TOO_FAST, Stage.TIME),
    ],
    ids=["build", "gate", "start", "crash", "hang in the race", "too fast"],
)
def test_it_leaves_at_the_first_failed_stage(tmp_path: Path, behaviour: Behaviour, verdict: Verdict, stage: Stage) -> None:
    found = evaluated(tmp_path, behaviour)
    assert (found.verdict, found.stage) == (verdict, stage)
    assert found.fault is not None
    assert found.fault.message == found.message
    assert found.fitness is None


def test_a_plan_error_costs_no_build(tmp_path: Path) -> None:
    backend = FakeBackend()
    broken = Candidate(id="1", normal_id="1", language=Language.CPP, source="int x;")
    found = harness(backend, tmp_path).evaluate(Request(candidate=broken))
    assert (found.verdict, found.stage) == (Verdict.PLAN_ERROR, Stage.SCREEN)
    assert backend.built == []


def test_a_domain_that_meets_nothing_is_unsupported(tmp_path: Path) -> None:
    found = harness(FakeBackend(), tmp_path).evaluate(Request(candidate=candidate(extra='domain = "n > 1000"')))
    assert found.verdict is Verdict.UNSUPPORTED
    assert found.fitness is None


def test_another_language_is_unsupported(tmp_path: Path) -> None:
    cuda = Candidate(id="1", normal_id="1", language=Language.CUDA, source="")
    assert harness(FakeBackend(), tmp_path).evaluate(Request(candidate=cuda)).verdict is Verdict.UNSUPPORTED


def test_a_specialist_is_scored_over_what_it_claims(tmp_path: Path) -> None:
    found = harness(FakeBackend(), tmp_path).evaluate(Request(candidate=candidate(extra='domain = "n <= 8"')))
    assert found.supported == ("n4", "n8")
    assert found.fitness is not None
    assert found.fitness.scenarios == 2


def test_equal_defines_share_one_build(tmp_path: Path) -> None:
    backend = FakeBackend()
    extra = '[constants]\nSMALL = "n <= 8"\n'
    found = harness(backend, tmp_path).evaluate(Request(candidate=candidate(extra=extra)))
    assert found.facts["builds"] == 2
    assert len(backend.built) == len(set(backend.built)) == 2


def test_what_the_driver_says_of_launches_is_told_over_all_scenarios(tmp_path: Path) -> None:
    said = {
        "n4": {"k.registers": 40, "k.local_bytes": 0, "k.blocks_per_sm": 6, "graph_replays": True, "k.note": "same"},
        "n8": {"k.registers": 64, "k.local_bytes": 16, "k.blocks_per_sm": 2, "graph_replays": False, "k.note": "same"},
        "n16": {"k.registers": 48, "k.local_bytes": 0, "k.blocks_per_sm": 4, "graph_replays": True, "k.note": "same"},
    }
    found = evaluated(tmp_path, Behaviour(facts=lambda scenario: said[scenario.name]))
    assert {name: found.facts[name] for name in said["n8"]} == said["n8"]


def _wrong_only(rows: int) -> Behaviour:
    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        if right["y"].shape[0] == rows:
            right["y"][rows - 1, 0] += 1e3
        return right

    return Behaviour(spoil=spoil)


@pytest.mark.parametrize("rows", [4, 8, 16])
def test_one_wrong_scenario_is_enough(tmp_path: Path, rows: int) -> None:
    found = evaluated(tmp_path, _wrong_only(rows))
    assert (found.verdict, found.stage) == (Verdict.WRONG, Stage.CHECK)
    assert found.fault is not None
    assert found.fault.scenario == f"n{rows}"
    assert found.timings == ()
    assert found.fitness is None


def test_wrong_only_while_timed_is_wrong(tmp_path: Path) -> None:
    def spoil(execution: int, right: Outputs, before: Outputs) -> Outputs:
        if execution > 6:
            right["y"][0, 0] += 1e3
        return right

    found = evaluated(tmp_path, Behaviour(spoil=spoil))
    assert (found.verdict, found.stage) == (Verdict.WRONG, Stage.TIME)
    assert found.fitness is None


def test_hopeless_against_the_incumbent_ends_as_slower_before_all_is_checked(tmp_path: Path) -> None:
    found = evaluated(tmp_path, Behaviour(time_us=lambda s, e: 300.0), incumbent_low=1.0, set_name="five")
    assert (found.verdict, found.stage, found.fault) == (Verdict.SLOWER, Stage.TIME, None)
    assert [timing.scenario for timing in found.timings] == ["n4", "n16", "n64"]
    assert {check.scenario for check in found.checks} == {"n4"}
    assert found.fitness is None


def races_of(backend: FakeBackend, one: Candidate) -> list[str]:
    """The scenarios of the races of a candidate, in order: its sides that ran more than a check does."""
    mine = [side for side in backend.sides if side.behaviour is backend.behaviours[one.id]]
    return [side.scenario.name for side in mine if side.executions > 8]


@pytest.mark.parametrize(("spread", "again"), [(0.0, []), (0.1, ["n4", "n8", "n16"])])
def test_a_quick_race_that_saw_enough_is_not_run_again(tmp_path: Path, spread: float, again: list[str]) -> None:
    backend = FakeBackend()
    one = candidate()
    backend.behaviours[one.id] = Behaviour(time_us=noisy(np.random.default_rng(0), 95.0, spread))
    found = harness(backend, tmp_path).evaluate(Request(candidate=one, incumbent_low=1.0))
    assert found.verdict in (Verdict.OK, Verdict.AMBIGUOUS)
    assert races_of(backend, one) == ["n4", "n8", "n16", *again]
    assert [timing.scenario for timing in found.timings] == ["n4", "n8", "n16"]


def test_near_the_incumbent_is_timed_in_full(tmp_path: Path) -> None:
    found = evaluated(tmp_path, Behaviour(time_us=lambda s, e: 120.0), incumbent_low=1.0, set_name="five")
    assert found.verdict is Verdict.OK
    assert len(found.timings) == 5


def test_noise_beyond_the_limit_is_ambiguous_with_its_wide_interval(tmp_path: Path) -> None:
    found = evaluated(tmp_path, Behaviour(time_us=noisy(np.random.default_rng(0), 100.0, 1.0)))
    assert found.verdict is Verdict.AMBIGUOUS
    assert found.fitness is not None
    assert found.fitness.high - found.fitness.low > 0.1
    assert len(found.timings) == 3


def test_a_suspect_is_checked_under_all_distributions(tmp_path: Path) -> None:
    found = {}
    for thorough in (False, True):
        outcome = harness(FakeBackend(), tmp_path).evaluate(Request(candidate=candidate(), thorough=thorough))
        assert outcome.verdict is Verdict.OK
        found[thorough] = {(check.scenario, check.distribution) for check in outcome.checks}
        assert any("caught cheating" in note for note in outcome.notes) is thorough
    everything = {(name, distribution) for name in outcome.supported for distribution in tiny().distributions}
    assert found[False] < everything == found[True]


def test_every_process_is_closed_again(tmp_path: Path) -> None:
    backend = FakeBackend()
    one = candidate()
    backend.behaviours[one.id] = Behaviour(faults={40: fault(Verdict.CRASH)})
    harness(backend, tmp_path).evaluate(Request(candidate=one))
    assert backend.sides
    assert all(side.closed for side in backend.sides)


def test_one_lease_covers_checks_and_races_and_tells_what_it_used(tmp_path: Path) -> None:
    backend = FakeBackend()
    one = candidate()
    found = harness(backend, tmp_path).evaluate(Request(candidate=one))
    assert found.verdict is Verdict.OK
    assert backend.leased == [f"evaluating {short_id(one.id)}"]
    assert found.facts["lease_s"] == 1.5


def test_a_refusal_before_anything_runs_takes_no_lease(tmp_path: Path) -> None:
    backend = FakeBackend()
    harness(backend, tmp_path).evaluate(Request(candidate=candidate(extra='domain = "n > 1000"')))
    assert backend.leased == []
