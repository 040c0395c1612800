"""Whatever the text, screening gives a value or exactly one fault, within bounds, and never raises."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.outcome import Fault, Verdict
from evaluator.screen import Screened, screen
from population.candidate import Language
from tests.evaluator.plan_cards import CPU, DATA, HOPPER, SCENARIOS, attention_card, scalars_of

EXAMPLE = (DATA / "hopper_example.cu").read_text()
PLAN = EXAMPLE.partition("*/")[0]
CARD = attention_card(*SCENARIOS[:2], SCENARIOS[4])
PIECES = st.sampled_from(
    [
        "/* plan", "*/", "//", "\n", '"', "'", "[[launch]]", "[knobs]", "[workspace]", "[tensor_maps]", "[scalars]",
        "[constants]", "domain = ", "kernel = 'f'", "grid = [", "]", "block = ", "args = ['q']", "=", "{", "}", "1",
        "X = { value = 1, choices = [1] }", "-9223372036854775808", "1979-05-27", "0.5", "inf", "true", '"""',
        "ceil_div(sq, X)", "'d // 0'", "\\u0000", "\0", "\r", "\ud800", "\u2028", "\u00e9",
    ]
)  # fmt: skip


def judge(source: str) -> None:
    for language, facts in ((Language.CUDA, HOPPER), (Language.CPP, CPU)):
        found = screen(source, language, CARD, facts, scalars_of)
        if isinstance(found, Fault):
            assert found.verdict in (Verdict.PLAN_ERROR, Verdict.UNSUPPORTED)
            line = re.match(r"line (\d+): \S", found.message)
            assert line is not None
            assert 1 <= int(line[1]) <= source.count("\n") + 1
            assert found.message.isprintable()
            assert len(found.message) <= 700
        else:
            assert [one.scenario for one in found.resolved] == [one.name for one in found.scenarios]


@settings(deadline=None)
@given(source=st.text(max_size=300) | st.lists(PIECES, max_size=30).map("".join))
def test_any_text(source: str) -> None:
    judge(source)
    judge(f"/* plan\n{source}\n*/")


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_the_example_with_a_piece_cut_out_replaced_or_doubled(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(PLAN)))
    end = data.draw(st.integers(start, min(start + 60, len(PLAN))))
    filling = data.draw(st.one_of(PIECES, st.just(PLAN[start:end] * 2), st.just("")))
    judge(EXAMPLE[:start] + filling + EXAMPLE[end:])


NUMBERS = st.one_of(st.integers(-3, 300), st.sampled_from([1024, 65536, 2**31, 2**62, -(2**62)]))


@settings(deadline=None)
@given(values=st.lists(NUMBERS, min_size=8, max_size=8), language=st.sampled_from(Language))
def test_resolved_sizes_keep_the_limits(values: list[int], language: Language) -> None:
    grid, y, block, cluster, shared, size, box, scalar = values
    only_cuda = language is Language.CUDA
    source = f"""/* plan
[workspace]
part = {{ dtype = "dtype", shape = ["b", {size}] }}
{f'[tensor_maps]{chr(10)}q_map = {{ tensor = "q", box = {{ sq = {box}, d = 64 }}, swizzle = "128B" }}' if only_cuda else ""}
[scalars]
number = "{scalar} * d"
[[launch]]
kernel = "forward"
grid = [{grid}, {y}]
{f"block = [{block}, 2]{chr(10)}cluster = [{cluster}]{chr(10)}shared = {shared}" if only_cuda else ""}
args = ["q", "part", "out", "lse", "number"{', "q_map"' if only_cuda else ""}]
*/"""
    found = screen(source, language, CARD, HOPPER, scalars_of)
    if isinstance(found, Screened):
        for one in found.resolved:
            (launch,) = one.launches
            assert all(value >= 1 for value in (*launch.grid, *launch.block, *launch.cluster))
            assert launch.block[0] * launch.block[1] * launch.block[2] <= 1024
            assert launch.cluster[0] <= 8
            assert launch.grid[0] % launch.cluster[0] == 0
            assert launch.grid[1] <= (65535 if only_cuda else 2**31)
            assert 0 <= launch.shared_bytes <= 232448
            assert -(2**31) <= int(launch.args[4].value or 0) < 2**31
            assert all(1 <= extent <= 256 for described in one.tensor_maps for extent in described.box)
            assert all(size > 0 for space in one.workspaces for size in space.shape)
    else:
        assert found.verdict is Verdict.PLAN_ERROR
