"""A drafted plan reads, names what it could recognise, and says what a person must still do."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.draft import Draft, draft
from evaluator.outcome import Fault
from evaluator.plan.model import Plan
from evaluator.plan.parse import parse_plan
from evaluator.screen import Screened, screen
from population.candidate import Language
from tests.evaluator.plan_cards import CPU, DATA, HOPPER, SCENARIOS, attention_card, scalars_of

CARD = attention_card()
CUDA_SOURCE = """#include <cuda_bf16.h>
#define BLOCK_M 64
// extern "C" __global__ void in_a_comment(float* x) {}
extern "C" __global__ void __launch_bounds__(256, 2) __cluster_dims__(2, 1, 1)
attention(const __nv_bfloat16* __restrict__ Q, const __nv_bfloat16* K, const __nv_bfloat16 *V, __nv_bfloat16* O, float* lse,
          float* tmp, float softmax_scale, int batch, int seqlen, int seqlen_k, int num_heads, size_t stride,
          const __grid_constant__ CUtensorMap k_map) {}
"""
CPU_SOURCE = """extern "C" {
void attention(long task, void* const* args) {
    const float* q = static_cast<const float*>(args[0]);
    const float* keys = (const float*)args[1];
    auto v = static_cast<const float*>(args[2]);
    float* out = static_cast<float*>(args[3]);
    auto* lse = static_cast<float*>(args[4]);
    const int sq = *static_cast<const int*>(args[5]);
    auto scale = *static_cast<const float*>(args[6]);
}
}
"""


def plan_of(drafted: Draft, language: Language) -> Plan:
    plan = parse_plan(drafted.text, language, CARD)
    assert isinstance(plan, Plan)
    return plan


def test_cuda_signature_is_recognised() -> None:
    drafted = draft(CUDA_SOURCE, Language.CUDA, CARD)
    (launch,) = plan_of(drafted, Language.CUDA).launches
    assert launch.kernel == "attention"
    assert launch.args == ("q", "k", "v", "out", "lse", "tmp", "scale", "b", "sq", "sk", "h", "stride", "k_map")
    assert [size.expression.text for size in (*launch.block, *launch.cluster)] == ["256", "1", "1", "2", "1", "1"]
    assert drafted.text.endswith("*/\n" + CUDA_SOURCE)
    for line in (
        '"q",  # const __nv_bfloat16* __restrict__ Q',
        '"out",  # check: __nv_bfloat16* O',
        "domain = \"dtype == 'bf16'\"",
    ):
        assert line in drafted.text
    assert any("BLOCK_M could become knobs" in remark for remark in drafted.remarks)
    assert any("declare `size_t stride` as int" in remark for remark in drafted.remarks)


def test_cpu_form_is_read_from_its_casts_and_runs_through_the_screen() -> None:
    drafted = draft(CPU_SOURCE, Language.CPP, CARD)
    (launch,) = plan_of(drafted, Language.CPP).launches
    assert launch.args == ("q", "k", "v", "out", "lse", "sq", "scale")
    assert [re.split("[:;]", remark)[0] for remark in drafted.remarks] == [
        "the plan has no [knobs], so the knobs answerer will find nothing to turn",
        "no parameter is `b`, `sk`, `h`, `hkv`, `d`, `causal`, `window`",
    ]
    found = screen(drafted.text, Language.CPP, CARD, CPU, scalars_of)
    assert isinstance(found, Screened)
    assert [one.name for one in found.scenarios] == ["cpu_d32"]


def test_ordinary_cpu_parameters_are_told_how_to_change() -> None:
    source = 'extern "C" void attention(const float* q, const float* k, const float* v, float* out, float* lse, int sq) { }'
    drafted = draft(source, Language.CPP, CARD)
    assert plan_of(drafted, Language.CPP).launches[0].args == ("q", "k", "v", "out", "lse", "sq")
    remark = drafted.remarks[0]
    assert 'declare attention as extern "C" void attention(long task, void* const* args)' in remark
    assert "const float* q = static_cast<const float*>(args[0]);" in remark
    assert "int sq = *static_cast<const int*>(args[5]);" in remark


@pytest.mark.parametrize(
    ("language", "source", "phrase"),
    [
        (Language.CUDA, "template <int D>\n__global__ void f(float* x) {}", "f is a template, which a plan can't name"),
        (Language.CUDA, "__global__ void f(float* out, float* lse) {}", 'f isn\'t declared extern "C"'),
        (Language.CUDA, 'extern "C" __global__ void f(float* out) {}', "no parameter seems to be `lse`"),
        (Language.CUDA, 'extern "C" __global__ void f(Params p) {}', "`Params p` can't be passed"),
        (Language.CUDA, 'extern "C" __global__ void min(float* out) {}', "rename it to min_kernel"),
        (Language.CUDA, "int main() { f<<<1, 2>>>(); }", "the `<<<...>>>` launch must go"),
        (Language.CUDA, "#include <cstdio>\n", "<cstdio> can't be included: NVRTC has no host headers"),
        (Language.CPP, "void f(float* out) { std::vector<float> p(3); }", "std::vector needs the heap"),
        (Language.CUDA, "", "no kernel was found that a plan can name"),
        (Language.CPP, "int f(int x) { return x; }", "no kernel was found that a plan can name"),
        (Language.CPP, "void f(long task, void* const* args) {}", "which entry of args is what couldn't be read from f"),
        (Language.CPP, "void f(float* out) {\n#pragma omp parallel\n}", "OpenMP must go"),
        (Language.CPP, 'extern "C" void f(double scale) {}', "declare `double scale` as float"),
        (Language.CUDA, "\n".join(f'extern "C" __global__ void f{i}(float* out) {{}}' for i in range(9)), "9 kernels were found"),
    ],
)
def test_remarks(language: Language, source: str, phrase: str) -> None:
    drafted = draft(source, language, CARD)
    assert any(phrase in remark for remark in drafted.remarks)
    assert plan_of(drafted, language).launches


def test_a_source_with_a_plan_comes_back_unchanged() -> None:
    source = (DATA / "hopper_example.cu").read_text()
    assert draft(source, Language.CUDA, CARD) == Draft(
        text=source, remarks=("the source already has a plan; nothing was changed",)
    )


@pytest.mark.parametrize(("name", "tensor"), [("tmO", "out"), ("k_map", "k"), ("mapLse", "lse"), ("other", "q")])
def test_tensor_maps_are_recognised_by_a_word_of_their_name(name: str, tensor: str) -> None:
    source = f'extern "C" __global__ void f(const __grid_constant__ TMap {name}) {{}}'
    (spec,) = plan_of(draft(source, Language.CUDA, CARD), Language.CUDA).tensor_maps.values()
    assert spec.tensor == tensor


def test_functions_without_parameters_are_no_launches() -> None:
    source = 'extern "C" void set_up() {}\nextern "C" void f(long task, void* const* args) { float* out = (float*)args[0]; }'
    assert [launch.kernel for launch in plan_of(draft(source, Language.CPP, CARD), Language.CPP).launches] == ["f"]


WORDS = st.sampled_from(
    ["q", "K", "v_ptr", "o", "lse", "__x", "int", "sq", "n", "scale", "h", "x_1", "dtype", "sm_count", "block", "_A", "tmp"]
)
TYPES = st.sampled_from(
    [
        "const float*",
        "float *",
        "int",
        "float",
        "void*",
        "size_t",
        "const __half* __restrict__",
        "CUtensorMap",
        "Foo<int, 3>",
        "int*/",
    ]
)


@settings(deadline=None)
@given(
    language=st.sampled_from(Language),
    name=WORDS,
    parameters=st.lists(st.tuples(TYPES, WORDS), max_size=12),
    prefix=st.sampled_from(["", 'extern "C" ', "template <class T> ", "// text\n", "/* text */ "]),
)
def test_any_signature_gives_a_plan_that_reads(
    language: Language, name: str, parameters: list[tuple[str, str]], prefix: str
) -> None:
    head = "__global__ void" if language is Language.CUDA else "void"
    source = f"{prefix}{head} {name}({', '.join(' '.join(parameter) for parameter in parameters)}) {{ }}"
    plan_of(draft(source, language, CARD), language)


@settings(deadline=None)
@given(text=st.text(st.sampled_from('ab_ 1(){}<>[];,*&="/\n#') | st.characters(codec="utf-8"), max_size=200))
def test_any_text_gives_a_draft(text: str) -> None:
    for language in Language:
        for around in (
            text,
            f'extern "C" __global__ void {text}',
            f"void f({text}) {{}}",
            f"void f(long t, void* const* a) {{{text}",
        ):
            drafted = draft(around, language, CARD)
            assert drafted.text.endswith(around)
            assert isinstance(parse_plan(drafted.text, language, CARD), Plan | Fault)


def test_drafts_of_the_examples_kernel_match_its_plan() -> None:
    source = (DATA / "hopper_example.cu").read_text().partition("*/\n")[2]
    drafted = draft(source, Language.CUDA, CARD)
    found = screen(drafted.text, Language.CUDA, attention_card(*SCENARIOS[:2]), HOPPER, scalars_of)
    assert isinstance(found, Screened)
    names = [argument.name for argument in found.resolved[0].launches[0].args]
    assert names == ["q_map", "k", "v", "out", "lse", "counter", "scale", "sq", "sk", "h", "hkv", "section"]
