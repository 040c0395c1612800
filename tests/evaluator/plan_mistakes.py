"""A grammar of the mistakes that models and people make in launch plans. Each takes a source to a spoilt one."""

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random

Mistake = Callable[[Random, str], str]
"""From a stream and a source to the source with one mistake in it; where there is no place for it, the source as it was."""

UNITS = (" KB", "kb", " KiB", " bytes", "ms", "%", "u", "ULL", "f", "_000", "e3", "x")
C_LIKE = (
    "(sq + 63) / 64", "sq << 1", "sizeof(float) * d", "(sq & ~63)", "d == 64 ? 1 : 2", "causal && d > 64", "!causal",
    "dim3(sq, h, b)", "sq / 64.0f", "(int)sq", "static_cast<int>(d)", "gridDim.x", "1u << 16", "sq, sk", "std::min(sq, 128)",
    "d->x", "0x40", "sq++", "sq = 4",
)  # fmt: skip
PYTHON = (
    "[x for x in (sq, sk)]", "math.ceil(sq / 64)", "2 ** d", "int(sq / 64)", "max([sq, sk])", "f'{sq}'", "lambda: sq", "None",
    "sq is 64", "-(-sq // 64)", "triton.cdiv(sq, 64)", "d if causal", "__import__('os')", "sq[0]", "{sq}", "not in [1]",
    "'bf16'", "dtype", "dtype + 1",
)  # fmt: skip
HARD = (
    "(" * 50 + "sq" + ")" * 50, "+".join(["sq"] * 150), "sq // (d - d)", "sq * sk * 4611686018427387904",
    "99999999999999999999999", "-1", "", " ", "\\", "\\u0000", "1e400", "min(sq)", "ceil_div(1, 2, 3)", "ceil_div(sq, 0)",
    "x" * 990, "not " * 60 + "sq", "sq if sk",
)  # fmt: skip
VALUES = (
    "true", "False", "null", "[]", "[[]]", "{}", "1.5", "inf", "-3", "0", "1979-05-27", "9" * 40, "'''x'''", '"""',
    "[1, [2]]", "64 * 2", '"64"', "[128, 1, 1, 1]", "[0]", '"[128]"', "[-1]", "[4294967296]", "[1, 70000]", "{ x = 128 }",
    "(128, 1, 1)", "128,", "<<128>>", "@x",
)  # fmt: skip
NAMES = (
    "seqlen_q", "num_heads", "head_dim", "batch", "BLOCK", "Q", "Out", "softmax_scale", "blockIdx.x", "q.data", "__x", "int",
    "lse2",
)  # fmt: skip
GRIDS = (
    '"ceil_div(sq, 64), h, b"', '"(ceil_div(sq, 64), h, b)"', 'ceil_div(sq, 64)', '["ceil_div(sq, 64), h, b"]',
    '"lambda m: (sq, h)"', '["cdiv(sq, 64)", "h", "b"]', '{ x = "sq", y = "h" }', '["ceil_div(sq 64)"]',
    "['ceil_div(sq, 64)\", \"h\"]", "[sq, h, b]", '["sq" "h"]',
)  # fmt: skip
OPENINGS = (
    "/** plan", "/*plan", "/* PLAN", "/* Plan:", "/*  plan", "// plan", "#if 0 /* plan", '"""plan', "/* plan:",
    "/* launch plan", "<!-- plan",
)  # fmt: skip
GLYPHS = {
    '"': "\u201c",
    "'": "\u2019",
    " ": "\u00a0",
    "=": "\uff1d",
    ",": "\uff0c",
    "-": "\u2013",
    "*": "\u00d7",
    "[": "\uff3b",
    "a": "\u0430",
}
LINES = (
    "}", "]", "...", "# rest unchanged", "// as before", "```", "+++", "launch = 1", "[launch]", "[[launch]]", "[knobs]",
    "[[knobs]]", "[workspace.x]", "kernel = 5", "grid: [1]", "key", "= 1", "[", "[tensor_maps]\nm = { tensor = 'q' }",
    "block = [128]; args = []", "[scalars]\nsq = 4", "[compile]\nmaxrregcount = 1000", "domain = 5", "domain = 'd in []'",
    "nondeterministic = 'yes'",
)  # fmt: skip


def _head(source: str) -> int:
    """Where the plan ends, or half of the source."""
    end = source.find("*/")
    return end if end >= 0 else len(source) // 2


def _swapped(rng: Random, source: str, pattern: str, others: Sequence[str]) -> str:
    """One match of ``pattern`` in the plan replaced by one of ``others``."""
    found = list(re.finditer(pattern, source[: _head(source)]))
    if not found:
        return source
    chosen = rng.choice(found)
    return source[: chosen.start()] + rng.choice(others) + source[chosen.end() :]


def _dropped(rng: Random, source: str) -> str:
    return _swapped(rng, source, r"[\",\[\]{}=()]", ("",))


def _with_unit(rng: Random, source: str) -> str:
    found = [match.end() for match in re.finditer(r"\d+", source[: _head(source)])]
    at = rng.choice(found) if found else 0
    return source[:at] + rng.choice(UNITS) + source[at:]


def _expression(rng: Random, source: str) -> str:
    text = rng.choice(rng.choice((C_LIKE, PYTHON, HARD)))
    return _swapped(rng, source, r'"[^"\n]*"', (f'"{text}"', text))


