"""Occupancy agrees with NVIDIA's own ``cuda_occupancy.h``, compiled here, and with figures from the programming guide."""

import itertools
import random
import subprocess
from pathlib import Path

import pytest

from evaluator.cuda.occupancy import MULTIPROCESSORS, Demand, occupancy
from evaluator.cuda.toolkit import find_toolkit

PROGRAM = """
#include <cstdio>
#include <climits>
#include <cstring>
#include <cuda_occupancy.h>
int main() {
    int arch, registers, threads, barriers, most_threads; unsigned long long fixed, dynamic, room;
    while (scanf("%d %d %llu %llu %d %d %d %llu", &arch, &registers, &fixed, &dynamic, &threads, &barriers, &most_threads,
                 &room) == 8) {
        cudaOccDeviceProp device; cudaOccFuncAttributes kernel; cudaOccDeviceState state; cudaOccResult result;
        device.computeMajor = arch / 10; device.computeMinor = arch % 10; device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = most_threads; device.regsPerBlock = device.regsPerMultiprocessor = 65536;
        device.warpSize = 32; device.sharedMemPerBlock = 48 << 10; device.sharedMemPerMultiprocessor = room; device.numSms = 100;
        device.sharedMemPerBlockOptin = room - 1024; device.reservedSharedMemPerBlock = 1024;
        kernel.maxThreadsPerBlock = 1024; kernel.numRegs = registers; kernel.sharedSizeBytes = fixed;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; kernel.maxDynamicSharedSizeBytes = dynamic;
        kernel.numBlockBarriers = barriers;
        state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
        int error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, dynamic);
        printf("%d\\n", error ? -1 : result.activeBlocksPerMultiprocessor);
    }
}
"""


def cases() -> list[tuple[int, Demand, int]]:
    """(architecture, demand, static part of its shared memory)."""
    draw = random.Random(5)
    found = []
    for arch in MULTIPROCESSORS:
        most = MULTIPROCESSORS[arch].shared_bytes - 1024
        for registers, threads in itertools.product((16, 33, 64, 97, 128, 168, 255), (32, 96, 128, 160, 384, 512, 992, 1024)):
            shared = draw.choice([0, draw.randrange(4096), draw.randrange(most), most])
            fixed = min(shared, draw.randrange(40960))
            demand = Demand(registers=registers, shared_bytes=shared, threads=threads, barriers=draw.choice([0, 1, 5, 16]))
            found.append((arch, demand, fixed))
    return found


def test_the_same_as_nvidias_calculator(tmp_path: Path) -> None:
    toolkit = find_toolkit()
    assert toolkit is not None
    (tmp_path / "calculator.cpp").write_text(PROGRAM)
    include = [f"-I{folder}" for folder in toolkit.includes]
    subprocess.run(["g++", *include, "-o", tmp_path / "calculator", tmp_path / "calculator.cpp"], check=True)
    lines = []
    for arch, demand, fixed in cases():
        room = MULTIPROCESSORS[arch]
        sizes = (demand.registers, fixed, demand.shared_bytes - fixed, demand.threads, demand.barriers, room.threads)
        lines.append(" ".join(map(str, (arch, *sizes, room.shared_bytes))))
    done = subprocess.run([tmp_path / "calculator"], input="\n".join(lines), capture_output=True, text=True, check=True)
    wanted = [int(line) for line in done.stdout.split()]
    found = [occupancy(f"sm_{arch}", demand) for arch, demand, _ in cases()]
    assert [item.blocks for item in found if item] == wanted
    assert len(set(wanted)) > 10


@pytest.mark.parametrize(
    ("arch", "demand", "blocks", "limit"),
    [
        ("sm_90a", Demand(registers=168, shared_bytes=200_000, threads=384), 1, "registers, shared memory"),
        ("sm_90a", Demand(registers=128, shared_bytes=1024, threads=128), 4, "registers"),
        ("sm_80", Demand(registers=32, shared_bytes=0, threads=1024), 2, "registers, threads"),
        ("sm_89", Demand(registers=16, shared_bytes=0, threads=32), 24, "blocks"),
        ("sm_120a", Demand(registers=32, shared_bytes=40_000, threads=128), 2, "shared memory"),
        ("sm_90a", Demand(registers=16, shared_bytes=0, threads=64, barriers=16), 4, "barriers"),
        ("sm_90a", Demand(registers=96, shared_bytes=0, threads=1024), 0, "registers"),
    ],
)
def test_what_limits_it(arch: str, demand: Demand, blocks: int, limit: str) -> None:
    found = occupancy(arch, demand)
    assert found is not None
    assert (found.blocks, found.limit) == (blocks, limit)
    assert found.warps == blocks * -(-demand.threads // 32)


def test_an_unknown_architecture_has_no_occupancy() -> None:
    assert occupancy("x86-64", Demand(registers=32, shared_bytes=0, threads=128)) is None
