"""The physical floor."""

from dataclasses import replace

import pytest

from evaluator.outcome import Device
from evaluator.roofline import Floor, Work, floor_us

GPU = Device(kind="cuda", name="a GPU", arch="sm_90a", cores=132, peak_tflops=1000, peak_gbs=4000)
CPU = replace(GPU, kind="cpu", peak_tflops=0.1, peak_gbs=50)


@pytest.mark.parametrize(
    ("work", "device", "dtype", "floor"),
    [
        (Work(flop=1e12, bytes=1e9), GPU, "bf16", Floor(us=1000.0, bound="flop")),
        (Work(flop=1e9, bytes=8e9), GPU, "bf16", Floor(us=2000.0, bound="bytes")),
        (Work(flop=1e8, bytes=1e6), CPU, "fp32", Floor(us=1000.0, bound="flop")),
        (Work(flop=1.6e9, bytes=1e6), CPU, "bf16", Floor(us=1000.0, bound="flop")),
    ],
)
def test_larger_of_arithmetic_and_traffic(work: Work, device: Device, dtype: str, floor: Floor) -> None:
    found = floor_us(work, device, dtype)
    assert found.us == pytest.approx(floor.us)
    assert found.bound == floor.bound


def test_device_without_peaks_is_refused() -> None:
    with pytest.raises(ValueError, match="has no peak figures"):
        floor_us(Work(flop=1, bytes=1), replace(GPU, peak_gbs=0), "bf16")
