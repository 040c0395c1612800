"""The CUDA backend: .cu candidates built by NVRTC, run in processes of their own on one GPU beside a baseline."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evaluator.backend import Build, Lease, Program, Side
from evaluator.cache import BuildCache
from evaluator.cuda.baseline import warm_pool
from evaluator.cuda.baseline_side import Bench, start_baseline
from evaluator.cuda.device import NoGpuError, describe_device, find_gpu
from evaluator.cuda.gate import gate_cuda
from evaluator.cuda.health import probe
from evaluator.cuda.lease import Quarantine, Usage, gpu_lease, lease_path
from evaluator.cuda.monitor import Monitor, open_reader
from evaluator.cuda.nvrtc import COMPILE_LIMITS, compile_cuda
from evaluator.disturbance import Pressure
from evaluator.outcome import Fault
from evaluator.plan.resolved import Resolved, ResolvedLaunch
from evaluator.sandbox import Limits
from evaluator.seen_side import SeenSide
from evaluator.task_card import Scenario
from population.candidate import Language

LEASE_WAIT_S = 600.0
IDLE_PARTS = 8  # candidates and baselines each keep at most this part of the GPU's memory for their next side
Gated = tuple[str, tuple[ResolvedLaunch, ...], tuple[str, ...]]
"""A build and how it is launched."""


class CudaBackend:
    """Implements ``evaluator.backend.Backend`` on one GPU: number ``ordinal`` among those this process may use.

    ``cache_folder`` keeps compiled candidates; ``lease_folder`` (default: the host's temporary folder) the lock and the mark
    of a quarantine. Raises NoGpuError where no GPU works, GpuQuarantinedError, ImportError without CuPy.
    """

    def __init__(
        self,
        cache_folder: Path,
        ordinal: int = 0,
        *,
        lease_folder: Path | None = None,
        lease_wait_s: float = LEASE_WAIT_S,
        compile_limits: Limits = COMPILE_LIMITS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gpu = find_gpu(ordinal)
        self._lock = lease_path(self._gpu.uuid, lease_folder)
        self._quarantine = Quarantine(self._lock)
        self._quarantine.refuse()
        health = probe(ordinal)
        if health.problem is not None:
            raise NoGpuError(f"{self._gpu.name} ({self._gpu.uuid}) can't be used: {health.problem}")
        import cupy

        from evaluator.cuda.allocations import Pool
        from evaluator.cuda.candidates import CandidateProcesses
        from evaluator.cuda.driver import call

        reader = open_reader(self._gpu.uuid)
        monitor = Monitor(reader, clock)
        self.language = Language.CUDA
        self.array_module: Any = cupy
        self.pressure: Pressure = monitor.pressure_us
        self.device = describe_device(self._gpu, health.abilities, watched=reader is not None)
        self._wait_s, self._limits = lease_wait_s, compile_limits
        self._usage = Usage(monitor, clock)
        self._cache = BuildCache(cache_folder.resolve())
        self._passed: set[Gated] = set()
        self._enter()
        self.free_bytes: int | None = int(call("cuMemGetInfo")[0])
        idle_bytes = self._gpu.memory_bytes // IDLE_PARTS
        candidates_memory = Pool(ordinal, idle_bytes=idle_bytes)
        self._candidates = CandidateProcesses(ordinal, candidates_memory, self._sickness, make_room=self._make_room)
        # nothing of this second pool was ever a candidate's
        self._baselines = Bench(warm_pool(ordinal), Pool(ordinal, idle_bytes=idle_bytes), self._make_room)

    def facts(self) -> Mapping[str, int]:
        """See ``evaluator.backend.Backend``."""
        return self._gpu.facts

    def build(self, source: str, resolved: Resolved) -> Build | Fault:
        """See ``evaluator.backend.Backend``. Verdicts: COMPILE_ERROR, COMPILE_LIMIT, SANDBOX. Needs no lease."""
        return compile_cuda(source, resolved, self.device.arch, self._cache, self._limits)

    def gate(self, build: Build, resolved: Resolved) -> Fault | None:
        """See ``evaluator.backend.Backend``. Verdict: GATE_VIOLATION. What has passed isn't read again until a lease ends."""
        key = (build.key, resolved.launches, resolved.kernels)
        if key in self._passed:
            return None
        refused = gate_cuda(build, resolved)
        if refused is None:
            self._passed.add(key)
        return refused

    @contextmanager
    def lease(self, purpose: str) -> Iterator[Lease]:
        """See ``evaluator.backend.Backend``. Raises GpuQuarantinedError too."""
        with gpu_lease(self._lock, self._wait_s, purpose, self._usage) as lease:
            self._enter()
            yield lease
        self._passed.clear()

    def start(self, program: Program, slots: int) -> Side | Fault:
        """See ``evaluator.backend.Backend``. Refuses what doesn't pass the gate."""
        refused = self.gate(program.build, program.resolved)
        if refused is not None:
            return refused
        side = self._candidates.start(program, slots)
        return side if isinstance(side, Fault) else SeenSide(side, self._usage.count)

    def start_baseline(
        self, task_folder: Path, baseline: str, resolved: Resolved, scenario: Scenario, slots: int
    ) -> Side | Fault:
        """See ``evaluator.backend.Backend``. Every fault is HARNESS_FAULT."""
        side = start_baseline(self._baselines, task_folder, baseline, resolved, scenario, slots)
        if isinstance(side, Fault):
            return side
        if side.chosen:
            self._usage.chose(baseline, scenario.name, side.chosen)
        return SeenSide(side, self._usage.count)

    def close(self) -> None:
        """See ``evaluator.backend.Backend``."""
        self._baselines.clear()
        self._baselines.processes.close()
        self._candidates.close()
        self._baselines.allocations.close()

    def _enter(self) -> None:
        """Make the GPU current in this thread, for CuPy and the driver."""
        from evaluator.cuda.driver import use_device

        use_device(self._gpu.ordinal)
        self.array_module.cuda.Device(self._gpu.ordinal).use()

    def _make_room(self) -> None:
        """Free what is only kept for later: a baseline's waiting side, and the caches of CuPy and torch."""
        self._baselines.clear()
        self._baselines.allocations.close()
        self.array_module.get_default_memory_pool().free_all_blocks()
        if "torch" in sys.modules:
            sys.modules["torch"].cuda.empty_cache()

    def _sickness(self) -> str | None:
        """What is wrong with the GPU; a sick one is quarantined, one that is only full isn't."""
        health = probe(self._gpu.ordinal)
        if health.problem is not None and not health.full:
            self._quarantine.set(self._gpu.uuid, health.problem, time.time())
        return health.problem
