"""The contract that every implementation of ``evaluator.backend.Backend`` passes.

Derive a test class, give it a fixture ``case`` that returns a ``Case`` for your backend, and let pytest collect it.
"""

import numpy as np
import psutil
import pytest

from evaluator.arrays import to_host
from evaluator.backend import Array, Build, Program, Ran, Side
from evaluator.outcome import Fault, Stage, Verdict
from tests.contracts import vector_scale
from tests.contracts.vector_scale import Case


def result(side: Side, slot: int) -> Array:
    """The output of a slot on the host."""
    found: Array = to_host(side.read(slot)["y"])
    return found


class BackendContract:
    """Build, gate, run, read, audit and close, on both kinds of sides."""

    def _candidate(self, case: Case, slots: int = 3) -> Side:
        plan = vector_scale.resolved()
        build = case.backend.build(case.source, plan)
        assert isinstance(build, Build)
        program = Program(candidate_id="c", scenario=vector_scale.scenario(), build=build, resolved=plan)
        side = case.backend.start(program, slots)
        assert not isinstance(side, Fault), side
        return side

    def _baseline(self, case: Case, name: str = "plain", slots: int = 3, n: int = 1000) -> Side | Fault:
        plan = vector_scale.resolved(n)
        return case.backend.start_baseline(case.baseline_folder, name, plan, vector_scale.scenario(n), slots)

    def _sides(self, case: Case) -> tuple[Side, Side]:
        baseline = self._baseline(case)
        assert not isinstance(baseline, Fault), baseline
        return self._candidate(case), baseline

    def test_facts_are_the_ones_plans_may_use(self, case: Case) -> None:
        assert set(case.backend.facts()) == {"sm_count", "shared_limit"}
        assert case.backend.device.peak_tflops > 0
        assert case.backend.device.peak_gbs > 0

    def test_a_build_comes_from_the_cache_the_second_time(self, case: Case) -> None:
        first = case.backend.build(case.source, vector_scale.resolved())
        second = case.backend.build(case.source, vector_scale.resolved())
        assert isinstance(first, Build)
        assert first == second
        assert case.backend.gate(first, vector_scale.resolved()) is None

    def test_an_error_of_the_compiler_is_a_value(self, case: Case) -> None:
        build = case.backend.build("this is no program", vector_scale.resolved())
        assert isinstance(build, Fault)
        assert build.verdict is Verdict.COMPILE_ERROR
        assert build.stage is Stage.BUILD

    def test_a_kernel_that_is_not_there_is_refused(self, case: Case) -> None:
        plan = vector_scale.with_kernels(vector_scale.resolved(), "absent")
        build = case.backend.build(case.source, plan)
        assert isinstance(build, Build)
        refused = case.backend.gate(build, plan)
        assert refused is not None
        assert "absent" in refused.message

    def test_both_sides_compute_every_slot(self, case: Case) -> None:
        for side in self._sides(case):
            given = [vector_scale.inputs(seed=slot) for slot in range(3)]
            for slot in range(3):
                side.fill(slot, given[slot], slot)
            ran = side.run([2, 0, 1], 20.0)
            assert isinstance(ran, Ran), ran
            assert ran.elapsed_us > 0
            for slot in range(3):
                np.testing.assert_allclose(result(side, slot), vector_scale.expected(given[slot]), rtol=1e-6)
            assert side.audit() is None
            side.close()

    def test_only_the_named_slots_run(self, case: Case) -> None:
        side = self._candidate(case)
        given = vector_scale.inputs()
        for slot in range(3):
            side.fill(slot, given, 2)
        assert isinstance(side.run([1], 20.0), Ran)
        np.testing.assert_allclose(result(side, 1), vector_scale.expected(given), rtol=1e-6)
        assert len(np.unique(result(side, 0))) == 1
        side.close()

    def test_new_contents_give_new_results(self, case: Case) -> None:
        for side in self._sides(case):
            for seed in range(3):
                given = vector_scale.inputs(seed=seed)
                side.fill(0, given, seed)
                assert isinstance(side.run([0], 20.0), Ran)
                np.testing.assert_allclose(result(side, 0), vector_scale.expected(given), rtol=1e-6)
            side.close()

    @pytest.mark.parametrize("poison", [0, 1, 2])
    def test_outputs_are_poisoned_before_a_run(self, case: Case, poison: int) -> None:
        side = self._candidate(case)
        given = vector_scale.inputs()
        side.fill(0, given, poison)
        value = result(side, 0)
        assert np.unique(value.view(np.uint32)).size == 1
        assert (np.isnan(value).all(), bool(np.abs(value[0]) > 1e20)) == (poison == 0, poison == 1)
        side.close()

    def test_read_returns_copies(self, case: Case) -> None:
        side = self._candidate(case)
        side.fill(0, vector_scale.inputs(), 1)
        before = result(side, 0)
        assert isinstance(side.run([0], 20.0), Ran)
        assert (before == before[0]).all()
        side.close()

    def test_a_wrong_shape_is_a_mistake_of_the_caller(self, case: Case) -> None:
        side = self._candidate(case)
        with pytest.raises(ValueError, match="shape"):
            side.fill(0, vector_scale.inputs(n=7), 0)
        side.close()

    @pytest.mark.parametrize("slots", [[], [3], [-1]])
    def test_a_slot_that_is_not_there_is_a_mistake_of_the_caller(self, case: Case, slots: list[int]) -> None:
        for side in self._sides(case):
            with pytest.raises(ValueError, match="slots"):
                side.run(slots, 20.0)
            side.close()

    def test_two_baselines_at_once(self, case: Case) -> None:
        sides = [self._baseline(case), self._baseline(case)]
        for side in sides:
            assert not isinstance(side, Fault)
            side.fill(0, vector_scale.inputs(), 0)
            assert isinstance(side.run([0], 20.0), Ran)
        for side in sides:
            assert not isinstance(side, Fault)
            side.close()

    @pytest.mark.parametrize(("name", "reason"), [("absent", "no such library"), ("typo", "no baseline of that name")])
    def test_a_baseline_that_cannot_run_is_our_fault(self, case: Case, name: str, reason: str) -> None:
        fault = self._baseline(case, name)
        assert isinstance(fault, Fault)
        assert fault.verdict is Verdict.HARNESS_FAULT
        assert reason in fault.message

    def test_a_scenario_that_a_baseline_does_not_compute(self, case: Case) -> None:
        fault = self._baseline(case, n=1_000_000)
        assert isinstance(fault, Fault)
        assert "doesn't compute" in fault.message

    def test_a_baseline_that_fails_says_why(self, case: Case) -> None:
        fault = self._baseline(case, "fails")
        if not isinstance(fault, Fault):  # some backends call it when they start it, others when it runs
            side = fault
            side.fill(0, vector_scale.inputs(), 0)
            fault = side.run([0], 20.0)  # type: ignore[assignment]
            side.close()
        assert isinstance(fault, Fault)
        assert fault.verdict is Verdict.HARNESS_FAULT
        assert "ZeroDivisionError" in fault.message

    def test_close_twice_and_nothing_stays(self, case: Case) -> None:
        before = {process.pid for process in psutil.Process().children()}
        side = self._candidate(case)
        side.close()
        side.close()
        assert {process.pid for process in psutil.Process().children()} <= before
