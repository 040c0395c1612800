"""Readings of a GPU, with a driver of the test's own."""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluator.backend import Lease
from evaluator.cuda.lease import Usage, gpu_lease
from evaluator.cuda.monitor import Monitor, NvmlReader, Reading
from evaluator.harness import Harness
from evaluator.outcome import Verdict
from evaluator.request import Request
from tests.evaluator.fake_backend import FakeBackend, candidate
from tests.evaluator.tiny_harness import QUICK, seeded, tiny

POWER_CAP, THERMAL = 0x04, 0x20


class FakeNvml:
    """The calls that a reader makes. ``pids`` are on the GPU, ``busy`` of them compute."""

    NVML_CLOCK_SM = 1
    NVMLError = LookupError

    def __init__(self, pids: list[int], busy: tuple[int, ...] = (), reasons: int = 0) -> None:
        self.pids, self.busy, self.reasons = pids, busy, reasons
        self.asked_since: list[int] = []

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:  # noqa: N802
        assert (handle, kind) == ("handle", self.NVML_CLOCK_SM)
        return 1755

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:  # noqa: N802
        return self.reasons

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=pid) for pid in self.pids]

    def nvmlDeviceGetProcessUtilization(self, handle: str, since_us: int) -> list[SimpleNamespace]:  # noqa: N802
        self.asked_since.append(since_us)
        if not self.busy:
            raise self.NVMLError
        return [SimpleNamespace(pid=pid, smUtil=40, timeStamp=1000 + pid) for pid in self.busy]


def processes(folder: Path, parents: dict[int, int]) -> Path:
    """A /proc with these processes and their parents."""
    for pid, parent in parents.items():
        (folder / str(pid)).mkdir()
        (folder / str(pid) / "stat").write_text(f"{pid} (odd) name) S {parent} 1 1")
    return folder


def test_descendants_are_ours_and_everybody_else_is_not(tmp_path: Path) -> None:
    proc = processes(tmp_path, {10: 1, 11: 10, 12: 11, 20: 1, 21: 20})
    reading = NvmlReader(FakeNvml([10, 12, 21]), "handle", root=10, proc=proc)()
    assert reading == Reading(sm_clock_mhz=1755, reasons=0, others=(21,))
    assert not reading.disturbed


def test_a_process_that_has_just_ended_is_nobody(tmp_path: Path) -> None:
    reading = NvmlReader(FakeNvml([10, 99]), "handle", root=10, proc=processes(tmp_path, {10: 1}))()
    assert reading is not None
    assert reading.others == ()


def test_where_not_even_we_are_listed_others_are_not_guessed(tmp_path: Path) -> None:
    reading = NvmlReader(FakeNvml([4, 5]), "handle", root=10, proc=processes(tmp_path, {10: 1}))()
    assert reading is not None
    assert reading.others is None


def test_another_process_disturbs_only_while_it_computes(tmp_path: Path) -> None:
    nvml = FakeNvml([10, 20], busy=(20,))
    read = NvmlReader(nvml, "handle", root=10, proc=processes(tmp_path, {10: 1, 20: 1}))
    first = read()
    assert first is not None
    assert first.disturbed
    nvml.busy = ()
    second = read()
    assert second is not None
    assert not second.disturbed
    assert nvml.asked_since == [0, 1020]


def test_a_driver_that_does_not_tell(tmp_path: Path) -> None:
    def refuse(handle: str, kind: int) -> int:
        raise FakeNvml.NVMLError

    nvml = FakeNvml([os.getpid()])
    nvml.nvmlDeviceGetClockInfo = refuse  # type: ignore[method-assign]
    assert NvmlReader(nvml, "handle")() is None
    assert Monitor(NvmlReader(nvml, "handle")).pressure_us() is None


def reading(clock_mhz: int = 1700, reasons: int = 0, others: tuple[int, ...] | None = ()) -> Reading:
    return Reading(sm_clock_mhz=clock_mhz, reasons=reasons, others=others)


