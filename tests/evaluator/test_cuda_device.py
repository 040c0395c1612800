"""What is said about a GPU, from figures of data sheets."""

from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.cuda.device import Gpu, NoGpuError, describe_device, driver_version, find_gpu
from evaluator.cuda.gate import SHARED_LIMIT_KIB
from evaluator.cuda.offline import DEVICE_FACTS

ABLE = {"virtual_memory": True, "shared_files": True, "read_only": True, "ipc": True}
H200 = Gpu(
    ordinal=0,
    uuid="GPU-0",
    name="NVIDIA H200",
    capability=90,
    sm_count=132,
    shared_bytes=232_448,
    memory_bytes=150 << 30,
    clock_khz=1_980_000,
    memory_clock_khz=3_201_000,
    bus_bits=6016,
    driver_api="13.0",
)


def test_the_peaks_are_ceilings_of_the_data_sheet() -> None:
    assert 989 <= H200.peak_tflops <= 1.1 * 989
    assert 4800 <= H200.peak_gbs <= 1.02 * 4800


@pytest.mark.parametrize(
    ("capability", "sm_count", "clock_khz", "tflops"),
    [(80, 108, 1_410_000, 311), (89, 142, 2_520_000, 362), (100, 148, 1_965_000, 2250), (120, 188, 2_617_000, 503)],
)
def test_other_devices_reach_their_data_sheets_too(capability: int, sm_count: int, clock_khz: int, tflops: float) -> None:
    device = replace(H200, capability=capability, sm_count=sm_count, clock_khz=clock_khz)
    assert tflops <= device.peak_tflops <= 1.15 * tflops


def test_a_device_that_tells_no_clocks_gets_generous_peaks() -> None:
    unknown = replace(H200, capability=130, clock_khz=0, memory_clock_khz=0)
    assert unknown.peak_tflops > 2000
    assert unknown.peak_gbs == 10_000


def test_the_architecture_is_one_that_candidates_are_built_for() -> None:
    found = {replace(H200, capability=capability).arch for capability in SHARED_LIMIT_KIB}
    assert set(DEVICE_FACTS) <= found
    assert "sm_86" in found
    assert H200.facts == DEVICE_FACTS["sm_90a"]


def test_what_this_host_cannot_enforce_is_named() -> None:
    able = describe_device(H200, ABLE, watched=True)
    assert (able.kind, able.cores, able.arch) == ("cuda", 132, "sm_90a")
    assert {"driver", "CUDA driver API", "nvrtc", "torch"} <= set(able.versions)
    unable = describe_device(H200, dict.fromkeys(ABLE, False), watched=False)
    more = " ".join(set(unable.limits) - set(able.limits))
    for what in ("unmapped pages", "read-only inputs", "nvidia-ml-py"):
        assert what in more


def test_the_driver_of_either_kind_of_module_is_read(tmp_path: Path) -> None:
    for text in (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc 12",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder)\n",
    ):
        (tmp_path / "version").write_text(text)
        assert driver_version(tmp_path / "version") in ("535.183.01", "580.159.04")
    assert driver_version(tmp_path / "absent") == "unknown"


def test_a_gpu_that_is_not_there_is_named_in_one_line() -> None:
    with pytest.raises(NoGpuError, match=r"^[^\n]+$"):
        find_gpu(10_000)
