"""Recognising known sources: equal programs are found, different ones are never taken for equal."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from population import novelty
from population.candidate import Candidate, Language
from population.novelty import Known, Likeness, Match, candidate_of, near_duplicate, normal_form

PLAN = '/* plan\n[knobs]\nTILE = { value = 4, choices = [4, 8] }  # wide\n[[launch]]\nkernel = "f"\n*/\n'
CODE = """#include <stdint.h>
#define TWICE(x) ((x) + (x))  // a macro
// a remark
extern "C" void f(long task, void* const* args) {
    const float* q = (const float*)args[0]; /* the queries */
    for (int i = 0; i < TILE; ++i) { q += i >> 1; }
}
"""


def made(source: str) -> Candidate:
    return candidate_of(source, Language.CPP)


def test_ids_are_hashes() -> None:
    source = PLAN + CODE
    assert made(source).id == hashlib.sha256(source.encode()).hexdigest()
    assert made("a → \ud800").id != made("a → \ud801").id
    assert len(made("").normal_id) == 64


@pytest.mark.parametrize(
    "other",
    [
        CODE.replace("// a remark\n", ""),
        CODE.replace("/* the queries */", "// other\n"),
        CODE.replace("  // a macro", ""),
        CODE.replace("    ", "\t"),
        CODE.replace("\n", "\r\n"),
        CODE.replace("(x) + (x)", "(x)+(x)"),
        CODE.replace("(x) + (x)", "(x) + \\\n (x)"),
        CODE.replace("#define TWICE", "  #  define   TWICE"),
        CODE.replace("i >> 1", "i>>1"),
        CODE.replace("const float* q", "const/* c */float *q"),
        CODE.replace("// a remark", "// a remark with R\" and ' and /* in it"),
        CODE.replace("task", "ta\\\nsk"),
    ],
    ids=range(12),
)
def test_layout_and_comments_do_not_count(other: str) -> None:
    assert other != CODE
    assert made(PLAN + other).normal_id == made(PLAN + CODE).normal_id
    assert made(PLAN + other).id != made(PLAN + CODE).id


DIFFERENT = [
    ("a + +b;", "a ++b;"),
    ("a - -b;", "a --b;"),
    ("int ab;", "int a b;"),
    ("x = a / *p;", "x = a /*p;*/ ;"),
    ('s = "a  b";', 's = "a b";'),
    ('s = "a//b";', 's = "a";'),
    ('s = "a/*b*/";', 's = "a";'),
    ('s = "\\"//x";', 's = "\\"";'),
    ("c = '\"'; // x", "c = '\"'; y();"),
    ('s = R"(a // b)";', 's = R"(a)";'),
    ('s = R"(a\n b)";', 's = R"(a b)";'),
    ('s = R"x(a)" // b)x";', 's = R"x(a)";'),
    ('s = R"(a\\\nb)";', 's = R"(ab)";'),
    ('s = L"a";', 's = L "a";'),
    ('s = "a"_x;', 's = "a" _x;'),
    ("#define F(x) x\n", "#define F (x) x\n"),
    ("#define F/**/(x) x\n", "#define F(x) x\n"),
    ("#define A 1\nint x;", "#define A 1 int x;"),
    ("#define A 1 \\\nint x;", "#define A 1\nint x;"),
    ("#if A\nf();\n#endif", "#if A f();\n#endif"),
    ("#include <a//b>\n", "#include <a//c>\n"),
    ("#define S(x) #x\nf(S(a+b));", "#define S(x) #x\nf(S(a + b));"),
    ("f(__LINE__);", "\nf(__LINE__);"),
    ("// x \\\nf();", "// x\nf();"),
    ("// x \\ \nf();", "// x\nf();"),
    ("// x ??/\nf();", "// x\nf();"),
    ("%:define A 1\nint x;", "%:define A 1 int x;"),
    ("/* c */ #define A 1\nint x;", "/* c */ #define A 1 int x;"),
    ("n = 1'000;", "n = 1 '000;"),
    ("n = 1e+3;", "n = 1e + 3;"),
    ("n = 1.f;", "n = 1 .f;"),
    ("$a b;", "$ab;"),
    ("é a;", "éa;"),
    ("f(\u00a0);", "f( );"),
    ("/* plan\na = 1\n*/", "/* plan\na  = 1\n*/"),
    ("/* plan\na = 1 # c\n*/", "/* plan\na = 1\n*/"),
    ("/* plan\na = 'b\\\nc'\n*/ x \\\n y", "/* plan\na = 'bc'\n*/ x \\\n y"),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_different_programs_stay_different(one: str, other: str) -> None:
    assert normal_form(one) != normal_form(other)
    assert normal_form(PLAN + CODE + one) != normal_form(PLAN + CODE + other)


TOKENS = st.sampled_from(
    [
        "a",
        "b1",
        "0x1F",
        "1.5f",
        "1e-3",
        "'c'",
        '"// no"',
        '"/*"',
        "+",
        "++",
        "-",
        "->",
        "<<",
        "<",
        ">",
        "(",
        ")",
        "{",
        "}",
        ";",
        "::",
        "...",
    ]
)
GAPS = st.sampled_from([" ", "\n", "\t ", " /* x */ ", " // y\n", "\r\n", " /* 'q\" */\n"])


@given(st.data(), st.lists(TOKENS, min_size=1, max_size=30))
def test_any_gap_between_tokens_is_the_same(data: st.DataObject, tokens: list[str]) -> None:
    gaps = data.draw(st.lists(GAPS, min_size=len(tokens), max_size=len(tokens)))
    spaced = "".join(token + gap for token, gap in zip(tokens, gaps, strict=True))
    assert normal_form(spaced) == " ".join(tokens)


@given(st.lists(TOKENS, max_size=20), st.lists(TOKENS, max_size=20))
def test_other_tokens_are_another_form(one: list[str], other: list[str]) -> None:
    assert (normal_form(" ".join(one)) == normal_form(" ".join(other))) == (one == other)


@given(st.text(alphabet=st.characters(exclude_characters="#")) | st.text(alphabet="ab/*\\\"'R() \n-+<1."))
def test_the_form_of_a_form_is_itself(text: str) -> None:
    assert normal_form(normal_form(text)) == normal_form(text)


def test_known_sources_are_found_by_bytes_and_by_form() -> None:
    first, second = made(PLAN + CODE), made(PLAN + CODE + "// more\n")
    known = Known([first])
    assert known.duplicate(first) == Match(candidate_id=first.id, likeness=Likeness.EXACT)
    assert known.duplicate(second) == Match(candidate_id=first.id, likeness=Likeness.NORMALISED)
    known.add(second)
    assert known.duplicate(second) == Match(candidate_id=second.id, likeness=Likeness.EXACT)
    assert known.duplicate(made(PLAN + CODE + "int x;")) is None
    assert known.get(second.id) is second
    assert len(known) == 2


def test_near_duplicates_share_the_plan_and_most_tokens() -> None:
    base = made(PLAN + CODE)
    near = made(PLAN + CODE.replace("i >> 1", "i >> 2"))
    far = made(PLAN + "int unrelated;")
    knob = made(PLAN.replace("value = 4", "value = 8") + CODE)
    match = near_duplicate(base, [far, knob, near], cutoff=0.9)
    assert match is not None
    assert (match.candidate_id, match.likeness) == (near.id, Likeness.NEAR)
    assert 0.9 < match.similarity < 1
    assert near_duplicate(base, [far, knob], cutoff=0.9) is None
    assert near_duplicate(base, [], cutoff=0.0) is None


PARTS = (
    *(
        '"',
        "'",
        "\\",
        "\n",
        " ",
        "\t",
        "#",
        "##",
        "%",
        ":",
        "<",
        ">",
        "/",
        "*",
        "//",
        "/*",
        "*/",
        "R",
        "(",
        ")",
        "x",
        "1e",
        "+",
        "?",
    ),
    *("é", "@", "#define F(x) x\n", "#include <a.h>\n", '"a b"', "'c'", 'R"(b)"', "/* plan\nk = 1\n*/", "// note\n", "a = b;\n"),
)


@given(st.lists(st.sampled_from(PARTS), max_size=30).map("".join))
def test_the_fast_way_to_the_normal_form_gives_what_the_thorough_one_gives(text: str) -> None:
    fast = novelty._usual_pieces(text)
    assert not fast or list(fast) == list(novelty._pieces(text))
