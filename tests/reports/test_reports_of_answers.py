"""Bug reports of other harnesses about wrong answers that counted as right: each situation again, and what happens to it here.

A test is named after the repository and the number of its issue or pull request.
"""

from pathlib import Path

import numpy as np
import pytest

from evaluator.backend import Array, Ran
from evaluator.compare import compare
from evaluator.dtypes import encode
from evaluator.outcome import Fault, Timing, Verdict
from evaluator.request import Request
from evaluator.task import load_task
from evaluator.timing import race
from evaluator.tolerance import derive
from tests.evaluator.fake_backend import Behaviour, FakeBackend, FakeSide, Outputs, candidate
from tests.evaluator.tiny_harness import harness, scenario, side, terms

ATTENTION = load_task("attention_forward")
SYMBOLS = {"b": 1, "sq": 33, "sk": 65, "h": 2, "hkv": 2, "d": 32, "causal": 0, "window": 0, "dtype": "fp32"}


def test_kernelbench_165_zeros_pass_where_outputs_are_tiny() -> None:
    inputs = ATTENTION.inputs(SYMBOLS, "normal", np.random.default_rng(0))
    inputs = {**inputs, "v": inputs["v"] * np.float32(1e-6)}
    expected = ATTENTION.reference(SYMBOLS, inputs)
    zeros = np.zeros_like(expected["out"], dtype=np.float32)
    assert np.allclose(zeros, expected["out"], atol=1e-2), "the flat tolerance of the report lets zeros pass"
    assert not compare(expected["out"], zeros, ATTENTION.tolerances(SYMBOLS, inputs, expected)["out"]).passed


@pytest.mark.parametrize("candidate_first", [True, False])
def test_kernelbench_25_memory_of_the_reference_is_returned_as_the_result(tmp_path: Path, candidate_first: bool) -> None:
    one, right = candidate("writes nothing"), candidate("right")
    backend = FakeBackend(behaviours={one.id: Behaviour(spoil=lambda execution, correct, before: before)})
    judge = harness(backend, tmp_path)
    if not candidate_first:
        assert judge.evaluate(Request(candidate=right)).verdict is Verdict.OK
    assert judge.evaluate(Request(candidate=one)).verdict is Verdict.STALE_OUTPUT


def test_kernelbench_155_half_precision_inside_a_float32_task() -> None:
    inputs = ATTENTION.inputs(SYMBOLS, "normal", np.random.default_rng(1))
    expected = ATTENTION.reference(SYMBOLS, inputs)
    halves = {name: array.astype(np.float16).astype(np.float32) for name, array in inputs.items()}
    quick = ATTENTION.plain(SYMBOLS, halves)["out"]
    assert np.allclose(quick, expected["out"], atol=1e-2)
    assert not compare(expected["out"], quick, ATTENTION.tolerances(SYMBOLS, inputs, expected)["out"]).passed


class RemembersPointers(FakeSide):
    """Answers from a table by the address of its buffers, as a dictionary over ``data_ptr`` would."""

    def __init__(self, backend: FakeBackend) -> None:
        super().__init__(Behaviour(), scenario(), 8, backend)
        self.known: dict[int, Outputs] = {}

    def run(self, slots: list[int], deadline_s: float) -> Ran | Fault:  # type: ignore[override]
        ran = super().run(slots, deadline_s)
        for slot in slots:
            self.outputs[slot] = self.known.setdefault(slot, self.outputs[slot])
        return ran


def test_flashinfer_bench_228_an_answer_is_kept_by_the_address_of_its_inputs() -> None:
    backend = FakeBackend()
    found = race(RemembersPointers(backend), side(backend, Behaviour()), terms(backend))
    assert isinstance(found, Fault)
    assert found.verdict is Verdict.WRONG
    assert found.stage == "time"


@pytest.mark.parametrize("together", [2, 4, 15])
def test_reference_kernels_102_one_call_does_the_work_of_many(together: int) -> None:
    backend = FakeBackend()
    lazy = Behaviour(
        spoil=lambda execution, right, before: right if execution % together == 0 else before,
        time_us=lambda scenario, execution: 100.0 if execution % together == 0 else 10.0,
    )
    found = race(side(backend, lazy), side(backend, Behaviour()), terms(backend))
    assert isinstance(found, Fault)
    assert found.verdict in {Verdict.WRONG, Verdict.NONFINITE}


