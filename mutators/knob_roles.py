"""What a knob's name says about it: which tile it sizes, and which layers of the system it belongs to (docs/questions.md)."""

import re
from collections.abc import Mapping, Sequence

from evaluator.expression import ExpressionError, parse
from evaluator.task_card import SymbolValue
from mutators.question import Layer
from population.candidate import Knob

QUERY_TILE = ("BLOCK_M", "TILE_M", "BM", "QUERY_TILE", "QUERY_ROWS", "BLOCK_Q")
KEY_TILE = ("BLOCK_N", "TILE_N", "BN", "KEY_TILE", "KEY_ROWS", "BLOCK_K")
STAGES = ("STAGES", "KV_STAGES", "DEPTH", "PIPELINE")

WARPGROUPS, ROWS_A_WARPGROUP = ("WARPGROUPS",), 64
"""A kernel whose tile follows from its number of warpgroups: each owns the 64 rows of a wgmma instruction."""

_WORDS: Mapping[Layer, re.Pattern[str]] = {
    Layer.ALGORITHM: re.compile("CAUSAL|MASK|SKIP|ONLINE|PASS|PASSES|TWO|LAZY|ORDER|OUTER|DIAGONAL"),
    Layer.SCHEDULE: re.compile("STAGES?|PIPELINE|DEPTH|OVERLAP|ORDER|OUTER|INNER|PINGPONG|WAIT|INTERLEAVE|UNROLL"),
    Layer.MEMORY: re.compile("BLOCK|TILE|B[MN]|KEYS?|QUERY|PACK|PREFETCH|STAGES?|CACHE|L|CHUNK|PAD|ALIGN|SWIZZLE"),
    Layer.INSTRUCTION: re.compile("UNROLL|VECTORS?|WIDTH|VEC|LANES?|ROWS|COLS|REGS?|ACC|FMA|SIMD"),
    Layer.NUMERICS: re.compile("EXP|POLY|DEGREE|RESCALE|LAZY|PRECISION|ACC|TERMS"),
    Layer.LAUNCH: re.compile("BLOCK|B?M|GRID|TASKS?|GRAIN|THREADS|WARPS|GROUPS|CLUSTER|PERSISTENT|HEADS|ROWS"),
    Layer.PLAN: re.compile("SPLITS?|WORKSPACE|PACK|RECOMPUTE|SECTION|PASS|PASSES|HEADS"),
    Layer.MEASUREMENT: re.compile("(?!)"),
}


def suits(name: str, layer: Layer) -> bool:
    """Whether a word of the knob's name belongs to the layer."""
    return any(_WORDS[layer].fullmatch(word) for word in re.split(r"[_\d]+", name.upper()))


def value_in(knob: Knob, symbols: Mapping[str, SymbolValue]) -> int:
    """The knob's value in one scenario: that of the first case that holds, else the plain value."""
    for condition, value in knob.cases:
        try:
            if parse(condition).evaluate(symbols):
                return value
        except ExpressionError:
            continue
    return knob.value


def query_tile_of(knobs: Sequence[Knob], symbols: Mapping[str, SymbolValue]) -> int | None:
    """Query rows of a tile in a scenario, also where the kernel declares warpgroups; None where it declares neither."""
    rows, groups = tile_of(knobs, QUERY_TILE, symbols), tile_of(knobs, WARPGROUPS, symbols)
    return rows if rows is not None or groups is None else groups * ROWS_A_WARPGROUP


def tile_of(knobs: Sequence[Knob], names: Sequence[str], symbols: Mapping[str, SymbolValue]) -> int | None:
    """The size that a knob of one of these names has in a scenario, None where the kernel declares none."""
    for knob in knobs:
        if knob.name.upper() in names:
            return value_in(knob, symbols)
    return None
