"""Facts about a GPU's units that follow from shape, tile sizes and compiled kernel: cycles, registers, waves."""

import math
from collections.abc import Mapping

from mutators.question import FactValue

EXPONENTIALS_PER_CYCLE = 16
"""Results a cycle of one multiprocessor's special function units (CUDA programming guide, table of arithmetic throughput)."""

MATRIX_FLOP_PER_CYCLE: Mapping[str, int] = {"sm_80": 2048, "sm_90": 4096, "sm_90a": 4096}
"""Dense bf16 or fp16 FLOP a cycle of one multiprocessor's tensor cores with float32 sums (NVIDIA's papers on A100 and H100)."""

WARPGROUP_THREADS = 128
WARPGROUP_ROWS = 64
"""Rows of a wgmma instruction, whose accumulator of 64 x n float32 lies spread over the 128 threads of a warpgroup (PTX ISA)."""


def gpu_facts(facts: Mapping[str, FactValue]) -> dict[str, FactValue]:
    """Cycles of a tile on both units, registers of the accumulators, and the last wave; what isn't known is absent.

    ``exp_cycles`` and ``mma_cycles`` are the least that one multiprocessor needs for a tile of ``query_tile`` x ``key_tile``
    scores; 16-bit types on architectures whose rates are in the table above.
    """
    found: dict[str, FactValue] = {}
    width, keys, rows = (_whole(facts, name) for name in ("d", "key_tile", "query_tile"))
    rate = MATRIX_FLOP_PER_CYCLE.get(str(facts.get("arch")))
    if width and keys and rows and rate and facts.get("dtype") in ("bf16", "fp16"):
        found["exp_cycles"] = rows * keys / EXPONENTIALS_PER_CYCLE
        found["mma_cycles"] = 4 * width * rows * keys / rate
    if width and keys and facts.get("uses_wgmma"):
        found["accumulator_registers"] = WARPGROUP_ROWS * (width + keys) // WARPGROUP_THREADS
    waves = facts.get("waves")
    if isinstance(waves, float) and waves > 0:
        found["last_wave_pct"] = 100 * (1 - (math.ceil(waves) - waves))
    return found


def _whole(facts: Mapping[str, FactValue], name: str) -> int:
    value = facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