def test_reference_kernels_150_only_one_timed_iteration_is_wrong() -> None:
    backend = FakeBackend()
    honest = side(backend, Behaviour())
    assert isinstance(race(honest, side(backend, Behaviour()), terms(backend)), Timing)
    for number in range(2, honest.executions):  # two executions come before, until times are level
        backend = FakeBackend()

        def spoil(execution: int, right: Outputs, before: Outputs, number: int = number) -> Outputs:
            return {**right, "total": right["total"] + np.float32(execution == number)}

        found = race(side(backend, Behaviour(spoil=spoil)), side(backend, Behaviour()), terms(backend))
        assert isinstance(found, Fault), number
        assert found.verdict is Verdict.WRONG


def numbers(shape: tuple[int, ...]) -> tuple[np.ndarray, Array]:
    """Expected values, and what a right kernel gives."""
    expected = np.random.default_rng(2).standard_normal(shape)
    return expected, encode(expected, "fp32")


@pytest.mark.parametrize("blocks", [100, 1000, 4098])
def test_pygpubench_7_a_checker_that_leaves_out_elements(blocks: int) -> None:
    expected, right = numbers((blocks, 4))
    tolerance = derive(expected, [right], "fp32")
    for index in range(blocks):
        changed = right.copy()
        changed[index, index % 4] += 1.0
        assert not compare(expected, changed, tolerance).passed, f"element {index} was left out"


@pytest.mark.parametrize(("share", "passes"), [(0.99, True), (1.01, False)])
def test_backendbench_tolerances_are_ignored(share: float, passes: bool) -> None:
    expected, right = numbers((16, 64))
    tolerance = derive(expected, [encode(expected + 1e-3, "fp32")], "fp32")
    changed = right.astype(np.float64)
    changed[3, 5] = expected[3, 5] + share * tolerance.row_allowed[3]
    assert compare(expected, changed.astype(np.float32), tolerance).passed is passes


def test_tritonbench_7_two_empty_outputs_agree() -> None:
    nothing = np.zeros((0, 4))
    assert not compare(nothing, nothing.astype(np.float32), derive(nothing, [nothing.astype(np.float32)], "fp32")).passed


def test_flashinfer_bench_wrong_only_where_absolute_and_relative_errors_are_large() -> None:
    """Its rule fails an element only where both bounds are exceeded, so anything passes where outputs are small."""
    expected = np.random.default_rng(3).standard_normal((8, 32)) * 1e-3
    noise = np.random.default_rng(4).standard_normal((8, 32)) * 1e-3
    absolute, relative = np.abs(noise - expected), np.abs(noise - expected) / np.abs(expected)
    assert not ((absolute > 1e-2) & (relative > 1e-2)).any()
    right = encode(expected, "fp32")
    assert not compare(expected, encode(noise, "fp32"), derive(expected, [right], "fp32")).passed


@pytest.mark.parametrize("found", [0.0, 1.0, np.inf, -np.inf])
def test_backendbench_nan_in_the_reference_excuses_anything(found: float) -> None:
    expected, right = numbers((4, 8))
    expected[1, 2] = np.nan
    changed = right.copy()
    changed[1, 2] = found
    tolerance = derive(expected, [np.where(np.isnan(expected), np.nan, right).astype(np.float32)], "fp32")
    assert compare(expected, changed, tolerance).kind is Verdict.NONFINITE


def test_flashinfer_bench_an_infinity_that_belongs_there_fails() -> None:
    symbols = {**SYMBOLS, "sq": 9, "sk": 4, "causal": 1}  # the first rows see no key
    inputs = ATTENTION.inputs(symbols, "normal", np.random.default_rng(5))
    expected = ATTENTION.reference(symbols, inputs)
    assert np.isneginf(expected["lse"]).any()
    tolerances = ATTENTION.tolerances(symbols, inputs, expected)
    plain = ATTENTION.plain(symbols, inputs)
    assert compare(expected["lse"], plain["lse"], tolerances["lse"]).passed
    finite = np.where(np.isneginf(plain["lse"]), np.float32(-1e30), plain["lse"])
    assert compare(expected["lse"], finite, tolerances["lse"]).kind is Verdict.NONFINITE
