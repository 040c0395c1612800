"""Every way to get a plan wrong has one message that says where and what to write instead."""

import re

import pytest

from evaluator.outcome import Fault, Stage, Verdict
from evaluator.screen import Screened, screen
from population.candidate import Language
from tests.evaluator.plan_cards import CPU, HOPPER, SCENARIOS, attention_card, scalars_of

CUDA_PLAN = """/* plan
domain = "d <= 256 and dtype in ['bf16', 'fp16']"

[knobs]
BLOCK_M = { value = 64, when = [["d == 64", 128]], choices = [64, 128] }
STAGES = { value = 2, choices = [1, 2] }

[constants]
HEAD_DIM = "d"

[compile]
maxrregcount = 168

[workspace]
partial = { dtype = "float32", shape = ["b", "sq"], init = "zero", self_resetting = true }

[tensor_maps]
k_map = { tensor = "k", split = { d = 32 }, box = { sk = "BLOCK_M", d0 = 32, d1 = "d / 32" }, swizzle = "64B" }

[scalars]
tiles = "ceil_div(sq, BLOCK_M)"

[[launch]]
kernel = "forward"
when = "sq >= 1"
grid = ["tiles_x", "h", "b"]
block = [128]
cluster = [2]
shared = "STAGES * BLOCK_M * d * 2"
args = ["q", "k_map", "v", "out", "lse", "partial", "scale", "sq", "tiles"]
*/
extern "C" __global__ void forward() {}
""".replace('"tiles_x"', '"2 * ceil_div(sq, 2 * BLOCK_M)"')

CPU_PLAN = """/* plan
[knobs]
ROWS = { value = 16, choices = [8, 16] }

[compile]
fast_math = true

[[launch]]
kernel = "forward"
grid = ["ceil_div(sq, ROWS)", "h", "b"]
args = ["q", "k", "v", "out", "lse", "scale", "sq", "sk"]
*/
extern "C" void forward(long task, void* const* args) {}
"""


def judged(source: str, language: Language) -> Screened | Fault:
    facts = HOPPER if language is Language.CUDA else CPU
    scenarios = SCENARIOS[:5] if language is Language.CUDA else SCENARIOS
    return screen(source, language, attention_card(*scenarios), facts, scalars_of)


def message_of(plan: str, language: Language, old: str, new: str) -> str:
    assert plan.count(old) >= 1
    source = plan.replace(old, new, 1)
    found = judged(source, language)
    assert isinstance(found, Fault)
    assert (found.verdict, found.stage) == (Verdict.PLAN_ERROR, Stage.SCREEN)
    line = re.match(r"line (\d+): \S", found.message)
    assert line is not None
    assert 1 <= int(line[1]) <= source.count("\n") + 1
    assert len(found.message) <= 700
    assert "\n" not in found.message
    assert found.scenario is None or found.scenario in found.message
    return found.message


def test_the_plans_that_the_tables_change_are_good() -> None:
    assert isinstance(judged(CUDA_PLAN, Language.CUDA), Screened)
    assert isinstance(judged(CPU_PLAN, Language.CPP), Screened)


