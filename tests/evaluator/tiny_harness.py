"""Harness, pools and races over the tiny task and the fake backend."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from evaluator.backend import Array
from evaluator.check import judge
from evaluator.harness import Harness
from evaluator.outcome import Fault
from evaluator.pool import Draw, Pool
from evaluator.roofline import Floor
from evaluator.settings import HarnessSettings
from evaluator.task import Task, load_task
from evaluator.task_card import Scenario
from evaluator.timing import Race
from tests.evaluator.fake_backend import Behaviour, FakeBackend, FakeSide

QUICK = HarnessSettings(
    looks=(8, 16),
    narrow_half_width=0.002,
    ambiguous_half_width=0.05,
    batch_us=200.0,
    max_slots=8,
    pool_members=2,
    search_distributions=2,
    repeats=2,
    hidden_scenarios=3,
)


@functools.cache
def tiny() -> Task:
    return load_task(str(Path(__file__).parent / "tiny_task"))


def scenario(number: int = 0) -> Scenario:
    return tiny().card("five").scenarios[number]


def quiet() -> int:
    return 0


def seeded(seed: int) -> Callable[[int], bytes]:
    """Entropy that a test can repeat."""
    return np.random.default_rng(seed).bytes


def harness(backend: FakeBackend, tmp_path: Path, set_name: str = "three", settings: HarnessSettings = QUICK) -> Harness:
    return Harness(tiny(), set_name, backend, settings, backend.clock, seeded(7), pressure=quiet, lock=tmp_path / "host.lock")


def terms(backend: FakeBackend, settings: HarnessSettings = QUICK, **changes: object) -> Race:
    """A race in the first scenario over the outputs of the tiny task."""
    pool = Pool(tiny(), 1 << 20, b"secret")
    rng = np.random.default_rng(5)

    def judged(draw: Draw, outputs: Mapping[str, Array]) -> Fault | None:
        return judge(draw, outputs, tiny().outputs)

    named: dict[str, object] = {
        "scenario": scenario().name,
        "opponent": "peer",
        "draw": lambda: pool.draw(scenario(), "normal", rng, settings.pool_members),
        "judge": judged,
        "judge_opponent": judged,
        "floor": Floor(us=1.0, bound="flop"),
        "deadline_s": 1.0,
        "settings": settings,
        "rng": rng,
        "clock": backend.clock,
        "pressure": quiet,
    }
    return Race(**(named | changes))  # type: ignore[arg-type]


def side(backend: FakeBackend, behaviour: Behaviour, slots: int = 8) -> FakeSide:
    return FakeSide(behaviour, scenario(), slots, backend)