def _misnamed(rng: Random, source: str) -> str:
    found = list(re.finditer(r"[A-Za-z_]\w*", source[: _head(source)]))
    if not found:
        return source
    chosen = rng.choice(found)
    word = chosen[0]
    other = rng.choice((*NAMES, word.upper(), word.lower(), word[1:], word + word[-1], word[:-1], f"{word}s", f"my {word}"))
    return source[: chosen.start()] + other + source[chosen.end() :]


def _arguments(rng: Random, source: str) -> str:
    match = re.search(r"args\s*=\s*\[([^\]]*)\]", source[: _head(source)])
    if match is None:
        return source
    names = match[1].split(",")
    way = rng.randrange(5)
    if way == 0:
        rng.shuffle(names)
    elif way == 1:
        del names[rng.randrange(len(names))]
    elif way == 2:
        names.insert(rng.randrange(len(names)), rng.choice((' "q"', " 64", ' "sq * 2"', " q", ' "float* q"', ' ""', " true")))
    elif way == 3:
        names = [name.replace('"', "") for name in names]
    else:
        names *= 40
    return source[: match.start(1)] + ",".join(names) + source[match.end(1) :]


def _tensor_map(rng: Random, source: str) -> str:
    box, split, inner = (rng.choice((0, 1, 3, 8, 64, 128, 256, 257, 4096, -1, 2**40)) for _ in range(3))
    tensor = rng.choice(("q", "x", "out", "nothing", "w", "lse"))
    swizzle = rng.choice(("128B", "64B", "32B", "none", "128", "SWIZZLE_128B"))
    axis, other = rng.choice((("sq", "d"), ("d", "sq"), ("n", "m"), ("d0", "d1")))
    text = (
        f'[tensor_maps]\nextra = {{ tensor = "{tensor}", split = {{ {other} = {split} }}, '
        f"box = {{ {axis} = {box}, {other}0 = {inner} }}, "
        f'swizzle = "{swizzle}" }}\n'
    )
    return _inserted(rng, source, text)


def _inserted(rng: Random, source: str, text: str) -> str:
    """``text`` before a random line of the plan."""
    starts = [match.end() for match in re.finditer(r"\n", source[: _head(source)])] or [0]
    at = rng.choice(starts)
    return source[:at] + text + source[at:]


def _value(rng: Random, source: str) -> str:
    return _swapped(rng, source, r"(?<== )[^\n]+", (*VALUES, rng.choice(GRIDS)))


def _lookalikes(rng: Random, source: str) -> str:
    glyph = rng.choice(list(GLYPHS))
    head = _head(source)
    return source[:head].replace(glyph, GLYPHS[glyph], rng.choice((1, 2, 100))) + source[head:]


def _commented(rng: Random, source: str) -> str:
    """The whole plan behind a mark on each line."""
    head = _head(source) + 2
    mark = rng.choice(("// ", " * ", "# ", "12 | ", "+", "> "))
    return "\n".join(mark + line for line in source[:head].split("\n")) + source[head:]


def _lines(rng: Random, source: str) -> str:
    """A line lost, doubled, moved or indented."""
    lines = source.split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(4)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(at, lines[other])
    elif way == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = "\t" + lines[at] + rng.choice((";", ",", " \\", "\r", "\x0b", "\x00", "\ud800", "\x1b[31m", "\u2028"))
    return "\n".join(lines)


PLAN_MISTAKES: Mapping[str, Mistake] = {
    "a sign is missing": _dropped,
    "a unit": _with_unit,
    "an expression of another language": _expression,
    "a wrong name": _misnamed,
    "other arguments": _arguments,
    "a tensor map": _tensor_map,
    "a value of another kind": _value,
    "a grid of another kind": lambda rng, source: _swapped(rng, source, r"(?<=grid)\s*=[^\n]+", [f" = {grid}" for grid in GRIDS]),
    "characters that look alike": _lookalikes,
    "a stray line": lambda rng, source: _inserted(rng, source, rng.choice(LINES) + "\n"),
    "a line moved": _lines,
    "each line marked": _commented,
    "another opening": lambda rng, source: source.replace("/* plan", rng.choice(OPENINGS), 1),
    "never closed": lambda rng, source: source.replace("*/", "", 1),
    "closed early": lambda rng, source: _inserted(rng, source, "*/\n"),
    "two plans": lambda rng, source: source + "\n" + source[: _head(source) + 2],
    "fences": lambda rng, source: f"```{rng.choice(('cuda', 'cpp', ''))}\n{source}\n```\n",
    "prose before": lambda rng, source: "Here is the kernel, as you asked:\n\n" + source,
    "code before": lambda rng, source: "#include <cuda_fp16.h>\n" + source,
    "cut off": lambda rng, source: source[: rng.randrange(len(source) + 1)],
    "carriage returns": lambda rng, source: source.replace("\n", rng.choice(("\r\n", "\r", "\n\n"))),
    "tabs": lambda rng, source: source.replace(" ", "\t"),
    "byte-order mark": lambda rng, source: "\ufeff" + source,
    "much too long": lambda rng, source: _inserted(rng, source, f"# {'x' * rng.choice((100, 17_000, 300_000))}\n"),
}


def spoilt(rng: Random, source: str, mistakes: Mapping[str, Mistake], most: int = 3) -> str:
    """The source with one to ``most`` mistakes."""
    for name in rng.choices(list(mistakes), k=rng.randint(1, most)):
        source = mistakes[name](rng, source)
    return source
