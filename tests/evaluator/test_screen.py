"""Screening: domain, conditional launches and knobs, arguments, what the later stages get."""

import pytest

from evaluator.outcome import Fault, Stage, Verdict
from evaluator.plan.knobs import knobs_of
from evaluator.plan.parse import parse_plan
from evaluator.plan.resolve import resolve, supported
from evaluator.plan.resolved import ArgumentKind, Buffer, Resolved
from evaluator.screen import Screened, screen
from evaluator.task_card import Scenario
from population.candidate import Knob, Language
from tests.evaluator.plan_cards import CPU, HOPPER, SCENARIOS, attention_card, scalars_of, scenario

SPLIT_PLAN = """// A split over keys for long rows, one launch for short ones.

/* plan
nondeterministic = true
[knobs]
SPLIT = { value = 4, when = [["sk >= 16384", 16], ["sk >= 4096", 8]], choices = [8, 4, 16] }
[constants]
IS_BF16 = "dtype == 'bf16'"
LOWEST = "0 - 9223372036854775807 - 1"
SHIFT = -2
[workspace]
part = { dtype = "float32", shape = ["SPLIT", "b", "h", "sq"] }
flags = { dtype = "int32", shape = ["sm_count"], init = "zero", self_resetting = true }
[scalars]
chunk = "ceil_div(sk, SPLIT)"
[[launch]]
kernel = "split"
when = "sk > 1024"
grid = ["SPLIT", "h", "b"]
block = 128
args = ["q", "k", "v", "part", "flags", "scale", "chunk", "window"]
[[launch]]
kernel = "join"
when = "sk > 1024"
grid = ["ceil_div(sq, 64)", "h"]
block = [64, 2, "1"]
args = ["part", "out", "lse"]
[[launch]]
kernel = "whole"
when = "sk <= 1024"
grid = ["b * h"]
block = [256]
args = ["q", "k", "v", "out", "lse", "scale"]
*/
""".replace("block = 128", "block = [128]")
CARD = attention_card()


@pytest.fixture(scope="module")
def found() -> Screened:
    screened = screen(SPLIT_PLAN, Language.CUDA, CARD, HOPPER, scalars_of)
    assert isinstance(screened, Screened)
    return screened


def by_name(found: Screened, name: str) -> Resolved:
    return next(one for one in found.resolved if one.scenario == name)


def test_launches_follow_their_conditions(found: Screened) -> None:
    assert [launch.kernel for launch in by_name(found, "d64_4k_n").launches] == ["split", "join"]
    assert [launch.kernel for launch in by_name(found, "d128_1k_c").launches] == ["whole"]
    assert by_name(found, "d128_1k_c").launches[0].grid == (256, 1, 1)
    assert by_name(found, "d64_4k_n").launches[1].block == (64, 2, 1)


def test_the_first_case_that_holds_gives_the_knob(found: Screened) -> None:
    assert found.knobs == (Knob(name="SPLIT", value=4, choices=(4, 8, 16), cases=(("sk >= 16384", 16), ("sk >= 4096", 8))),)
    assert found.knobs == knobs_of(found.plan)
    assert [one.knobs["SPLIT"] for one in found.resolved] == [4, 8, 16, 4, 8, 4]


def test_defines_are_c_literals(found: Screened) -> None:
    defines = by_name(found, "d96_prefill").defines
    assert defines == {"SPLIT": "4", "IS_BF16": "0", "LOWEST": "(-9223372036854775807-1)", "SHIFT": "(-2)"}
    assert by_name(found, "d64_4k_n").defines["IS_BF16"] == "1"


def test_workspaces_only_where_used_with_sizes_of_the_scenario(found: Screened) -> None:
    assert by_name(found, "d128_1k_c").workspaces == ()
    assert by_name(found, "d64_4k_n").workspaces == (
        Buffer(name="part", role="workspace", dtype="float32", shape=(8, 4, 32, 4096)),
        Buffer(name="flags", role="workspace", dtype="int32", shape=(132,), init="zero", self_resetting=True),
    )
    assert found.resolved[0].nondeterministic


