"""Which keys a query row sees."""

import numpy as np
from numpy.typing import NDArray

from evaluator.baseline import Symbols


def visible(symbols: Symbols) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last visible key of each of the ``sq`` rows, both inclusive; last < first where a row sees none."""
    rows, keys, window = int(symbols["sq"]), int(symbols["sk"]), int(symbols["window"])
    edge = np.arange(rows, dtype=np.int64) + keys - rows
    last = edge if symbols["causal"] or window else np.full(rows, keys - 1, dtype=np.int64)
    first = np.maximum(edge - window, 0) if window else np.zeros(rows, dtype=np.int64)
    return first, last


def pairs(symbols: Symbols) -> int:
    """How many (query, key) pairs of one head are visible, by counting rows."""
    first, last = visible(symbols)
    return int(np.maximum(last - first + 1, 0).sum())
