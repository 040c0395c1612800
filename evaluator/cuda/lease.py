"""One evaluation at a time on a GPU: a lock named by the GPU's UUID, what its holder used, and the mark of a GPU that is sick."""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.backend import Lease, Ran
from evaluator.cuda.monitor import Monitor
from evaluator.locks import timing_lock

Clock = Callable[[], float]


class GpuQuarantinedError(RuntimeError):
    """The GPU failed its health probe earlier and isn't used until somebody has looked at it."""


def lease_path(uuid: str, folder: Path | None = None) -> Path:
    """Where the lock of a GPU lies: one per user, host and GPU, whatever run or folder asks."""
    return (folder or Path(tempfile.gettempdir())) / f"askevolve-{os.getuid()}-{uuid}.lock"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The mark beside a GPU's lock that says it is sick. Whoever removes it, by hand or by the doctor, lets it work again."""

    lock: Path

    @property
    def path(self) -> Path:
        """The file of the mark."""
        return self.lock.with_suffix(".quarantine")

    def set(self, uuid: str, reason: str, now_s: float) -> None:
        """Mark the GPU; ``now_s`` is seconds since the epoch."""
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now_s))
        self.path.write_text(json.dumps({"gpu": uuid, "reason": reason, "since": when}) + "\n")

    def reason(self) -> str | None:
        """Why and since when the GPU is marked; None if it isn't."""
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return None
        try:
            mark = json.loads(text)
            return f"{mark['reason']} (since {mark['since']})"
        except (ValueError, KeyError, TypeError):
            return "its mark can't be read"

    def refuse(self) -> None:
        """Raise GpuQuarantinedError if the GPU is marked."""
        reason = self.reason()
        if reason is not None:
            raise GpuQuarantinedError(
                f"this GPU is quarantined: {reason}. Look at it (nvidia-smi, dmesg), reset or reboot if need be; then `askevolve "
                f"doctor` lifts the quarantine if the GPU passes its probe, or remove {self.path}"
            )

    def lift(self) -> None:
        """Remove the mark."""
        self.path.unlink(missing_ok=True)


@dataclass(slots=True)
class Usage:
    """What the holder of a lease has used of its GPU: seconds of the lease, and of executions in its timed windows."""

    monitor: Monitor
    clock: Clock
    choices: dict[str, dict[str, str]] = field(default_factory=dict)
    _since_s: float = 0.0
    _busy_us: float = 0.0

    def begin(self) -> None:
        """A new lease starts now."""
        self._since_s, self._busy_us = self.clock(), 0.0
        self.choices.clear()
        self.monitor.forget()

    def count(self, ran: Ran) -> Ran:
        """The batch as it is, once it counts as use of the device."""
        self._busy_us += ran.elapsed_us
        return ran

    def chose(self, baseline: str, scenario: str, variant: str) -> None:
        """A baseline made of several runs this variant in the scenario."""
        self.choices.setdefault(baseline, {})[scenario] = variant

    def facts(self) -> Mapping[str, int | float | str | bool]:
        """``lease_s``, ``gpu_busy_s``, the monitor's facts, and ``NAME_variants`` for each baseline that chose among several."""
        chosen = {
            f"{name}_variants": "; ".join(f"{scenario}: {variant}" for scenario, variant in variants.items())
            for name, variants in self.choices.items()
        }
        return {
            "lease_s": round(self.clock() - self._since_s, 3),
            "gpu_busy_s": round(self._busy_us * 1e-6, 6),
            **self.monitor.facts(),
            **chosen,
        }


@contextmanager
def gpu_lease(lock: Path, wait_s: float, purpose: str, usage: Usage) -> Iterator[Lease]:
    """Hold the GPU alone. Raises LockTimeoutError naming the holder, GpuQuarantinedError."""
    with timing_lock(lock, wait_s, purpose, usage.clock):
        Quarantine(lock).refuse()
        usage.begin()
        yield Lease(facts=usage.facts, notes=usage.monitor.notes)
