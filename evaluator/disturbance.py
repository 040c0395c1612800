"""What else happened on the host while a block was timed."""

from collections.abc import Callable
from pathlib import Path

Pressure = Callable[[], int | None]
"""Microseconds for which something was kept waiting for the device, ever rising; None where the host doesn't tell."""


def cpu_pressure_us(path: Path = Path("/proc/pressure/cpu")) -> int | None:
    """Total time (us) in which at least one task of this host waited for a core, from the kernel's pressure stall counters."""
    try:
        first = path.read_text().splitlines()[0]
        return int(first.rpartition("total=")[2])
    except (OSError, IndexError, ValueError):
        return None