NAMES = [
    ("STAGES = {", "stages+ = {", "isn't valid TOML"),
    ("STAGES = {", '"2nd" = {', "line 6: 2nd of [knobs]: the name isn't a C identifier"),
    ("STAGES = {", "int = {", "line 6: int of [knobs]: the name is a reserved word"),
    ("STAGES = {", "__STAGES = {", "reserved for the compiler"),
    ("STAGES = {", "sq = {", "sq of [knobs]: the name is taken, it is already a scenario symbol"),
    ("STAGES = {", "lse = {", "already an output tensor"),
    ("STAGES = {", "scale = {", "already a float argument of the task"),
    ("STAGES = {", "sm_count = {", "already a device fact"),
    ("HEAD_DIM =", "STAGES =", "line 9: STAGES of [constants]: the name is taken, it is already a knob"),
    ('kernel = "forward"', 'kernel = "BLOCK_M"', "line 24: kernel of launch 1: `BLOCK_M` is already a knob"),
    ('kernel = "forward"', 'kernel = "a-b"', "`a-b` isn't a C identifier"),
    ('kernel = "forward"', "kernel = 3", "must be the kernel's name in quotes"),
    ("[compile]", "[compiler]", "line 11: compiler: unknown key; did you mean `compile`?"),
    ("maxrregcount =", "maxregcount =", "line 12: maxregcount of [compile]: unknown key; did you mean `maxrregcount`?"),
    ("cluster = [2]", "clusters = [2]", "line 28: clusters of launch 1: unknown key; did you mean `cluster`?"),
    ("choices = [1, 2]", "choice = [1, 2]", "choice of knob STAGES: unknown key; did you mean `choices`?"),
    ('dtype = "float32"', 'type = "float32"', "type of workspace partial: unknown key; did you mean `dtype`?"),
    ('tensor = "k"', 'tensr = "k"', "tensr of tensor map k_map: unknown key; did you mean `tensor`?"),
]
EXPRESSIONS = [
    ('"d"', '"dd + BLOK_M"', "line 9: HEAD_DIM of [constants]: unknown name `BLOK_M` in `dd + BLOK_M`; did you mean `BLOCK_M`?"),
    ('"d"', '"qqqq"', "unknown name `qqqq`; the names here are BLOCK_M, STAGES, b, "),
    ('"d"', '"tiles"', "`tiles` is a scalar of the plan, and only scenario symbols, knobs and device facts may be used"),
    (
        '"d <= 256',
        '"sm_count > 0 and d <= 256',
        "line 2: domain: `sm_count` in `sm_count > 0 and d <= 256 and dtype in ['bf16', 'fp16']` is a device fact",
    ),
    ('"sq >= 1"', '"sq >= BLOCK_M"', "line 25: when of launch 1 (forward): `BLOCK_M` in `sq >= BLOCK_M` is a knob"),
    ('"d == 64", 128', '"STAGES == 2", 128', "when of knob BLOCK_M: `STAGES` in `STAGES == 2` is a knob"),
    ("'fp16'", "'float16'", "`dtype` is never 'float16'; it is one of bf16, fp16, fp32"),
    ('"d"', '"dtype"', "`dtype` is a text; compare it"),
    ('"d"', '"d ** 2"', "write the product out"),
    ('"d"', '"d << 1"', "multiply by a power of two"),
    ('"d"', '"d && 1"', "write `and`"),
    ('"d"', '"d ? 1 : 2"', "write `a if condition else b`"),
    ('"d"', '"d = 64"', "compare with `==`"),
    ('"d"', '"(d + 1"', "expected `)` to close the parenthesis, found the end"),
    ('"d"', '"d +"', "expected a value, found the end"),
    ('"d"', '"pow(d, 2)"', "`pow` can't be called (only ceil_div, min and max can)"),
    ('"d"', '"cell_div(d, 2)"', "did you mean `ceil_div`?"),
    ('"d"', '"ceil_div(d)"', "ceil_div takes two values, found 1"),
    ('"d"', '"d.real"', "attributes don't exist here"),
    ('"d"', '"0.5 * d"', "expressions of a plan hold integers only"),
    ('"d"', '"99999999999999999999"', "doesn't fit in 64 bits"),
    ('"d"', '"' + "+".join(["d"] * 150) + '"', "more than 200 operations and values"),
    ('"d"', '"' + "(" * 60 + "d" + ")" * 60 + '"', "more than 40 levels of nesting"),
    ('"d"', '""', "the expression is empty"),
    ('"d"', "true", "HEAD_DIM of [constants]: must be an integer or a quoted expression"),
    ('"d"', "1.5", "must be an integer or a quoted expression"),
    ('"d"', "{ value = 1 }", "must be an integer or a quoted expression"),
    ('"d"', '"d // window"', "division by zero in `d // window` with d = 128, window = 0 (scenario d128_1k_c)"),
    ('"d"', '"sq * sq * sq * sq * sq * sq * sq"', "a value beyond 64 bits"),
    ('"2 * ceil_div(sq, 2 * BLOCK_M)"', '"sq // (d - 64)"', "line 26: grid[0] of launch 1 (forward): division by zero"),
    ('d1 = "d / 32"', 'd1 = "d / 48"', "128 / 48 isn't whole (write `//` to round down or ceil_div to round up)"),
]
KNOBS = [
    ("value = 2,", "", "line 6: knob STAGES: `value` is missing"),
    (", choices = [1, 2]", "", "knob STAGES: `choices` is missing"),
    ("{ value = 2, choices = [1, 2] }", "2", "STAGES of [knobs]: a knob is a table; write NAME = { value = 128,"),
    ("value = 2", "value = 3", "value of knob STAGES: 3 isn't among choices [1, 2]"),
    ("value = 2", 'value = "d"', "value of knob STAGES: must be a plain integer"),
    ("[1, 2]", "[1, 2, 2]", "choices of knob STAGES: a value occurs twice"),
    ("[1, 2]", "[]", "must be a list of 1 to 64 integers"),
    ('["d == 64", 128]', '["d == 64", 96]', "96 isn't among choices [64, 128]"),
    ('[["d == 64", 128]]', '["d == 64", 128]', 'must be a list of pairs, as in when = [["d == 64", 192]]'),
    ("[knobs]", "[[knobs]]", "line 4: knobs: must be a table"),
]
TABLES = [
    ("168", "300", "line 12: maxrregcount of [compile]: must be 16 to 255 registers a thread"),
    ("maxrregcount = 168", 'fast_math = "yes"', "fast_math of [compile]: must be true or false, without quotes"),
    ('"float32"', '"float64"', "dtype of workspace partial: must be one of 'bf16', 'fp16', 'fp32', 'float32', 'int32', 'dtype'"),
    ('init = "zero"', 'init = "ones"', "init of workspace partial: must be one of 'poison', 'zero'"),
    ('init = "zero", ', "", 'self_resetting of workspace partial: needs init = "zero"'),
    ('["b", "sq"]', "[]", "shape of workspace partial: must be a list of 1 to 8 integers or expressions"),
    ('["b", "sq"]', '["b", "sq - 256"]', "shape[1] of workspace partial: a size of 0; write max(1, ..) around it"),
    ('["b", "sq"]', '["b", "sq", 262144]', "workspace partial: all workspaces together take"),
    ('dtype = "float32", ', "", "workspace partial: `dtype` is missing"),
    ("ceil_div(sq, BLOCK_M)", "sq * sq * sq", "line 21: tiles of [scalars]: "),
    ("ceil_div(sq, BLOCK_M)", "sq * sk * d * h * b", "doesn't fit in int32"),
]
MAPS = [
    ('tensor = "k"', 'tensor = "kk"', "no tensor or workspace is called `kk`; did you mean `k`?"),
    ("split = { d = 32 }", "split = { e = 32 }", "split of tensor map k_map: no axis `e` (the axes are b, sk, hkv, d)"),
    ("sk = ", "sq = ", "box of tensor map k_map: no axis `sq` (the axes are b, sk, hkv, d0, d1)"),
    ("d = 32 }", "d = 32, sk = 8 }", "6 axes after splitting (b, sk0, sk1, hkv, d0, d1); TMA takes at most 5"),
    ("d = 32 }", "d = 48 }", "48 doesn't divide the axis of 128; a tile would bleed"),
    ('sk = "BLOCK_M"', "sk = 320", "320 is outside 1 to 256; fetch the tile in several pieces"),
    ("d0 = 32", "d0 = 4", "the inner box, axis d0, is 8 bytes; make it a multiple of 16"),
    ('"64B"', '"32B"', "is 64 bytes, more than the 32 of swizzle 32B; split the axis at 16 elements"),
    ('"64B"', '"128"', "swizzle of tensor map k_map: must be one of 'none', '32B', '64B', '128B'; did you mean `128B`?"),
    ('"64B"', '"64B", l2_promotion = 100', "l2_promotion of tensor map k_map: must be one of 0, 64, 128, 256 (bytes)"),
    ('"64B"', '"64B", interleave = "32B"', 'interleave 32B needs swizzle = "32B"'),
    ("split = { d = 32 }", "split = { d = 2 }", "axis d1 has a stride of 4 bytes; it must be a multiple of 16"),
    ('box = { sk = "BLOCK_M", d0 = 32, d1 = "d / 32" }, ', "", "tensor map k_map: `box` is missing; write box = {"),
]
LAUNCHES = [
    ('kernel = "forward"\n', "", "launch 1: `kernel` is missing"),
    ('grid = ["2 * ceil_div(sq, 2 * BLOCK_M)", "h", "b"]\n', "", "launch 1 (forward): `grid` is missing"),
    ("block = [128]\n", "", "launch 1 (forward): `block` is missing"),
    ("[[launch]]", "[launch]", "line 23: launch: launches are written as [[launch]], with two brackets"),
    ("block = [128]", "block = [1, 2, 3, 4]", "line 27: block of launch 1 (forward): must be a list of 1 to 3"),
    ("block = [128]", "block = 128", "block of launch 1 (forward): must be a list of 1 to 3"),
    ("block = [128]", "block = [0]", "block[0] of launch 1 (forward): 0; write at least 1, or skip the launch with `when`"),
    ("block = [128]", "block = [512, 4]", "2048 threads in a block; at most 1024 are possible"),
    ("block = [128]", "block = [1, 1, 128]", "128 threads along z; at most 64 are possible"),
    ("cluster = [2]", "cluster = [4, 4]", "16 blocks in a cluster; at most 8 work on every device"),
    ('"2 * ceil_div(sq, 2 * BLOCK_M)"', '"2 * h + 1"', "33 blocks along x aren't a multiple of the cluster's 2"),
    ('"h", "b"]', '"h", 70000]', "70000 blocks along z; at most 65535 are possible, so put the longest axis first"),
    ('"2 * ceil_div(sq, 2 * BLOCK_M)"', "4294967296", "4294967296 blocks along x; at most 2147483647 are possible"),
    ('"STAGES * BLOCK_M * d * 2"', '"d * 2048"', "262144 bytes; this device allows 0 to 232448 a block"),
    ('"STAGES * BLOCK_M * d * 2"', '"0 - d"', "line 29: shared of launch 1 (forward): -128 bytes"),
    ("cluster = [2]", "cooperative = 1", "cooperative of launch 1 (forward): must be true or false"),
    ('"out", ', "", "the output `out` is among the args of no launch that applies in scenario d128_1k_c"),
    ('"sq >= 1"', '"causal == 0"', "no launch applies in scenario d128_1k_c, which the domain claims"),
    ('"tiles"]', '"tile"]', "line 30: args of launch 1 (forward): unknown name `tile`; did you mean `tiles`?"),
    ('"tiles"]', '"BLOCK_M"]', "`BLOCK_M` is a knob and can't be passed; name it in [scalars] to pass its value"),
    ('"tiles"]', '"sm_count"]', "`sm_count` is a device fact and can't be passed; name it in [scalars]"),
    ('"tiles"]', '"dtype"]', "`dtype` can't be passed; make it a constant"),
    ('"tiles"]', "64]", "must be a list of names in quotes"),
]
TEXT = [
    ("/* plan", "/* notes", "the first block comment must begin `/* plan`"),
    ("/* plan", "```cuda\n/* plan", "line 1: a fence of markdown; a source is the bare file, so remove it"),
    ('"h", "b"]', '\u201ch\u201d, "b"]', "`\u201c` (U+201C) isn't plain ASCII, write it as it stands on a keyboard"),
    ("value = 2,", "value = 2", "a comma or a `}` is missing; an inline table stands on one line"),
    ("block = [128]", "block: [128]", "Expected '=' after a key"),
    ("[compile]", "[compile.x]", "line 11: x of [compile]: unknown key"),
    ("[compile]", "[compiled.x]", "line 11: compiled: unknown key; did you mean `compile`?"),
    ("/* plan", "/** plan", "must begin with exactly `/* plan`, in lower case with one space"),
    ("/* plan", "int x;\n/* plan", "line 1: code before the plan"),
    ("*/\n", "", "the plan comment is never closed"),
    ("extern", "/* plan\n[knobs]\n*/\nextern", "line 32: a second comment begins `/* plan`"),
    ("[knobs]", "// knobs\n[knobs]", "line 4: the plan isn't valid TOML: Invalid statement; comments in the plan begin with #"),
    ('"d"', "d", "line 9: the plan isn't valid TOML: Invalid value; expressions and names stand in quotes"),
    ("block = [128]", "block = [128*/2]", "the plan ends at the first `*/`"),
    ("block = [128]", "block = [128]\nblock = [64]", "line 28: the plan isn't valid TOML: Cannot overwrite a value"),
    ("extern", "\0extern", "a NUL byte"),
    ("extern", "\ud800extern", "line 32: a character that isn't valid UTF-8"),
    ("/* plan", "\ufeff/* plan", "byte-order mark"),
    ("[knobs]", "#" * 17000 + "\n[knobs]", "at most 16384 are allowed"),
    ("extern", "//" + "x" * 2**18 + "\nextern", "at most 262144 are allowed"),
    ("[knobs]", "nested = " + "[" * 3000 + "\n[knobs]", "line 1: the plan's TOML is nested too deeply"),
    ("[knobs]", "huge = " + "9" * 5000 + "\n[knobs]", "isn't valid TOML"),
    (CUDA_PLAN, "", "line 1: the source has no plan; begin it with a comment `/* plan ... */`"),
    (CUDA_PLAN, "/* plan */", "line 1: the plan: the plan has no launch; add a [[launch]] table"),
    (CUDA_PLAN, "/* plan\nlaunch = []\n*/", "launches are written as [[launch]]"),
    (CUDA_PLAN, "// only\n\n// remarks\n", "the source has no plan"),
    (CUDA_PLAN, "// no plan here\nint x;\n", "line 2: the source has no plan"),
]


