"""How steady a GPU is, in about a second: its clock idle and under load, a copy timed against itself, and a copy hot and cold.

Run as ``python -m evaluator.cuda.steadiness ORDINAL UUID``; prints JSON. It changes no setting.
"""

import json
import sys
import time
from statistics import median
from typing import Any

from evaluator.cuda.driver import api, attribute, call, use_device
from evaluator.cuda.monitor import SLOWDOWNS, STEADY, open_reader
from evaluator.cuda.stopwatch import Stopwatch

COPY_BYTES = 256 << 20
LOAD_S = 0.5
PAIRS = 40
L2_PARTS = 8  # source and target together take a quarter
COLD, HOT = 0, 1


def measure(ordinal: int, uuid: str) -> dict[str, Any]:
    """``idle_mhz``, ``load_mhz`` (None: not readable), ``throttle``, ``copy_gbs`` (read and written), ``noise_pct``, ``flush``.

    ``noise_pct``: how far the medians of two interleaved series of the same copy lie apart. ``flush``: how many times as long a
    copy that fits into the L2 cache takes after the stopwatch's flush as right after itself; near 1 the flush wouldn't work.
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
        "flush": cold_over_hot(ordinal, target, source),
    }


def cold_over_hot(ordinal: int, target: int, source: int) -> float:
    """Median time of a copy within a quarter of the L2 cache after a flush, over that of the same copy right after another."""
    count = attribute("L2_CACHE_SIZE", ordinal) // L2_PARTS
    watch = Stopwatch(2, ordinal)
    times_us: tuple[list[float], list[float]] = ([], [])
    for _ in range(PAIRS):
        watch.start(COLD, 0, capturing=False)
        call("cuMemcpyDtoDAsync", target, source, count, 0)
        watch.stop(COLD, 0, capturing=False)
        watch.start_hot(HOT, 0)
        call("cuMemcpyDtoDAsync", target, source, count, 0)
        watch.stop(HOT, 0, capturing=False)
        call("cuCtxSynchronize")
        for which in (COLD, HOT):
            times_us[which].append(watch.elapsed_us(which))
    watch.close()
    return median(times_us[COLD]) / median(times_us[HOT])


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
