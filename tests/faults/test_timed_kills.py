"""SIGKILL of the processes of a run that compiles and times for real; ``tests.faults.kills`` does it for hours."""

from pathlib import Path

import pytest

from tests.faults.kills import Killing, environment_in


def test_driver_and_candidate_are_killed_without_ray(tmp_path: Path) -> None:
    killing = Killing(tmp_path, "inline", environment_in(tmp_path), candidates=4)
    for role in ("driver", "candidate"):
        assert killing.drive(role, 0.5) == (role != "driver")
    killing.check_end()
    assert killing.kills["driver"] == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("role", ["driver", "compiler", "candidate", "baseline", "evaluator", "actor", "raylet", "gcs"])
def test_any_process_is_killed_under_ray(tmp_path: Path, role: str) -> None:
    killing = Killing(tmp_path, "ray", environment_in(tmp_path), candidates=6)
    ended = killing.drive(role, 5.0)
    assert ended == (role not in ("driver", "raylet", "gcs")) or not killing.kills
    while not ended:
        ended = killing.drive(None, 0.0)
    killing.check_end()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_processes_are_killed_over_and_over(tmp_path: Path) -> None:
    killing = Killing(tmp_path, "inline", environment_in(tmp_path), candidates=8)
    for number, role in enumerate(["driver", "baseline", "driver", "compiler", "driver", "candidate", "driver"]):
        if killing.drive(role, 0.8 + 0.2 * number):
            break
    while not killing.drive(None, 0.0):
        pass
    killing.check_end()
