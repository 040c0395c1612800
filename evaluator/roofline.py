"""The physical floor of an execution: no kernel is faster than its arithmetic or its traffic allows."""

from dataclasses import dataclass

from evaluator.dtypes import element_type
from evaluator.outcome import Device

CPU_MATRIX_UNIT_SPEEDUP = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The least that one execution must do: floating-point operations, and bytes moved when each tensor moves once."""

    flop: float
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The shortest possible time of one execution in microseconds, and which limit rules: "flop" or "bytes"."""

    us: float
    bound: str


def floor_us(work: Work, device: Device, dtype: str) -> Floor:
    """The larger of FLOP over peak and bytes over bandwidth (roofline model, Williams et al. 2009).

    ``device.peak_tflops`` is the peak for 16-bit elements on "cuda" devices and for float32 on "cpu" ones, ``peak_gbs`` the
    bandwidth of the nearest memory that holds data between executions (on "cpu" the cache, as nothing flushes it). Matrix
    units of CPUs compute 16-bit elements up to 16 times as fast as float32 (AMX), and fp32 on "cuda" is judged against the
    16-bit peak: too low a floor is safe, too high a one would call an honest kernel a cheat. ValueError without peaks.
    """
    if device.peak_tflops <= 0 or device.peak_gbs <= 0:
        raise ValueError(f"device {device.name!r} has no peak figures: {device.peak_tflops} TFLOP/s, {device.peak_gbs} GB/s")
    speedup = CPU_MATRIX_UNIT_SPEEDUP if device.kind == "cpu" and element_type(dtype).bytes == 2 else 1
    flop_us = work.flop / (speedup * device.peak_tflops * 1e6)
    bytes_us = work.bytes / (device.peak_gbs * 1e3)
    return Floor(us=max(flop_us, bytes_us), bound="flop" if flop_us >= bytes_us else "bytes")
