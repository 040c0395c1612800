"""A session: what all evaluations of one harness share."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluator import locks
from evaluator.backend import Backend
from evaluator.baseline import Baseline
from evaluator.check import Examination, judge
from evaluator.disturbance import Pressure
from evaluator.dtypes import NAMES, element_type
from evaluator.outcome import Timing
from evaluator.plan.resolved import Buffer, Resolved
from evaluator.pool import Draw, Entropy, Pool
from evaluator.roofline import Floor, floor_us
from evaluator.settings import HarnessSettings
from evaluator.task import Task, dtype_of
from evaluator.task_card import Scenario, TaskCard
from evaluator.timing import Race

INT32_BYTES = 4
BLENDED = "blended"
POOL_PARTS, SIDE_PARTS = 3, 12
"""The secret pool and one side's buffers take at most this part of a device's free memory: a final keeps two pools, a race has
two sides, and idle sides, references and transforms need the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """The baseline raced against itself and against a slowed copy: the noise floor, both races, and what to say about them."""

    noise_floor_pct: float
    races: tuple[Timing, ...]
    notes: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Session:
    """Task, backend, settings and pool of one harness, the primary baseline first.

    ``remarks`` is what every outcome says; ``controls`` is set once, when first timed. ``publishes``: what comes out may be
    published, so every timed execution is compared. ``sittings`` is where finals that are stopped leave what they measured;
    ``progress`` is told how far a final is.
    """

    task: Task
    card: TaskCard
    backend: Backend
    settings: HarnessSettings
    baselines: tuple[Baseline, ...]
    pool: Pool
    clock: Callable[[], float]
    entropy: Entropy
    pressure: Pressure
    lock: Path
    remarks: tuple[str, ...] = ()
    controls: Controls | None = None
    publishes: bool = False
    sittings: Path | None = None
    progress: Callable[[str], None] = lambda text: None

    @property
    def side_bytes(self) -> int:
        """What the buffers of one side may take, as far as there is room on the device."""
        free_bytes = self.backend.free_bytes
        return self.settings.side_bytes if free_bytes is None else min(self.settings.side_bytes, free_bytes // SIDE_PARTS)

    @property
    def everyday(self) -> str:
        """The distribution of every race and first in every check: ``blended`` where the task has it, else its ordinary one.

        Stressed rows blended into ordinary data leave a kernel no way to tell a timed execution from a check.
        """
        names = self.task.distributions
        return BLENDED if BLENDED in names else names[0]

    @property
    def primary(self) -> Baseline:
        """The baseline that fitness is measured against."""
        return self.baselines[0]

    def work_flop(self, scenario: Scenario) -> float:
        """Arithmetic of one execution, by which scenarios are put in order of cost."""
        return self.task.work(scenario.symbols).flop

    def some_distributions(self, rng: np.random.Generator) -> list[str]:
        """The distributions of a check in a search: the everyday one and some others, drawn at random."""
        special = [name for name in self.task.distributions if name != self.everyday]
        extra = min(len(special), self.settings.search_distributions - 1)
        return [self.everyday, *(special[int(index)] for index in rng.permutation(len(special))[:extra])]

    def draw(self, scenario: Scenario, distribution: str, rng: np.random.Generator) -> Draw:
        """Fresh contents; the everyday distribution has several members, since every race draws from it."""
        members = self._everyday_members(scenario) if distribution == self.everyday else 1
        return self.pool.draw(scenario, distribution, rng, members)

    def prepare_race(self, scenario: Scenario) -> None:
        """Work out all answers that a race will need, so that none is worked out between its blocks."""
        for number in range(self._everyday_members(scenario)):
            self.pool.member(scenario, self.everyday, number)

    def is_dear(self, scenario: Scenario) -> bool:
        """Whether its answers cost so much that few are worked out, even for a final."""
        limit = self.settings.full_check_flop
        return limit is not None and self.work_flop(scenario) > limit

    def _everyday_members(self, scenario: Scenario) -> int:
        return 1 if self.is_dear(scenario) else self.settings.pool_members

    def floor(self, scenario: Scenario) -> Floor:
        """The physical floor of one execution on this device."""
        dtype = dtype_of(self.task.outputs[0], scenario.symbols)
        return floor_us(self.task.work(scenario.symbols), self.backend.device, dtype)

    def deadline_s(self, scenario: Scenario) -> float:
        """How long one execution may take before it counts as hung."""
        return max(self.settings.least_deadline_s, self.settings.deadline_floors * self.floor(scenario).us * 1e-6)

    def examination(self, rng: np.random.Generator, scenario: Scenario, nondeterministic: bool = False) -> Examination:
        """How this session examines a side in a scenario."""
        return Examination(
            outputs=self.task.outputs,
            repeats=self.settings.repeats,
            deadline_s=self.deadline_s(scenario),
            rng=rng,
            nondeterministic=nondeterministic,
        )

    def slots(self, resolved: Resolved, scenario: Scenario) -> int:
        """How many sets of buffers a side gets in a race: as many as fit, at least the two that a race needs.

        Where the settings say so, no more than two windows of executions at the physical floor can fill, and some to spare, so
        that buffers still move from block to block.
        """
        settings = self.settings
        each_bytes = sum(_bytes_of(buffer) for buffer in (*resolved.tensors, *resolved.workspaces))
        most = min(settings.max_slots, self.side_bytes // max(each_bytes, 1))
        if settings.spare_slots is not None:
            most = min(most, 2 * math.ceil(settings.batch_us / self.floor(scenario).us) + settings.spare_slots)
        return max(2, most)

    def terms(
        self,
        rng: np.random.Generator,
        scenario: Scenario,
        opponent: str,
        leaves_out: tuple[str, ...] = (),
        stop_below: float | None = None,
    ) -> Race:
        """The terms of a race in a scenario; ``leaves_out`` are outputs that the opponent doesn't compute."""
        outputs = self.task.outputs
        computed = tuple(spec for spec in outputs if spec.name not in leaves_out)
        return Race(
            scenario=scenario.name,
            opponent=opponent,
            draw=lambda: self.draw(scenario, self.everyday, rng),
            judge=lambda draw, found: judge(draw, found, outputs),
            judge_opponent=lambda draw, found: judge(draw, found, computed),
            floor=self.floor(scenario),
            deadline_s=self.deadline_s(scenario),
            settings=self.settings,
            rng=rng,
            clock=self.clock,
            pressure=self.pressure,
            stop_below=stop_below,
            compared=None if self.publishes else self.settings.compared_per_window,
        )

    @contextmanager
    def compiling(self, purpose: str) -> Iterator[None]:
        """Hold the host's lock together with other compilers."""
        with locks.compile_lock(self.lock, self.settings.lock_wait_s, purpose, self.clock):
            yield

    @contextmanager
    def timing(self, purpose: str) -> Iterator[None]:
        """Hold the host alone where its cores are what is timed; a GPU is timed beside compilers."""
        alone = self.backend.device.kind == "cpu"
        with locks.timing_lock(self.lock, self.settings.lock_wait_s, purpose, self.clock) if alone else nullcontext():
            yield


def new_pool(task: Task, backend: Backend, settings: HarnessSettings, secret: bytes) -> Pool:
    """A pool where the backend's sides compare, of the size that the settings allow, as far as there is room on the device."""
    free_bytes = backend.free_bytes
    most_bytes = settings.pool_bytes if free_bytes is None else min(settings.pool_bytes, free_bytes // POOL_PARTS)
    return Pool(task, most_bytes, secret, backend.array_module)


def _bytes_of(buffer: Buffer) -> int:
    """Memory of one buffer; a workspace may also hold int32, which no tensor does."""
    each = element_type(buffer.dtype).bytes if buffer.dtype in NAMES else INT32_BYTES
    return each * math.prod(buffer.shape)
