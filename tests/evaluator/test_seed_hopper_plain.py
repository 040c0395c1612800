"""The plain Hopper seed: it builds and passes the gate wherever it claims to, and every choice of its knobs fits."""

import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest

from evaluator.cache import BuildCache
from evaluator.cuda.offline import DEVICE_FACTS, Gated, examine
from evaluator.outcome import Fault
from evaluator.screen import Screened, screen
from evaluator.task import load_task
from mutators.plan_text import Target, change
from population.candidate import Language

ARCH = "sm_90a"
STATIC_BYTES = 8 * (1 + 4 * 4)  # barriers of four places
TASK = load_task("attention_forward")
SOURCE = TASK.seeds(Language.CUDA)["hopper_plain"].read_text()


def screened(source: str, set_name: str = "fa3_36") -> Screened:
    card = TASK.card(set_name)
    found = screen(source, Language.CUDA, card, DEVICE_FACTS[ARCH], lambda scenario: TASK.scalars(scenario.symbols))
    assert isinstance(found, Screened), found
    return found


def turned(**values: int) -> str:
    """The seed with these knobs at these values for every head dimension."""
    source = SOURCE
    for knob in screened(SOURCE).knobs:
        for case in (None, *range(len(knob.cases))) if knob.name in values else ():
            changed = change(source, Target(name=knob.name, case=case), values[knob.name])
            assert changed is not None, (knob.name, case)
            source = changed
    return source


def clean(facts: Mapping[str, object]) -> bool:
    return facts["spill_bytes"] == 0 and "wgmma_serialized" not in facts


@pytest.fixture(scope="module")
def cache(cuda_cache: BuildCache) -> BuildCache:
    return cuda_cache


def test_it_builds_without_spills_or_serialised_products(cache: BuildCache) -> None:
    found = examine(SOURCE, TASK, "fa3_36", ARCH, cache)
    assert isinstance(found, Gated), found
    assert len(found.scenarios) == 36
    assert len(found.facts) == 3, "one build for each head dimension"
    assert all(clean(facts) for facts in found.facts), found.facts


def test_it_claims_both_types_and_grouped_heads_but_no_window_and_no_d96(cache: BuildCache) -> None:
    found = examine(SOURCE, TASK, "hopper_26", ARCH, cache)
    assert isinstance(found, Gated), found
    assert len(found.scenarios) == 22
    assert not [name for name in found.scenarios if "d96" in name or "window" in name]
    assert len(found.facts) == 5, "bf16 for three head dimensions, fp16 for two"
    assert all(clean(facts) for facts in found.facts), found.facts


def test_every_choice_of_knobs_fits_in_every_scenario() -> None:
    knobs = {knob.name: knob.choices for knob in screened(SOURCE).knobs}
    limit_bytes = DEVICE_FACTS[ARCH]["shared_limit"]
    rings = set()
    for rows, keys, stages in itertools.product(knobs["BLOCK_M"], knobs["BLOCK_N"], knobs["STAGES"]):
        found = screened(turned(BLOCK_M=rows, BLOCK_N=keys, STAGES=stages))
        for resolved in found.resolved:
            ring, dim = int(resolved.defines["RING"]), int(resolved.defines["HEAD_DIM"])
            (launch,) = resolved.launches
            assert 1 <= ring <= stages
            assert launch.shared_bytes == 1024 + 2 * rows * dim + ring * 4 * keys * dim
            assert launch.shared_bytes + STATIC_BYTES <= limit_bytes
            assert launch.block == (2 * rows + 128, 1, 1)
            rings.add(ring)
    assert rings == {1, 2, 3, 4}


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"BLOCK_M": 64, "BLOCK_N": 32, "STAGES": 4, "ORDER": 1},
        {"BLOCK_M": 64, "BLOCK_N": 128, "STAGES": 3, "ORDER": 2},
        {"BLOCK_M": 128, "BLOCK_N": 80, "STAGES": 1},
        {"BLOCK_M": 128, "BLOCK_N": 112, "STAGES": 3, "ORDER": 2},
        {"BLOCK_M": 128, "BLOCK_N": 128, "STAGES": 2, "ORDER": 1},
    ],
    ids=lambda values: "_".join(map(str, values.values())),
)
def test_the_corners_of_the_knobs_build_cleanly(values: dict[str, int], cache: BuildCache) -> None:
    found = examine(turned(**values), TASK, "fa3_36", ARCH, cache)
    assert isinstance(found, Gated), found
    assert all(clean(facts) for facts in found.facts), found.facts


def test_every_number_of_the_plan_can_be_turned_alone() -> None:
    for knob in screened(SOURCE).knobs:
        for case, choice in itertools.product((None, *range(len(knob.cases))), knob.choices):
            changed = change(SOURCE, Target(name=knob.name, case=case), choice)
            assert changed is not None, (knob.name, case, choice)
            screened(changed, "quick3")


@pytest.mark.parametrize(("name", "rows", "heads", "box_rows"), [("q_map", 256, 32, 128), ("k_map", 1024, 8, 64)])
def test_a_tile_is_loaded_as_chunks_of_64_columns(name: str, rows: int, heads: int, box_rows: int) -> None:
    """The kernel's coordinates are (d0, row, d1, head, batch), whatever order the plan could give them."""
    found = screened(SOURCE, "hopper_26")
    (place,) = (index for index, scenario in enumerate(found.scenarios) if "chunked" in scenario.name)
    symbols = found.scenarios[place].symbols
    (map_,) = (entry for entry in found.resolved[place].tensor_maps if entry.name == name)
    assert (map_.dims, map_.box) == ((64, rows, 2, heads, symbols["b"]), (64, box_rows, 2, 1, 1))
    assert map_.swizzle == "128B"


def test_it_is_refused_where_the_instructions_are_missing(tmp_path: Path) -> None:
    found = examine(SOURCE, TASK, "quick3", "sm_80", BuildCache(tmp_path))
    assert isinstance(found, Fault), found
