from dataclasses import replace

import pytest

from evolve.utilisation import Utilisation, utilisation
from results.events import Event, FinalMeasured, RunStarted, RunStopped, StepEvaluated, TimeSpent
from tests.evolve.simulation import config
from tests.results.makers import outcome, started


def begun(**executor: object) -> RunStarted:
    return started(config=config(executor=executor).mapping())


def measured(step: int, wall_s: float, **facts: float) -> StepEvaluated:
    return StepEvaluated(step_number=step, outcome=replace(outcome(f"k{step}", 1.0), wall_s=wall_s, facts=facts))


def test_shares_are_of_the_time_from_the_first_evaluation_to_the_last() -> None:
    events: list[Event] = [
        begun(),
        TimeSpent(wall_s=100.0),  # before anything was evaluated, the first evaluation but for its last 3 s among it
        measured(0, 10.0, lease_s=8.0, gpu_busy_s=4.0),
        TimeSpent(wall_s=3.0),
        TimeSpent(wall_s=2.0),
        measured(1, 9.0, lease_s=8.0, gpu_busy_s=5.0),
        TimeSpent(wall_s=8.0),
        RunStopped(reason="requested"),
        TimeSpent(wall_s=50.0),
    ]
    assert utilisation(events) == Utilisation(wall_s=20.0, lease_share=0.8, busy_share=0.45)


def test_finals_count_and_several_workers_share_the_time() -> None:
    final = replace(outcome("k0", 1.0), wall_s=6.0, facts={"lease_s": 5.0})
    events: list[Event] = [begun(kind="processes", workers=2), measured(0, 4.0, lease_s=3.0), TimeSpent(wall_s=4.0)]
    events += [FinalMeasured(outcome=final), TimeSpent(wall_s=6.0)]
    found = utilisation(events)
    assert found is not None
    assert found.wall_s == pytest.approx(10.0)
    assert found.lease_share == pytest.approx(8.0 / 20.0)
    assert found.busy_share is None


def test_time_that_is_stored_apart_from_the_first_evaluation_counts() -> None:
    events = [begun(), measured(0, 5.0, lease_s=5.0), measured(1, 5.0, lease_s=5.0), TimeSpent(wall_s=10.0)]
    found = utilisation(events)
    assert found is not None
    assert found.wall_s == pytest.approx(15.0)


@pytest.mark.parametrize("events", [[begun()], [begun(), measured(0, 1.0)], [begun(), measured(0, 1.0, lease_s=0.0)]])
def test_without_a_lease_there_is_nothing_to_say(events: list[Event]) -> None:
    assert utilisation(events) is None
