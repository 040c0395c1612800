"""A baseline's process on the GPU as its parent sees it, with a child that needs no GPU."""

from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from evaluator.backend import Array, Ran
from evaluator.cuda.baseline import BaselineProcess, spawn
from evaluator.cuda.baseline_side import Bench, LentSide
from evaluator.outcome import Fault, Verdict
from evaluator.warm import BaselineSide, Held, WarmPool
from tests.contracts import vector_scale

FOLDER = Path("/a/task")


class Buffers:
    """Memory that notes what happens to it."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        self.events.append(f"fill {slot}")

    def outputs(self, slot: int) -> Mapping[str, Array]:
        return {}

    def settle(self) -> None:
        self.events.append("settle")

    def close(self) -> None:
        self.events.append("close")


@pytest.fixture
def pool() -> WarmPool[BaselineProcess]:
    return WarmPool(lambda folder: spawn("tests.evaluator.warm_child", "two splits"))


Start = Callable[..., tuple[BaselineSide[BaselineProcess], Buffers]]


@pytest.fixture
def start(pool: WarmPool[BaselineProcess]) -> Start:
    def started(damage: str | None = None) -> tuple[BaselineSide[BaselineProcess], Buffers]:
        memory = Buffers()
        held = Held(pool=pool, folder=FOLDER, process=pool.take(FOLDER))
        return BaselineSide(vector_scale.resolved(), 3, held, memory, lambda: damage, memory.settle), memory

    return started


def test_a_side_binds_runs_and_leaves_its_process_to_the_next(pool: WarmPool[BaselineProcess], start: Start) -> None:
    side, memory = start()
    bound = side.bind("plain", vector_scale.scenario(), {"buffers": []}, (0, 0, 0))
    assert not isinstance(bound, Fault)
    assert bound["files"] == 3
    assert side.chosen == "two splits"
    side.fill(0, {}, 0)
    assert side.run([0], 20.0) == Ran(elapsed_us=12.5)
    assert memory.events == ["fill 0", "settle"]
    assert side.audit() is None
    pid = side.pid
    side.close()
    side.close()
    assert memory.events[-1:] == ["close"]
    assert start()[0].pid == pid
    pool.close()


def test_the_last_side_waits_for_the_same_race_and_no_longer(pool: WarmPool[BaselineProcess], start: Start) -> None:
    bench = Bench(pool, None, list)  # type: ignore[arg-type]
    one, other = (FOLDER, "plain", (), (), 3), (FOLDER, "plain", (("n", 4),), (), 3)
    assert bench.take(one) is None
    side, memory = start()
    lent = LentSide(side, bench, one)
    lent.fill(0, {}, 0)
    assert lent.run([0], 20.0) == Ran(elapsed_us=12.5)
    lent.close()
    lent.close()
    assert "close" not in memory.events
    assert bench.take(one) is side
    assert bench.take(one) is None
    bench.give(one, side)
    assert bench.take(other) is None
    assert memory.events[-1:] == ["close"]
    assert start()[0].pid == side.pid
    pool.close()


def test_a_side_that_did_damage_does_not_wait(pool: WarmPool[BaselineProcess], start: Start) -> None:
    bench = Bench(pool, None, list)  # type: ignore[arg-type]
    side, memory = start("it wrote past the end of 'y'")
    bench.give((FOLDER, "plain", (), (), 3), side)
    assert bench.take((FOLDER, "plain", (), (), 3)) is None
    assert memory.events[-1:] == ["close"]


def test_of_two_sides_the_last_waits(pool: WarmPool[BaselineProcess], start: Start) -> None:
    bench = Bench(pool, None, list)  # type: ignore[arg-type]
    key = (FOLDER, "plain", (), (), 3)
    (first, before), (second, after) = start(), start()
    bench.give(key, first)
    bench.give(key, second)
    assert before.events[-1:] == ["close"]
    assert "close" not in after.events
    bench.clear()
    assert after.events[-1:] == ["close"]
    pool.close()


@pytest.mark.parametrize("slots", [[], [3], [-1]])
def test_a_slot_that_is_not_there(start: Start, slots: list[int]) -> None:
    side, _ = start()
    with pytest.raises(ValueError, match="slots"):
        side.run(slots, 20.0)
    side.close()


@pytest.mark.parametrize(("slot", "deadline_s", "says"), [(1, 20.0, "ZeroDivisionError"), (2, 0.2, "no answer within 0.2 s")])
def test_a_baseline_that_fails_or_hangs_is_our_fault_and_its_process_ends(
    start: Start, slot: int, deadline_s: float, says: str
) -> None:
    side, memory = start()
    pid = side.pid
    fault = side.run([slot], deadline_s)
    assert isinstance(fault, Fault)
    assert fault.verdict is Verdict.HARNESS_FAULT
    assert says in fault.message
    assert not psutil.pid_exists(pid)
    assert side.run([0], 1.0) == fault
    assert side.audit() == fault
    side.close()
    assert memory.events[-1:] == ["close"]


def test_a_process_that_dies_leaves_its_last_words(start: Start) -> None:
    side, _ = start()
    fault = side.bind("dies", vector_scale.scenario(), {}, ())
    assert isinstance(fault, Fault)
    assert "cannot live" in fault.message
    side.close()


def test_damage_is_our_fault(start: Start) -> None:
    side, _ = start("it wrote past the end of 'y'")
    fault = side.audit()
    assert fault is not None
    assert "damaged memory: it wrote past the end of 'y'" in fault.message
    side.close()


def test_a_folder_whose_process_cannot_start_says_why() -> None:
    process = spawn("evaluator.cuda.no_such_module")
    answer = process.ask({"do": "release"})
    assert isinstance(answer, str)
    assert "no_such_module" in answer
    process.end()
