"""What a GPU is doing while it is timed: its clock, why the clock is held down, and who else uses it. Reads only, by NVML."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

SLOWDOWNS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Clock event reasons that disturb a race (NVML API reference, "Clocks Event Reasons")."""
STEADY = {0x04: "power cap"}
"""A reason that is the steady state of long kernels: both sides of a race run under it."""
MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at a GPU. ``reasons`` is NVML's bit mask; ``others`` are processes on the GPU that aren't ours (None: they can't
    be told from ours here), ``others_busy`` whether they computed lately.
    """

    sm_clock_mhz: int
    reasons: int
    others: tuple[int, ...] | None
    others_busy: bool = False

    @property
    def disturbed(self) -> bool:
        """Whether a time taken now would be held against the wrong side."""
        return self.others_busy or bool(self.reasons & sum(SLOWDOWNS))


@dataclass(slots=True)
class NvmlReader:
    """Readings of one GPU. ``nvml`` is the module ``pynvml``, initialised; ``root`` the process whose descendants are ours."""

    nvml: Any
    handle: Any
    root: int = field(default_factory=os.getpid)
    proc: Path = Path("/proc")
    _since_us: int = 0

    def __call__(self) -> Reading | None:
        """What the GPU does now; None where the driver doesn't tell."""
        try:
            clock_mhz = int(self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM))
            reasons = int(self.nvml.nvmlDeviceGetCurrentClocksEventReasons(self.handle))
        except self.nvml.NVMLError:
            return None
        others = self._others()
        busy = others is not None and bool(others) and self._busy(others)
        return Reading(sm_clock_mhz=clock_mhz, reasons=reasons, others=others, others_busy=busy)

    def _others(self) -> tuple[int, ...] | None:
        """Processes that aren't ours; None where NVML counts processes in another namespace, so that not even we are listed."""
        try:
            pids = [int(process.pid) for process in self.nvml.nvmlDeviceGetComputeRunningProcesses(self.handle)]
        except self.nvml.NVMLError:
            return None
        return tuple(pid for pid in pids if not self._is_ours(pid)) if self.root in pids else None

    def _is_ours(self, pid: int) -> bool:
        """Whether ``pid`` is the root, below it, or has just ended."""
        while pid > 1:
            if pid == self.root:
                return True
            try:
                pid = int((self.proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                return True
        return False

    def _busy(self, others: Sequence[int]) -> bool:
        try:
            samples = self.nvml.nvmlDeviceGetProcessUtilization(self.handle, self._since_us)
        except self.nvml.NVMLError:  # nothing computed since, or the driver doesn't tell
            return False
        self._since_us = max([self._since_us, *(int(sample.timeStamp) for sample in samples)])
        return any(sample.smUtil > 0 and sample.pid in others for sample in samples)


Reader = Callable[[], Reading | None]


def open_reader(uuid: str) -> Reader | None:
    """A reader of the GPU with that UUID; None without NVML or its Python binding."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        return NvmlReader(pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid))
    except pynvml.NVMLError:
        return None


@dataclass(slots=True)
class Monitor:
    """Keeps the readings of a lease. ``read`` None: nothing can be read here."""

    read: Reader | None
    clock: Callable[[], float] = time.monotonic
    _readings: list[Reading] = field(default_factory=list)
    _times_s: list[float] = field(default_factory=list)
    _began_s: float = 0.0
    _disturbed_us: float = 0.0
    _last_s: float = 0.0
    _was_disturbed: bool = False

    def pressure_us(self) -> int | None:
        """Implements ``evaluator.disturbance.Pressure``: all time between two readings counts if either shows a disturbance."""
        reading = None if self.read is None else self.read()
        if reading is None:
            return None
        now_s = self.clock()
        if reading.disturbed or self._was_disturbed:
            self._disturbed_us += (now_s - self._last_s) * MICROSECONDS
        self._last_s, self._was_disturbed = now_s, reading.disturbed
        self._readings.append(reading)
        self._times_s.append(now_s)
        return int(self._disturbed_us)

    def forget(self) -> None:
        """Begin a new lease."""
        self._readings.clear()
        self._times_s.clear()
        self._began_s = self.clock()

    def facts(self) -> dict[str, int | float | str | bool]:
        """SM clock (MHz) and slowdowns over the readings of this lease; ``other_processes`` is the most seen at once."""
        if not self._readings:
            return {}
        clocks = [reading.sm_clock_mhz for reading in self._readings]
        seen = [name for bit, name in {**STEADY, **SLOWDOWNS}.items() if any(one.reasons & bit for one in self._readings)]
        facts: dict[str, int | float | str | bool] = {
            "sm_clock_mhz": int(median(clocks)),
            "sm_clock_least_mhz": min(clocks),
            "throttle": ", ".join(seen) or "none",
        }
        told = [len(reading.others) for reading in self._readings if reading.others is not None]
        return facts | ({"other_processes": max(told)} if told else {})

    def notes(self) -> tuple[str, ...]:
        """One sentence for each slowdown of this lease and for others that computed: since when, and in how many readings."""
        seen = {name: [bool(one.reasons & bit) for one in self._readings] for bit, name in SLOWDOWNS.items()}
        seen["another process computing on this GPU"] = [one.others_busy for one in self._readings]
        return tuple(self._sentence(what, flags) for what, flags in seen.items() if any(flags))

    def _sentence(self, what: str, flags: Sequence[bool]) -> str:
        since_s = self._times_s[flags.index(True)] - self._began_s
        first = "from the first reading on" if flags[0] else f"first {since_s:.1f} s into the lease"
        return f"{what}: {first}, in {sum(flags)} of {len(flags)} readings; blocks beside it are dropped as far as allowed"
