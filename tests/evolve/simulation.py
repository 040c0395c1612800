"""Runs over the tiny task with simulated outcomes: no compiler, no clock, any order of completion."""

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator.request import Evaluator, Request
from evaluator.simulated import SimulatedEvaluator
from evaluator.task import load_task
from evaluator.task_card import TaskCard
from evolve.config import RunConfig
from evolve.executors.base import Done
from results.codec import encode
from results.events import Event, RunNoted, RunStopped, StepAsked, StepEvaluated, TimeSpent
from results.store import Store

HERE = Path(__file__).parent
TINY_TASK = HERE.parent / "evaluator" / "tiny_task"
SEEDS = tuple(str(HERE / "seeds" / name) for name in ("rows.cpp", "columns.cpp"))


def config(**tables: dict[str, Any]) -> RunConfig:
    """A small simulated run; ``tables`` add to or replace keys of its tables."""
    values: dict[str, dict[str, Any]] = {
        "run": {"name": "sim", "seed": 5},
        "task": {"name": str(TINY_TASK), "scenarios": "five", "backend": "simulated"},
        "population": {"seeds": SEEDS, "islands": 2, "capacity": 6},
        "mutation": {},
        "executor": {"kind": "inline", "lookahead": 3},
        "budget": {"candidates": 24},
        "goal": {},
    }
    for table, keys in tables.items():
        values[table] = {**values.get(table, {}), **keys}
    return RunConfig.model_validate(values)


def card() -> TaskCard:
    """The tiny task's card."""
    return load_task(str(TINY_TASK)).card("five")


class ShuffledExecutor:
    """Finishes evaluations in an order drawn from ``seed``; at most ``workers`` of them, the oldest, are under way."""

    def __init__(self, evaluator: Evaluator, workers: int, seed: int) -> None:
        self.evaluated: list[int] = []
        self._evaluator = evaluator
        self._workers = workers
        self._random = random.Random(seed)
        self._queue: list[tuple[int, Request]] = []

    def submit(self, number: int, request: Request) -> None:
        self._queue.append((number, request))

    def collect(self, timeout_s: float) -> Sequence[Done]:
        done = []
        for _ in range(self._random.randint(0, min(self._workers, len(self._queue)))):
            number, request = self._queue.pop(self._random.randrange(min(self._workers, len(self._queue))))
            self.evaluated.append(number)
            done.append(Done(number=number, outcome=self._evaluator.evaluate(request)))
        return done

    def close(self) -> None:
        self._queue.clear()


def shuffled(workers: int = 4, seed: int = 0, run_seed: int = 5) -> ShuffledExecutor:
    """A shuffled executor around the simulated evaluator that ``config()`` describes."""
    return ShuffledExecutor(SimulatedEvaluator(card(), run_seed), workers, seed)


def stored(folder: Path) -> list[Event]:
    """All events of a run."""
    with Store.open(folder) as store:
        return [recorded.event for recorded in store.events()]


def essence(events: Sequence[Event]) -> tuple[list[str], list[str], dict[int, str]]:
    """What must be equal between two drives of one run: the order of all events, arrivals apart, then the order of the answers
    taken in and each arrival's outcome.

    Wall times and where drivers stopped and resumed are left out.
    """
    outside = (StepAsked, StepEvaluated, TimeSpent, RunStopped, RunNoted)
    arrivals = [event for event in events if isinstance(event, StepEvaluated)]
    outcomes = {event.step_number: encode(event.outcome) for event in arrivals}
    assert len(outcomes) == len(arrivals), "a step has two outcomes"
    decided = [f"{type(event).__name__} {encode(event)}" for event in events if not isinstance(event, outside)]
    return decided, [encode(event) for event in events if isinstance(event, StepAsked)], outcomes


def fresh(folder: Path) -> Path:
    """An empty folder for runs."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@dataclass(frozen=True)
class SlowSimulation:
    """Builds a simulated evaluator whose evaluations take up to ``most_s`` seconds, each its own; pickles as two numbers."""

    most_s: float
    run_seed: int = 5

    def __call__(self) -> Evaluator:
        return SimulatedEvaluator(card(), self.run_seed, self._delay_s)

    def _delay_s(self, request: Request) -> float:
        return self.most_s * int(request.candidate.id[:4], 16) / 0xFFFF
