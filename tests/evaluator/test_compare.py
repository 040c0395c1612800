"""Comparison: any wrong element anywhere is found, whatever its kind, and right ones pass."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.backend import Array
from evaluator.compare import compare, largest_difference
from evaluator.dtypes import encode
from evaluator.outcome import Verdict
from evaluator.tolerance import Tolerance, derive

SHAPE = (3, 5, 7)


def case(dtype: str = "fp32") -> tuple[np.ndarray, Array, Tolerance]:
    """Expected values, their rounded form, and a tolerance from a plain answer that is 1e-3 off."""
    expected = np.random.default_rng(0).standard_normal(SHAPE)
    return expected, encode(expected, dtype), derive(expected, [encode(expected + 1e-3, dtype)], dtype)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_rounded_expectation_passes(dtype: str) -> None:
    expected, right, tolerance = case(dtype)
    found = compare(expected, right, tolerance)
    assert found.passed
    assert found.kind is Verdict.OK
    assert found.message == ""


@settings(max_examples=150, deadline=None)
@given(
    index=st.tuples(*(st.integers(0, size - 1) for size in SHAPE)),
    wrong=st.sampled_from([np.nan, np.inf, -np.inf, 1e30, 0.5, -0.5, 0.01]),
    dtype=st.sampled_from(["fp32", "bf16"]),
)
def test_any_single_wrong_element_is_found(index: tuple[int, ...], wrong: float, dtype: str) -> None:
    expected, right, tolerance = case(dtype)
    offset = 0.0 if abs(wrong) > 1e9 or np.isnan(wrong) else expected[index]
    bad = right.copy()
    bad[index] = encode(np.array([offset + wrong + (0.02 if dtype == "bf16" and wrong == 0.01 else 0)]), dtype)[0]
    found = compare(expected, bad, tolerance)
    assert not found.passed
    assert found.worst_index == index
    assert found.kind is (Verdict.WRONG if np.isfinite(wrong) else Verdict.NONFINITE)
    assert str(list(index)) in found.message


@pytest.mark.parametrize(("factor", "passes"), [(0.999, True), (1.001, False)])
def test_just_inside_and_just_outside_the_largest_error(factor: float, passes: bool) -> None:
    expected, right, tolerance = case()
    bad = right.astype(np.float64)
    bad[1, 2, 3] = expected[1, 2, 3] + factor * tolerance.row_allowed[1, 2]
    assert compare(expected, bad.astype(np.float32), tolerance).passed is passes


@pytest.mark.parametrize(("factor", "passes"), [(0.999, True), (1.001, False)])
def test_just_inside_and_just_outside_the_rms(factor: float, passes: bool) -> None:
    expected, _, tolerance = case()
    tolerance = replace(tolerance, row_allowed=np.full(SHAPE[:-1], 1.0))
    found = compare(expected, (expected + factor * tolerance.rms_allowed).astype(np.float32), tolerance)
    assert found.passed is passes
    assert ("root-mean-square" in found.message) is not passes


def test_each_row_has_its_own_allowance() -> None:
    expected = np.array([[1000.0, 1000.0], [0.001, 0.001]])
    tolerance = derive(expected, [expected.astype(np.float32)], "fp32")
    got = expected.astype(np.float32)
    got[1, 0] += np.float32(5e-5)
    found = compare(expected, got, tolerance)
    assert found.worst_index == (1, 0)
    assert not found.passed


def test_unwritten_nan_is_found_and_explained() -> None:
    expected, _, tolerance = case()
    found = compare(expected, np.full(SHAPE, np.nan, np.float32), tolerance)
    assert found.kind is Verdict.NONFINITE
    assert "never written" in found.message
    assert found.max_error is None


def test_expected_infinities_must_stand_exactly_there() -> None:
    expected, _, _ = case()
    expected[0, 0, 0], expected[0, 0, 1] = -np.inf, np.nan
    right = expected.astype(np.float32)
    tolerance = derive(expected, [right], "fp32")
    assert compare(expected, right, tolerance).passed
    for index, value in [((0, 0, 0), np.inf), ((0, 0, 0), np.nan), ((0, 0, 1), -np.inf), ((0, 0, 0), -1e38), ((0, 0, 1), 0.0)]:
        bad = right.copy()
        bad[index] = value
        assert compare(expected, bad, tolerance).kind is Verdict.NONFINITE
    bad = right.copy()
    bad[2, 4, 6] += 1.0
    assert compare(expected, bad, tolerance).worst_index == (2, 4, 6)


def test_all_infinite_expectation_passes_only_as_it_is() -> None:
    expected = np.full((2, 3), -np.inf)
    right = expected.astype(np.float32)
    tolerance = derive(expected, [right], "float32")
    assert compare(expected, right, tolerance).passed
    assert not compare(expected, np.zeros((2, 3), np.float32), tolerance).passed


@pytest.mark.parametrize(
    ("got", "says"),
    [
        (np.zeros((3, 5), np.float32), "shape (3, 5)"),
        (np.zeros(SHAPE, np.float64), "stored as float64"),
    ],
)
def test_wrong_form_fails(got: Array, says: str) -> None:
    expected, _, tolerance = case()
    found = compare(expected, got, tolerance)
    assert not found.passed
    assert says in found.message


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_empty_comparison_fails(shape: tuple[int, int]) -> None:
    expected = np.zeros(shape)
    tolerance = derive(expected, [expected.astype(np.float32)], "fp32")
    found = compare(expected, expected.astype(np.float32), tolerance)
    assert not found.passed
    assert "nothing was shown" in found.message


def test_one_dimensional_outputs_are_one_row() -> None:
    expected = np.arange(4.0)
    tolerance = derive(expected, [expected.astype(np.float32)], "fp32")
    assert compare(expected, expected.astype(np.float32), tolerance).passed
    assert compare(expected, np.array([0, 1, 2, 4], np.float32), tolerance).worst_index == (3,)


def test_largest_difference_leaves_out_what_is_not_finite() -> None:
    first, second = np.array([1, np.nan, -np.inf], np.float32), np.array([1.5, 0, -np.inf], np.float32)
    assert largest_difference(first, second, "fp32") == 0.5
    assert largest_difference(first[1:2], second[1:2], "fp32") is None
