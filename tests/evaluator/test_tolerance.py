"""The allowed error: derived from plain maths, with a floor of one unit in the last place of each row."""

import numpy as np
import pytest

from evaluator.dtypes import decode, element_type, encode, round_mantissa, unit_in_last_place
from evaluator.tolerance import derive


def test_max_and_rms_follow_plain_maths_and_the_rows_floor() -> None:
    expected = np.array([[1.0, -3.0], [0.25, 0.5]])
    plain = (expected + np.array([[0.0, 0.5], [0.0, 0.0]])).astype(np.float32)
    tolerance = derive(expected, [plain], "fp32")
    floors = np.array([2.0**-22, 2.0**-24])
    assert tolerance.plain_max == 0.5
    np.testing.assert_array_equal(tolerance.row_allowed, 2 * 0.5 + floors)
    assert tolerance.rms_allowed == 1.5 * 0.25 + np.sqrt(np.mean(floors**2))


def test_worst_of_several_plains_counts() -> None:
    expected = np.ones((1, 2))
    lucky, unlucky = np.ones((1, 2), np.float32), np.full((1, 2), 1.5, np.float32)
    assert derive(expected, [lucky, unlucky], "fp32").plain_max == 0.5
    assert derive(expected, [lucky], "fp32").plain_max == 0.0


def test_least_floor_holds_where_a_unit_in_the_last_place_is_smaller() -> None:
    expected = np.array([[1.0], [5e4]])
    allowed = derive(expected, [expected.astype(np.float32)], "float32", least_floor=1e-4).row_allowed
    assert allowed[0] == 1e-4
    assert allowed[1] == 2.0**-8


def test_infinite_elements_give_no_floor_and_no_error() -> None:
    expected = np.array([[-np.inf, 1.0]])
    tolerance = derive(expected, [expected.astype(np.float32)], "float32")
    assert not tolerance.finite
    assert tolerance.row_allowed[0] == 2.0**-23


def test_plain_maths_that_is_not_finite_elsewhere_is_refused() -> None:
    with pytest.raises(ValueError, match="change the inputs"):
        derive(np.ones((1, 2)), [np.array([[1.0, np.inf]], np.float32)], "fp32")


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_unit_in_last_place_is_the_distance_to_the_next_number(dtype: str) -> None:
    stored = encode(np.array([1.0, 1.5, 3.0, 1e-3, 200.0]), dtype)
    bits = stored.view({2: np.uint16, 4: np.uint32}[stored.dtype.itemsize])
    following = decode((bits + 1).view(stored.dtype), dtype).astype(np.float64)
    values = decode(stored, dtype).astype(np.float64)
    np.testing.assert_array_equal(unit_in_last_place(values, dtype), following - values)
    assert unit_in_last_place(np.zeros(1), dtype)[0] > 0


def test_bf16_rounds_to_nearest_even_and_keeps_what_is_not_finite() -> None:
    import torch

    values = np.random.default_rng(0).standard_normal(10_000).astype(np.float32) * 1e3
    values[:6] = [np.inf, -np.inf, 0.0, -0.0, 1.00390625, 1.01171875]
    wanted = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(encode(values, "bf16"), wanted)
    assert np.isnan(decode(encode(np.array([np.nan]), "bf16"), "bf16")).all()


def test_lower_precision_rounding_matches_the_lower_type() -> None:
    values = np.random.default_rng(0).standard_normal(1000).astype(np.float16).astype(np.float32)
    as_bf16 = decode(encode(values, "bf16"), "bf16")
    np.testing.assert_array_equal(round_mantissa(values, element_type("fp16").lower_mantissa_bits), as_bf16)


def test_unknown_dtype_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"fp8.*known are fp32"):
        element_type("fp8")


def test_stored_form_is_checked() -> None:
    with pytest.raises(ValueError, match="bf16 array is stored as uint16"):
        decode(np.ones(2, np.float32), "bf16")
