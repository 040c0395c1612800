"""Leases of a GPU that isn't there: who holds it, what it used, and what a quarantine does."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from evaluator.backend import Array, Ran
from evaluator.cuda.lease import GpuQuarantinedError, Quarantine, Usage, gpu_lease, lease_path
from evaluator.cuda.monitor import Monitor
from evaluator.locks import LockTimeoutError
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.seen_side import SeenSide

HOLDER = """
import sys
from pathlib import Path
from evaluator.cuda.lease import Usage, gpu_lease
from evaluator.cuda.monitor import Monitor
import time
with gpu_lease(Path(sys.argv[1]), 1.0, "evaluating somebody else", Usage(Monitor(None), time.monotonic)):
    print("held", flush=True)
    sys.stdin.read()
"""


class Clock:
    """Seconds that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class TimedSide:
    """A side that takes 250 us an execution and fails in slot 1."""

    slots = 2
    facts = MappingProxyType({"scale.registers": 32, "graph_replays": True})

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        self.filled = (slot, poison)

    def run(self, slots: Sequence[int], deadline_s: float) -> Ran | Fault:
        failed = Fault(verdict=Verdict.CRASH, stage=Stage.TIME, message="slot 1")
        return failed if 1 in slots else Ran(elapsed_us=250.0 * len(slots))

    def read(self, slot: int) -> Mapping[str, Array]:
        return {"y": np.full(1, slot, np.float32)}

    def audit(self) -> Fault | None:
        return None

    def close(self) -> None:
        self.closed = True


def usage(clock: Clock) -> Usage:
    return Usage(Monitor(None, clock), clock)


def test_each_gpu_has_a_lock_of_its_own(tmp_path: Path) -> None:
    one, other = lease_path("GPU-1", tmp_path), lease_path("GPU-2", tmp_path)
    with gpu_lease(one, 0.1, "one", usage(Clock())), gpu_lease(other, 0.1, "other", usage(Clock())):
        assert one.exists()
        assert other.exists()


def test_who_waits_too_long_learns_who_holds_it(tmp_path: Path) -> None:
    lock = lease_path("GPU-1", tmp_path)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    waiting = Usage(Monitor(None), time.monotonic)
    with (
        pytest.raises(LockTimeoutError, match=f"process {holder.pid}, evaluating somebody else"),
        gpu_lease(lock, 0.05, "me", waiting),
    ):
        pass
    holder.communicate()
    with gpu_lease(lock, 5.0, "me", waiting) as lease:
        assert "lease_s" in lease.facts()


def test_a_lease_tells_what_it_used_and_forgets_the_one_before(tmp_path: Path) -> None:
    clock = Clock()
    used = usage(clock)
    lock = lease_path("GPU-1", tmp_path)
    with gpu_lease(lock, 0.1, "first", used) as lease:
        side = SeenSide(TimedSide(), used.count)
        assert isinstance(side.run([0, 0], 1.0), Ran)
        assert isinstance(side.run([1], 1.0), Fault)
        used.chose("fa3", "n1000", "one split")
        used.chose("fa3", "n2000", "heuristic")
        clock.now_s = 2.5
        assert lease.facts() == {
            "lease_s": 2.5,
            "gpu_busy_s": 0.0005,
            "fa3_variants": "n1000: one split; n2000: heuristic",
        }
    with gpu_lease(lock, 0.1, "second", used) as lease:
        assert lease.facts() == {"lease_s": 0.0, "gpu_busy_s": 0.0}


def test_a_seen_side_is_otherwise_the_side() -> None:
    inner = TimedSide()
    side = SeenSide(inner, usage(Clock()).count)
    side.fill(1, {}, 2)
    side.close()
    assert (side.slots, inner.filled, inner.closed, side.audit()) == (2, (1, 2), True, None)
    assert side.read(1)["y"] == 1
    assert side.facts == {"scale.registers": 32, "graph_replays": True}


def test_a_quarantined_gpu_is_refused_until_the_mark_is_lifted(tmp_path: Path) -> None:
    lock = lease_path("GPU-1", tmp_path)
    mark = Quarantine(lock)
    assert mark.reason() is None
    mark.set("GPU-1", "a small kernel failed", 0.0)
    with (
        pytest.raises(GpuQuarantinedError, match=r"a small kernel failed \(since 1970-01-01 .*askevolve doctor.*quarantine"),
        gpu_lease(lock, 0.1, "me", usage(Clock())),
    ):
        pass
    mark.lift()
    mark.refuse()


def test_a_mark_that_somebody_left_by_hand_counts(tmp_path: Path) -> None:
    mark = Quarantine(lease_path("GPU-1", tmp_path))
    mark.path.write_text("fan is loud\n")
    with pytest.raises(GpuQuarantinedError, match="can't be read"):
        mark.refuse()
