"""How steady a GPU is, in about a second: its clock idle and under load, and a copy timed against itself.

Run as ``python -m evaluator.cuda.steadiness ORDINAL UUID``; prints JSON. It changes no setting.
"""

import json
import sys
import time
from statistics import median
from typing import Any

from evaluator.cuda.driver import api, call, use_device
from evaluator.cuda.monitor import SLOWDOWNS, STEADY, open_reader

COPY_BYTES = 256 << 20
LOAD_S = 0.5
PAIRS = 40


def measure(ordinal: int, uuid: str) -> dict[str, Any]:
    """``idle_mhz``, ``load_mhz`` (None: not readable), ``throttle``, ``copy_gbs`` (read and written) and ``noise_pct``.

    ``noise_pct``: how far the medians of two interleaved series of the same copy lie apart.
    """
    read = open_reader(uuid)
    idle = read() if read is not None else None
    use_device(ordinal)
    source, target = (int(call("cuMemAlloc", COPY_BYTES)) for _ in range(2))
    call("cuMemsetD32", source, 1, COPY_BYTES // 4)
    started = time.monotonic()
    while time.monotonic() - started < LOAD_S:
        _copy_us(target, source)
    series: tuple[list[float], list[float]] = ([], [])
    for pair in range(PAIRS):
        for which in (0, 1) if pair % 2 else (1, 0):
            series[which].append(_copy_us(target, source))
    call("cuMemcpyDtoDAsync", target, source, COPY_BYTES, 0)
    load = read() if read is not None else None
    call("cuCtxSynchronize")
    one_us, other_us = median(series[0]), median(series[1])
    return {
        "idle_mhz": None if idle is None else idle.sm_clock_mhz,
        "load_mhz": None if load is None else load.sm_clock_mhz,
        "throttle": [] if load is None else [name for bit, name in {**STEADY, **SLOWDOWNS}.items() if load.reasons & bit],
        "copy_gbs": 2 * COPY_BYTES / one_us * 1e-3,
        "noise_pct": 100 * abs(one_us / other_us - 1),
    }


def _copy_us(target: int, source: int) -> float:
    """Device time of one copy."""
    flags = api.CUevent_flags.CU_EVENT_DEFAULT
    first, last = call("cuEventCreate", flags), call("cuEventCreate", flags)
    call("cuEventRecord", first, 0)
    call("cuMemcpyDtoDAsync", target, source, COPY_BYTES, 0)
    call("cuEventRecord", last, 0)
    call("cuEventSynchronize", last)
    took_us = 1000 * float(call("cuEventElapsedTime", first, last))
    for event in (first, last):
        call("cuEventDestroy", event)
    return took_us


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), sys.argv[2])))
