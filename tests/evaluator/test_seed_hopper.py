"""The Hopper seed as far as a machine without a GPU can judge it: plan, builds, tiles, and the protocol of its warpgroups."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluator.backend import Build
from evaluator.cache import BuildCache
from evaluator.cuda.gate import gate_cuda
from evaluator.cuda.nvrtc import compile_cuda
from evaluator.cuda.offline import Gated, examine
from evaluator.plan.model import Plan
from evaluator.plan.parse import parse_plan
from evaluator.tasks.attention_forward.masks import visible
from population.candidate import Language
from tests.ahead import build_ahead
from tests.evaluator import hopper_emulation as seed
from tests.evaluator import hopper_protocol as protocol

KNOWN_SPILLS_BYTES = 160
"""Three warpgroups with a diagonal have 128 registers until they ask for more; they spill outside the loops over keys only."""

SQUARE = {"b": 2, "h": 16, "sq": 4096}
BUILDS = {
    "d64 causal": {"d": 64, "causal": 1},
    "d64 full fp16": {"d": 64, "dtype": "fp16"},
    "d96 causal": {"d": 96, "causal": 1},
    "d128 causal fp16": {"causal": 1, "dtype": "fp16"},
    "d128 full": {},
    "d128 window": {"causal": 1, "window": 1024},
    "d128 chunked": {"causal": 1, "sq": 1024, "sk": 4096},
    "d256 causal": {"d": 256, "causal": 1},
}


@pytest.fixture(scope="module")
def cache(request: pytest.FixtureRequest, cuda_cache: BuildCache) -> BuildCache:
    test = "test_it_builds_passes_the_gate_and_keeps_wgmma_in_flight"
    build_ahead(request, {test: lambda of: build(seed.symbols(**(SQUARE | of)), cuda_cache)}, "of")
    return cuda_cache


def build(of: dict[str, Any], cache: BuildCache, source: str = seed.SOURCE) -> Build:
    """The gated build for these symbols."""
    plan = seed.resolved(of, source=source)
    found = compile_cuda(source, plan, "sm_90a", cache)
    assert isinstance(found, Build), found
    assert gate_cuda(found, plan) is None
    return found


def judge(facts: Any) -> None:
    """No wgmma instruction waits for another, and registers are spilt only where that is known."""
    assert "wgmma_serialized" not in facts, facts["wgmma_serialized"]
    assert facts["spill_bytes"] <= (KNOWN_SPILLS_BYTES if facts["registers"] == 128 else 0)


@pytest.mark.parametrize("of", BUILDS.values(), ids=BUILDS)
def test_it_builds_passes_the_gate_and_keeps_wgmma_in_flight(of: dict[str, Any], cache: BuildCache) -> None:
    judge(build(seed.symbols(**(SQUARE | of)), cache).facts)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("fa3_36", 36), ("hopper_182", 182)])
def test_all_scenarios_of_a_set_build(name: str, count: int, cache: BuildCache) -> None:
    found = examine(seed.SOURCE, seed.TASK, name, "sm_90a", cache)
    assert isinstance(found, Gated), found
    assert len(found.scenarios) == count
    for facts in found.facts:
        judge(facts)


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        ({"d": 64, "sq": 1024, "causal": 1}, {"WARPGROUPS": 2, "PINGPONG": 0, "HINTS": 3}),
        ({"d": 64, "sq": 1025, "causal": 1}, {"WARPGROUPS": 3, "PINGPONG": 1, "HINTS": 0}),
        ({"d": 64, "sq": 512}, {"WARPGROUPS": 3, "PINGPONG": 1, "HINTS": 0}),
        ({"sq": 1024}, {"BLOCK_N": 128, "DYNAMIC": 0, "ASCENDING": 0, "TMA_STORE": 1, "DEFER": 1, "SPLIT": 4}),
        ({"sq": 2048}, {"BLOCK_N": 160, "DYNAMIC": 0, "ASCENDING": 1, "TMA_STORE": 0, "DEFER": 0, "SPLIT": 8}),
        ({"sq": 2048, "causal": 1}, {"BLOCK_N": 128, "DYNAMIC": 1, "ASCENDING": 0, "TMA_STORE": 1, "HINTS": 3}),
        ({"sq": 8192, "causal": 1}, {"BLOCK_N": 128, "DYNAMIC": 1, "HINTS": 1}),
        ({"sq": 2048, "window": 9}, {"BLOCK_N": 128, "DYNAMIC": 1, "ASCENDING": 0, "TMA_STORE": 1}),
        (
            {"d": 256, "sq": 1024, "causal": 1},
            {"BLOCK_N": 64, "SPLIT": 8, "PINGPONG": 0, "Q_STAGES": 1, "TMA_STORE": 0, "DEFER": 0},
        ),
        ({"d": 256, "sq": 2048, "causal": 1}, {"BLOCK_N": 80, "SPLIT": 8, "PINGPONG": 0, "Q_STAGES": 1}),
        ({"d": 256, "sq": 512}, {"BLOCK_N": 80, "SPLIT": 4, "PINGPONG": 1, "Q_STAGES": 1}),
    ],
)
def test_the_measured_variant_is_chosen(of: dict[str, Any], wanted: dict[str, int]) -> None:
    knobs = seed.resolved(seed.symbols(**of)).knobs
    assert {name: knobs[name] for name in wanted} == wanted
    assert knobs["STAGES"] == 2


def test_sections_hold_the_heads_whose_keys_and_values_fit() -> None:
    def section(**of: Any) -> int | float | None:
        found = seed.resolved(seed.symbols(**of))
        return next(argument.value for argument in found.launches[0].args if argument.name == "section")

    assert section(b=16, h=16, sq=1024, causal=1) == 16 * 2**20 // (2 * 1024 * 128 * 2)
    assert section(b=1, h=16, sq=16384, causal=1) == 32 * 2**20 // (2 * 16384 * 128 * 2)
    assert section(b=1, h=16, hkv=4, sq=16384, causal=1) == 16, "query heads of a group read the same keys"
    assert section(b=1, h=4, sq=512, causal=1) == 4, "at most the heads there are"
    assert section(b=1, h=4, sq=1 << 20, causal=1) == 1, "at least one"


def choices() -> list[tuple[str, int]]:
    """Every choice of every knob."""
    plan = parse_plan(seed.SOURCE, Language.CUDA, seed.TASK.card("fa3_36"))
    assert isinstance(plan, Plan), plan
    return [(spec.knob.name, choice) for spec in plan.knobs for choice in spec.knob.choices]


def fitting(name: str, choice: int) -> tuple[dict[str, Any], str]:
    """The first scenario of BUILDS whose shared memory suffices for a choice, and the source with it."""
    source = seed.with_knobs(**{name: choice})
    for of in ({"causal": 1}, {}, {"d": 96}, {"d": 64, "sq": 512, "causal": 1}):
        try:
            seed.resolved(seed.symbols(**(SQUARE | of)), source=source)
        except AssertionError:
            continue
        return SQUARE | of, source
    raise AssertionError(f"{name} = {choice} fits nowhere")


@pytest.mark.parametrize(("name", "choice"), choices())
def test_every_choice_of_a_knob_fits_somewhere(name: str, choice: int) -> None:
    of, source = fitting(name, choice)
    assert seed.resolved(seed.symbols(**of), source=source).knobs[name] == choice


@pytest.mark.slow
@pytest.mark.parametrize(("name", "choice"), choices())
def test_every_choice_of_a_knob_builds(name: str, choice: int, cache: BuildCache) -> None:
    of, source = fitting(name, choice)
    assert build(seed.symbols(**of), cache, source).facts["cubin_bytes"]


GEOMETRY = """
#include <algorithm>
#include <cstdio>
#define __device__
#define __forceinline__ inline
using std::max; using std::min;
{sections}
int main() {{
  int rows, keys, heads, window, section;
  while (std::scanf("%d %d %d %d %d", &rows, &keys, &heads, &window, &section) == 5) {{
    const int blocks = (rows + BLOCK_M - 1) / BLOCK_M;
    for (int t = 0; t < blocks * heads; t++) {{
      const Tile tile = tile_at(t, blocks, heads, heads, section);
      const Blocks found = blocks_of(tile.block, rows, keys, SHIFTED ? keys - rows : 0, window);
      std::printf("%d %d %d %d ", tile.head, tile.block, found.first, found.last);
    }}
    std::printf("\\n");
  }}
}}
"""


def random_shape(chance: random.Random, square: bool, **variant: Any) -> protocol.Shape:
    """A shape of a few hundred rows and keys."""
    rows = chance.randint(1, 700)
    given = {
        "block_m": 128,
        "block_n": 128,
        "warpgroups": 2,
        "stages": 2,
        "q_stages": 2,
        "causal": True,
        "upwards": False,
        "grid": 1,
    }
    return protocol.Shape(
        rows=rows,
        keys=rows if square else chance.randint(1, 900),
        heads=chance.randint(1, 5),
        window=chance.choice([1, 2, chance.randint(1, 900)]) if variant.pop("windowed", False) else 0,
        section=chance.randint(1, 5),
        **(given | variant),
    )


def needed(shape: protocol.Shape, block: int) -> tuple[int, int]:
    """First and last key block in which some row of a query block sees a key, by definition; (0, 0) where none does."""
    of = {"sq": shape.rows, "sk": shape.keys, "causal": int(shape.causal), "window": shape.window}
    first, last = (bound[block * shape.block_m : (block + 1) * shape.block_m] for bound in visible(of))
    live = last >= np.maximum(first, 0)
    if not live.any():
        return 0, 0
    return int(first[live].min()) // shape.block_n, int(last[live].max()) // shape.block_n


@pytest.mark.parametrize(("causal", "windowed", "square"), [(0, 0, 0), (1, 0, 1), (1, 0, 0), (1, 1, 1), (1, 1, 0)])
def test_tiles_are_visited_once_and_need_exactly_the_blocks_they_load(
    causal: int, windowed: int, square: int, tmp_path: Path
) -> None:
    chance = random.Random(causal + 2 * windowed + 4 * square)
    of = seed.symbols(sq=256, sk=256 if square else 512, causal=causal, window=windowed)
    plan = seed.resolved(of)
    (tmp_path / "tiles.cpp").write_text(GEOMETRY.format(sections=seed.opening() + seed.section(seed.SOURCE, "Sizes", "Tiles")))
    defines = [f"-D{name}={value}" for name, value in plan.defines.items()]
    command = ["g++", "-std=c++17", "-O1", "-w", *defines, "-o", str(tmp_path / "tiles"), str(tmp_path / "tiles.cpp")]
    subprocess.run(command, check=True)
    shapes = [random_shape(chance, bool(square), causal=bool(causal), windowed=windowed) for _ in range(300)]
    lines = "\n".join(f"{shape.rows} {shape.keys} {shape.heads} {shape.window} {shape.section}" for shape in shapes)
    done = subprocess.run([tmp_path / "tiles"], input=lines, capture_output=True, text=True, check=True)
    for shape, line in zip(shapes, done.stdout.splitlines(), strict=True):
        tiles = np.array(line.split(), dtype=int).reshape(-1, 4)
        assert len({(head, block) for head, block, *_ in tiles}) == len(tiles) == shape.tiles
        for number, (head, block, first, last) in enumerate(tiles):
            assert (head, block) == protocol.tile_at(shape, number), shape
            assert (first, last) == needed(shape, block) == protocol.blocks_of(shape, block), shape


VARIANTS = [
    {"warpgroups": 2, "block_n": 128},
    {"warpgroups": 3, "block_m": 192},
    {"block_n": 160, "causal": False, "upwards": True},
    {"block_n": 80, "q_stages": 1},
    {"block_n": 64, "q_stages": 1, "stages": 1},
    {"block_n": 80, "q_stages": 1, "causal": False, "stages": 3},
    {"windowed": True},
    {"windowed": True, "q_stages": 1, "block_n": 80},
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_warpgroups_never_deadlock_and_visit_exactly_what_is_needed(variant: dict[str, Any], dynamic: bool) -> None:
    for number in range(30):
        chance = random.Random(number)
        shape = random_shape(chance, number % 3 == 0, **variant, grid=1)
        grid = chance.randint(1, min(4, shape.tiles))
        shape = random_shape(random.Random(number), number % 3 == 0, **variant, grid=grid)
        machines = protocol.run(shape, dynamic, number)
        found = {(key[1:], key[0]): blocks for at in machines for key, blocks in at.visits.items()}
        assert len(found) == sum(len(at.visits) for at in machines), "a tile was done twice"
        tiles = {(head, block) for head in range(shape.heads) for block in range(shape.query_blocks)}
        assert {key for key, _ in found} == tiles
        for (tile, _), blocks in found.items():
            first, last = needed(shape, tile[1])
            assert sorted(blocks) == list(range(first, last + 1)), (shape, tile)
            assert blocks == sorted(blocks, reverse=not shape.upwards)
        assert len(found) == len(tiles) * shape.warpgroups


def test_the_simulation_notices_a_loader_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def put(at: protocol.Machine, cursor: protocol.Cursor, what: object) -> Iterator[protocol.Wait]:
        yield lambda: True
        at.loads.append((cursor.ring, cursor.place, what))
        cursor.step()

    monkeypatch.setattr(protocol, "_put", put)
    with pytest.raises(AssertionError, match=r"overwritten|belongs|more arrivals"):
        protocol.run(random_shape(random.Random(1), True), False, 1)


def test_the_simulation_notices_buffers_that_are_never_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_free", lambda cursor, what: cursor.step())
    with pytest.raises(AssertionError, match="deadlock"):
        protocol.run(random_shape(random.Random(1), True), False, 1)
