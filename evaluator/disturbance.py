"""What else happened on the host while a block was timed. A GPU's part is ``evaluator.cuda.monitor``."""

import time
from collections.abc import Callable
from pathlib import Path

NAP_S = 0.005
IDLE_SHARE = 0.2

Pressure = Callable[[], int | None]
"""Microseconds for which something outside kept or slowed the device, ever rising; None where the host doesn't tell."""


def cpu_pressure_us(path: Path = Path("/proc/pressure/cpu")) -> int | None:
    """Total time (us) in which at least one task of this host waited for a core, from the kernel's pressure stall counters."""
    try:
        first = path.read_text().splitlines()[0]
        return int(first.rpartition("total=")[2])
    except (OSError, IndexError, ValueError):
        return None


def settle(
    own_cpu_s: Callable[[], float] = time.process_time,
    sleep: Callable[[float], None] = time.sleep,
    most_naps: int = 100,
) -> bool:
    """Wait until this process itself is idle, so that its own threads don't disturb what it times; False where they never rest.

    Thread pools of BLAS and OpenMP spin for tens of milliseconds after a call. ``own_cpu_s`` is CPU time of all threads (s).
    """
    for _ in range(most_naps):
        before_s = own_cpu_s()
        sleep(NAP_S)
        if own_cpu_s() - before_s < IDLE_SHARE * NAP_S:
            return True
    return False