def monitor(*readings: Reading) -> Monitor:
    """A monitor that sees these, one second apart."""
    times = itertools.count()
    seen = iter(readings)
    return Monitor(lambda: next(seen), lambda: float(next(times)))


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ([0, 0, 0], [0, 0, 0]),
        ([POWER_CAP, POWER_CAP, POWER_CAP], [0, 0, 0]),
        ([0, THERMAL, 0, 0], [0, 1_000_000, 2_000_000, 2_000_000]),
    ],
)
def test_time_beside_a_slowdown_counts_and_time_under_the_power_cap_does_not(reasons: list[int], expected: list[int]) -> None:
    found = monitor(*(reading(reasons=one) for one in reasons))
    assert [found.pressure_us() for _ in reasons] == expected


def test_facts_of_a_lease() -> None:
    found = monitor(reading(1980, others=None), reading(1500, POWER_CAP, (5, 6)), reading(1700, THERMAL), reading(1690))
    for _ in range(4):
        found.pressure_us()
    assert found.facts() == {
        "sm_clock_mhz": 1695,
        "sm_clock_least_mhz": 1500,
        "throttle": "power cap, software thermal slowdown",
        "other_processes": 2,
    }
    found.forget()
    assert found.facts() == {}


@pytest.mark.parametrize("read", [None, lambda: None], ids=["no NVML", "no reading"])
def test_nothing_is_watched_where_nothing_can_be_read(read: Callable[[], None] | None) -> None:
    found = Monitor(read)
    assert found.pressure_us() is None
    assert found.facts() == {}


def test_notes_say_what_began_when_and_how_often() -> None:
    readings = [reading(), reading(reasons=THERMAL), replace(reading(reasons=THERMAL | POWER_CAP), others_busy=True), reading()]
    times = iter([10.0, 11.0, 12.5, 14.0, 15.0])
    seen = iter(readings)
    found = Monitor(lambda: next(seen), lambda: next(times))
    found.forget()
    for _ in readings:
        found.pressure_us()
    thermal, other = found.notes()
    assert thermal.startswith("software thermal slowdown: first 2.5 s into the lease, in 2 of 4 readings")
    assert other.startswith("another process computing on this GPU: first 4.0 s into the lease, in 1 of 4 readings")


def test_a_slowdown_that_lasts_is_there_from_the_first_reading_on() -> None:
    found = monitor(reading(reasons=THERMAL), reading(reasons=THERMAL))
    for _ in range(2):
        found.pressure_us()
    assert "from the first reading on, in 2 of 2 readings" in found.notes()[0]


def test_a_slowdown_that_begins_within_a_race_costs_blocks_and_reaches_the_outcome(tmp_path: Path) -> None:
    """The clock falls in the middle of the candidate's second race, for as long as about three blocks take."""
    backend = FakeBackend()

    def read() -> Reading:
        raced_s = backend.clock.now_s - 0.025
        return reading(reasons=THERMAL if 0.0 < raced_s < 0.0025 else 0)

    watching = Monitor(read, backend.clock)

    @contextmanager
    def lease(purpose: str) -> Iterator[Lease]:
        with gpu_lease(tmp_path / "gpu.lock", 1.0, purpose, Usage(watching, backend.clock)) as held:
            backend.held = True
            yield held
            backend.held = False

    backend.lease = lease  # type: ignore[method-assign]
    judge = Harness(tiny(), "three", backend, QUICK, backend.clock, seeded(7), pressure=watching.pressure_us, lock=tmp_path / "l")
    found = judge.evaluate(Request(candidate=candidate("one")))
    assert found.verdict is Verdict.OK
    assert found.facts["throttle"] == "software thermal slowdown"
    assert [timing.dropped > 0 for timing in found.timings] == [False, True, False]
    slowdown, dropped = found.notes
    assert slowdown.startswith("software thermal slowdown: first 0.0 s into the lease")
    assert "blocks were dropped as disturbed in 1 of 3 races, most in n8 against peer" in dropped
