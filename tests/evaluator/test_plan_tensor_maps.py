"""Tensor maps: order of axes, splitting, workspaces, and the driver's rules."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.outcome import Fault
from evaluator.plan.resolved import TensorMap
from evaluator.plan.tensor_maps import workspace_axes
from evaluator.screen import Screened, screen
from evaluator.task_card import Scenario
from population.candidate import Language
from tests.evaluator.plan_cards import HOPPER, SCENARIOS, attention_card, scalars_of, scenario

ONE = SCENARIOS[1]  # b 4, sq = sk 4096, h 32, hkv 8, d 64, bf16


def judged(described: str, workspace: str = "", one: Scenario = ONE) -> TensorMap | str:
    source = f"""/* plan
[knobs]
d0 = {{ value = 2, choices = [2] }}
[workspace]
{workspace}
[tensor_maps]
m = {{ {described} }}
[[launch]]
kernel = "f"
grid = [1]
block = [128]
args = ["m", "out", "lse"]
*/"""
    found = screen(source, Language.CUDA, attention_card(one), HOPPER, scalars_of)
    return found.message if isinstance(found, Fault) else found.resolved[0].tensor_maps[0]


def described(text: str, workspace: str = "") -> TensorMap:
    found = judged(text, workspace)
    assert isinstance(found, TensorMap)
    return found


def test_axes_follow_the_box_as_written_then_from_the_inside_out() -> None:
    plain = described('tensor = "k", box = { sk = 128, d = 64 }')
    assert (plain.dims, plain.box) == ((64, 4096, 8, 4), (64, 128, 1, 1))
    assert plain.strides_bytes == (8 * 64 * 2, 64 * 2, 4096 * 8 * 64 * 2)
    other = described('tensor = "k", box = { b = 1, hkv = 2, d = 64 }')
    assert (other.dims, other.box) == ((64, 4, 8, 4096), (64, 1, 2, 1))
    assert (plain.swizzle, plain.l2_promotion, plain.interleave, plain.dtype) == ("none", 0, "none", "bf16")


def test_an_outer_axis_may_be_split() -> None:
    found = described('tensor = "q", split = { h = 4 }, box = { h0 = 4, sq = 16, d = 64 }')
    assert (found.dims, found.box) == ((64, 4, 4096, 8, 4), (64, 4, 16, 1, 1))
    assert found.strides_bytes == (128, 32 * 128, 4 * 128, 4096 * 32 * 128)


def test_a_map_may_describe_an_output_or_a_workspace() -> None:
    stored = described('tensor = "out", box = { sq = 64, d = 64 }, swizzle = "128B"')
    assert (stored.tensor, stored.box) == ("out", (64, 64, 1, 1))
    part = 'part = { dtype = "float32", shape = ["b", "ceil_div(sq, 64)", 64, "d"] }'
    found = described('tensor = "part", box = { axis2 = 64, d = 32 }', part)
    assert (found.dtype, found.dims, found.box) == ("float32", (64, 64, 64, 4), (32, 64, 1, 1))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        (("b", "sq"), ("b", "sq")),
        (("d", "d"), ("axis0", "axis1")),
        (("2 * b", "int", "8", "h"), ("axis0", "axis1", "axis2", "h")),
    ],
)
def test_workspace_axes(shape: tuple[str, ...], axes: tuple[str, ...]) -> None:
    assert workspace_axes(shape) == axes


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ('tensor = "k", box = { sk = 64 }', "the inner box, axis d, is 2 bytes; make it a multiple of 16"),
        (
            'tensor = "k", box = { d = 64 }, swizzle = "64B"',
            "is 128 bytes, more than the 64 of swizzle 64B; split the axis at 32",
        ),
        ('tensor = "k", split = { d = "sk - sk" }, box = { d0 = 64 }', "0 doesn't divide the axis of 64"),
        ('tensor = "q", split = { d = 32, sq = 64 }, box = { d0 = 32 }', "6 axes after splitting (b, sq0, sq1, h, d0, d1)"),
        ('tensor = "k", box = { d = 16 }, interleave = "32B"', 'interleave 32B needs swizzle = "32B"'),
        ('tensor = "w", box = { h = 16 }, interleave = "16B"', "interleave 16B needs at least three axes, this map has 2"),
        ('tensor = "odd", box = { axis1 = 8 }', "axis b has a stride of 20 bytes; it must be a multiple of 16 below 2^40"),
        ('tensor = "clash", split = { d = 2 }, box = { b = 1 }', "splitting gives two axes one name"),
        ("box = { d = 16 }", "tensor map m: `tensor` is missing"),
        ('tensor = ["k"], box = { d = 16 }', "no tensor or workspace is called"),
        ('tensor = "k", box = 3', "box of tensor map m: must be a table"),
    ],
)
def test_refused(text: str, phrase: str) -> None:
    workspaces = """w = { dtype = "int32", shape = ["b", "h"] }
odd = { dtype = "int32", shape = ["b", 5] }
clash = { dtype = "int32", shape = ["d0", "d"] }"""
    found = judged(text, workspaces)
    assert isinstance(found, str)
    assert phrase in found


@settings(deadline=None)
@given(
    d=st.sampled_from([32, 64, 96, 128, 256]), inner=st.sampled_from([8, 16, 32, 64]), rows=st.integers(1, 256),
    h=st.integers(1, 12), sq=st.integers(1, 5000),
)  # fmt: skip
def test_a_split_map_covers_every_element_once(d: int, inner: int, rows: int, h: int, sq: int) -> None:
    one = scenario("drawn", d=d, h=h, hkv=h, sq=sq)
    found = judged(f'tensor = "q", split = {{ d = {inner} }}, box = {{ sq = {rows}, d0 = {inner}, d1 = 1 }}', one=one)
    if d % inner:
        assert isinstance(found, str)
        return
    assert isinstance(found, TensorMap)
    steps = sorted(zip((2, *found.strides_bytes), found.dims, strict=True))
    reached = 2
    for stride, size in steps:
        assert stride == reached or size == 1
        reached *= size
    assert reached == 2 * sq * h * d
    assert all(stride % 16 == 0 for stride in found.strides_bytes)


def test_screened_maps_are_only_those_in_use() -> None:
    source = """/* plan
[tensor_maps]
unused = { tensor = "q", box = { sq = 4 } }
[[launch]]
kernel = "f"
grid = [1]
block = [128]
args = ["out", "lse"]
*/"""
    found = screen(source, Language.CUDA, attention_card(ONE), HOPPER, scalars_of)
    assert isinstance(found, Screened)
    assert found.resolved[0].tensor_maps == ()