@pytest.mark.parametrize(("old", "new", "phrase"), [*NAMES, *EXPRESSIONS, *KNOBS, *TABLES, *MAPS, *LAUNCHES, *TEXT])
def test_cuda_plan_error(old: str, new: str, phrase: str) -> None:
    assert phrase in message_of(CUDA_PLAN, Language.CUDA, old, new)


@pytest.mark.parametrize(
    ("old", "new", "phrase"),
    [
        ("grid =", "block = [1]\ngrid =", "line 10: block of launch 1: not used by a CPU candidate"),
        ("grid =", "cluster = [1]\ngrid =", "cluster of launch 1: not used by a CPU candidate"),
        ("grid =", "cooperative = false\ngrid =", "cooperative of launch 1: not used by a CPU candidate"),
        ("grid =", "shared = 0\ngrid =", "shared of launch 1: not used by a CPU candidate"),
        ("[compile]", "[compile]\nmaxrregcount = 64", "line 6: maxrregcount of [compile]: a CPU candidate has no register limit"),
        ("[compile]", "[compile]\nfastmath = true", "unknown key; did you mean `fast_math`?"),
        ("[compile]", "[tensor_maps]\n[compile]", "line 5: tensor_maps: a CPU candidate has no tensor maps"),
        ('"h", "b"]', "70000, 70000]", "tasks in all; at most 2147483647 are allowed"),
        ('"ceil_div(sq, ROWS)"', '"sq // (d - 32)"', "line 10: grid[0] of launch 1 (forward): division by zero"),
    ],
)
def test_cpu_plan_error(old: str, new: str, phrase: str) -> None:
    assert phrase in message_of(CPU_PLAN, Language.CPP, old, new)


def test_domain_that_meets_no_scenario_is_unsupported() -> None:
    found = judged(CUDA_PLAN.replace("d <= 256", "d == 80"), Language.CUDA)
    assert isinstance(found, Fault)
    assert found.verdict is Verdict.UNSUPPORTED
    assert "holds in none of the 5 scenarios of plan_tests; widen it" in found.message