def test_arguments_carry_kind_and_value(found: Screened) -> None:
    arguments = by_name(found, "d128_window").launches[0].args
    assert [argument.kind for argument in arguments[3:]] == [
        ArgumentKind.WORKSPACE, ArgumentKind.WORKSPACE, ArgumentKind.FLOAT32, ArgumentKind.INT32, ArgumentKind.INT32
    ]  # fmt: skip
    assert [argument.value for argument in arguments[:5]] == [None] * 5
    assert [argument.value for argument in arguments[6:]] == [512, 1024]
    assert arguments[5].value == pytest.approx(128**-0.5, rel=1e-7)
    assert arguments[5].value != 128**-0.5, "the value is rounded to float32"


def test_tensors_come_in_the_cards_order_with_the_scenarios_dtype(found: Screened) -> None:
    tensors = by_name(found, "cpu_d32").tensors
    assert [(buffer.name, buffer.role, buffer.dtype, buffer.shape) for buffer in tensors] == [
        ("q", "input", "fp32", (1, 64, 2, 32)),
        ("k", "input", "fp32", (1, 65, 1, 32)),
        ("v", "input", "fp32", (1, 65, 1, 32)),
        ("out", "output", "fp32", (1, 64, 2, 32)),
        ("lse", "output", "float32", (1, 2, 64)),
    ]


def test_cpu_launch_numbers_tasks_and_has_no_other_size() -> None:
    source = '/* plan\n[[launch]]\nkernel = "f"\ngrid = ["h", 70000]\nargs = ["out", "lse"]\n*/'
    screened = screen(source, Language.CPP, CARD, CPU, scalars_of)
    assert isinstance(screened, Screened)
    (launch,) = screened.resolved[0].launches
    assert (launch.grid, launch.block, launch.cluster, launch.shared_bytes) == ((16, 70000, 1), (1, 1, 1), (1, 1, 1), 0)
    assert len(screened.scenarios) == len(SCENARIOS), "without a domain every scenario is claimed"


def test_domain_error_names_the_scenario_that_shows_it() -> None:
    source = '/* plan\ndomain = "d // window > 0"\n[[launch]]\nkernel = "f"\ngrid = [1]\nargs = ["out", "lse"]\n*/'
    plan = parse_plan(source, Language.CPP, CARD)
    assert not isinstance(plan, Fault)
    fault = supported(plan, CARD)
    assert isinstance(fault, Fault)
    assert (fault.verdict, fault.stage, fault.scenario) == (Verdict.PLAN_ERROR, Stage.SCREEN, "d128_1k_c")
    assert fault.message == "line 2: domain: division by zero in `d // window > 0` with d = 128, window = 0 (scenario d128_1k_c)"


@pytest.mark.parametrize("sq", [2**31 - 1, 2**31])
def test_symbols_as_arguments_fit_in_int32(sq: int) -> None:
    one = scenario("long", sq=sq, h=1, hkv=1, d=1)
    source = '/* plan\n[[launch]]\nkernel = "f"\ngrid = [1]\nargs = ["out", "lse", "sq"]\n*/'
    card = attention_card(one)
    plan = parse_plan(source, Language.CPP, card)
    assert not isinstance(plan, Fault)
    resolved = resolve(plan, card, one, CPU, {"scale": 1.0})
    assert isinstance(resolved, Resolved if sq < 2**31 else Fault)
    if isinstance(resolved, Fault):
        assert resolved.message.startswith("line 2: args of launch f: sq is 2147483648, which doesn't fit in int32; pass it")


def test_a_card_with_a_bad_shape_is_not_blamed_on_the_candidate() -> None:
    broken = Scenario(name="broken", symbols={"b": 1, "dtype": "bf16"})
    plan = parse_plan('/* plan\n[[launch]]\nkernel = "f"\ngrid = [1]\nargs = ["out", "lse"]\n*/', Language.CPP, CARD)
    assert not isinstance(plan, Fault)
    with pytest.raises(ValueError, match="task attention_forward, tensor q, scenario broken: unknown name `sq`"):
        resolve(plan, CARD, broken, CPU, {})
