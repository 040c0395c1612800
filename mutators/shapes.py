"""Facts that follow from an attention scenario's shape and the tile sizes alone; nothing measured, no tensors."""

from collections.abc import Mapping

from evaluator.task_card import SymbolValue
from mutators.question import FactValue

ELEMENT_BYTES: Mapping[str, int] = {"fp32": 4, "bf16": 2, "fp16": 2}
NEEDED = frozenset({"b", "sq", "sk", "h", "hkv", "d"})
MAX_TILES = 4096


def shape_facts(symbols: Mapping[str, SymbolValue], query_tile: int | None, key_tile: int | None) -> dict[str, FactValue]:
    """Work, sharing, bytes and tiles of one scenario; empty where the symbols aren't those of attention.

    A causal mask is bottom-right; ``window`` W > 0 lets a query see W + 1 keys (design of the task's card).
    """
    size = {name: value for name, value in symbols.items() if isinstance(value, int)}
    if not size.keys() >= NEEDED or min(size[name] for name in NEEDED) < 1:
        return {}
    rows, keys, width = size["sq"], size["sk"], size["d"]
    causal, window = bool(size.get("causal", 0)), size.get("window", 0)
    pairs = sum(last - first for first, last in (_seen(row, rows, keys, causal, window) for row in range(rows)))
    element_bytes = ELEMENT_BYTES.get(str(symbols.get("dtype")))
    flop = 4 * size["b"] * size["h"] * width * pairs
    facts: dict[str, FactValue] = {
        "group": size["h"] // size["hkv"],
        "shared_rows": rows * (size["h"] // size["hkv"]),
        "flop_per_exp": 4 * width,
        "exps": size["b"] * size["h"] * pairs,
        "gflop": flop / 1e9,
        "masked_pct": 100 * (1 - pairs / (rows * keys)),
    }
    if element_bytes is not None:
        facts["kv_kib"] = 2 * keys * width * element_bytes / 1024
        facts["kv_mib"] = size["b"] * size["hkv"] * 2 * keys * width * element_bytes / 2**20
        moved = 2 * size["b"] * width * (rows * size["h"] + keys * size["hkv"]) * element_bytes
        facts["flop_per_byte"] = flop / moved
    facts |= _tiles(size, query_tile, key_tile, pairs)
    if query_tile and key_tile:
        facts["score_tile_kib"] = query_tile * key_tile * 4 / 1024
    if key_tile and element_bytes is not None:
        facts["kv_tile_kib"] = 2 * key_tile * width * element_bytes / 1024
    return facts


def _tiles(size: Mapping[str, int], query_tile: int | None, key_tile: int | None, pairs: int) -> dict[str, FactValue]:
    rows, keys = size["sq"], size["sk"]
    facts: dict[str, FactValue] = {}
    if key_tile:
        facts["kv_tiles"] = -(-keys // key_tile)
        facts["last_key_tile"] = keys % key_tile or key_tile
    if query_tile:
        facts["q_tiles"] = -(-rows // query_tile)
        facts["row_fill_pct"] = 100 * rows / (-(-rows // query_tile) * query_tile)
        facts["tasks"] = size["b"] * size["h"] * -(-rows // query_tile)
    if query_tile and key_tile and -(-rows // query_tile) <= MAX_TILES:
        causal, window = bool(size.get("causal", 0)), size.get("window", 0)
        visited = 0
        for top in range(0, rows, query_tile):
            bottom = min(top + query_tile, rows) - 1
            first = _seen(top, rows, keys, causal, window)[0]
            last = _seen(bottom, rows, keys, causal, window)[1]
            if last > first:
                visited += -(-last // key_tile) - first // key_tile
        computed = visited * query_tile * key_tile
        if computed:
            facts["tile_waste_pct"] = 100 * (1 - pairs / computed)
    return facts


def _seen(row: int, rows: int, keys: int, causal: bool, window: int) -> tuple[int, int]:
    """First key and one past the last key that a query row sees."""
    diagonal = row + keys - rows
    last = min(keys, diagonal + 1) if causal or window else keys
    first = max(0, diagonal - window) if window else 0
    return min(first, max(last, 0)), max(last, 0)
