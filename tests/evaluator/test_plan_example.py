"""The example of the candidate format, as written in the design, reads and works out to the numbers of the prototype."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.outcome import Fault, Verdict
from evaluator.plan.parse import parse_plan
from evaluator.plan.resolve import resolve
from evaluator.plan.resolved import Argument, ArgumentKind, Buffer, Resolved, TensorMap
from evaluator.screen import Screened, screen
from population.candidate import Knob, Language
from tests.evaluator.plan_cards import DATA, HOPPER, SCENARIOS, attention_card, scalars_of, scenario

SOURCE = (DATA / "hopper_example.cu").read_text()


@pytest.fixture(scope="module")
def example() -> Screened:
    found = screen(SOURCE, Language.CUDA, attention_card(*SCENARIOS[:2], SCENARIOS[3]), HOPPER, scalars_of)
    assert isinstance(found, Screened)
    return found


def test_domain_leaves_out_what_it_does_not_claim(example: Screened) -> None:
    assert [one.name for one in example.scenarios] == ["d128_1k_c", "d64_4k_n"]
    assert [one.scenario for one in example.resolved] == ["d128_1k_c", "d64_4k_n"]


def test_knobs_and_defines_follow_the_scenario(example: Screened) -> None:
    assert example.knobs[0] == Knob(name="BLOCK_M", value=128, choices=(64, 128, 192), cases=(("d == 64", 192),))
    wide, narrow = example.resolved
    assert wide.defines == {"BLOCK_M": "128", "BLOCK_N": "128", "STAGES": "2", "HEAD_DIM": "128", "CAUSAL": "1"}
    assert narrow.defines == {"BLOCK_M": "192", "BLOCK_N": "128", "STAGES": "2", "HEAD_DIM": "64", "CAUSAL": "0"}
    assert (wide.fast_math, wide.maxrregcount, wide.nondeterministic) == (True, None, False)


def test_launch_sizes_and_arguments(example: Screened) -> None:
    (launch,) = example.resolved[0].launches
    assert (launch.kernel, launch.grid, launch.block, launch.cluster) == (
        "attention_forward", (8, 16, 16), (384, 1, 1), (1, 1, 1)
    )  # fmt: skip
    assert launch.shared_bytes == 128 * 128 * 2 + 2 * 128 * 128 * 4
    kinds = "".join(argument.kind[0] for argument in launch.args)
    assert kinds == "ttttt" + "w" + "f" + "iiiii"
    assert launch.args[0] == Argument(name="q_map", kind=ArgumentKind.TENSOR_MAP)
    assert launch.args[6].value == pytest.approx(128**-0.5, rel=1e-7)
    assert launch.args[-1] == Argument(name="section", kind=ArgumentKind.INT32, value=33554432 // (4 * 1024 * 128))


def test_only_what_a_launch_uses_is_allocated(example: Screened) -> None:
    assert example.resolved[0].workspaces == (
        Buffer(name="counter", role="workspace", dtype="int32", shape=(2,), init="zero", self_resetting=True),
    )
    assert [tensor.name for tensor in example.resolved[0].tensors] == ["q", "k", "v", "out", "lse"]


def test_tensor_map_matches_the_prototype(example: Screened) -> None:
    """Rank 5, dims (64, S, D/64, H, B), strides (H*D*2, 128, D*2, S*H*D*2), box (64, rows, D/64, 1, 1)."""
    h, d, s = 16, 128, 1024
    assert example.resolved[0].tensor_maps == (
        TensorMap(
            name="q_map",
            tensor="q",
            dtype="bf16",
            dims=(64, s, d // 64, h, 16),
            strides_bytes=(h * d * 2, 128, d * 2, s * h * d * 2),
            box=(64, 128, 2, 1, 1),
            swizzle="128B",
            l2_promotion=256,
            interleave="none",
        ),
    )


def test_shared_memory_of_the_example_is_too_large_at_d256() -> None:
    found = screen(SOURCE, Language.CUDA, attention_card(), HOPPER, scalars_of)
    assert isinstance(found, Fault)
    assert (found.verdict, found.scenario) == (Verdict.PLAN_ERROR, "d256_16k_c")
    assert found.message.startswith(
        "line 35: shared of launch 1 (attention_forward): 327680 bytes; this device allows 0 to 232448"
    )


@settings(deadline=None)
@given(
    b=st.integers(1, 64), sq=st.integers(65, 70000), sk=st.integers(1, 70000), h=st.integers(1, 64),
    d=st.sampled_from([64, 128]), causal=st.integers(0, 1),
)  # fmt: skip
def test_every_shape_keeps_the_limits(b: int, sq: int, sk: int, h: int, d: int, causal: int) -> None:
    one = scenario("drawn", b=b, sq=sq, sk=sk, h=h, hkv=h, d=d, causal=causal)
    card = attention_card(one)
    plan = parse_plan(SOURCE, Language.CUDA, card)
    assert not isinstance(plan, Fault)
    found = resolve(plan, card, one, HOPPER, scalars_of(one))
    assert isinstance(found, Resolved)
    (launch,) = found.launches
    rows = int(found.defines["BLOCK_M"])
    assert (launch.grid[0] - 1) * rows < sq <= launch.grid[0] * rows
    assert 1 <= int(launch.args[-1].value or 0) <= b * h
