"""Ray over several machines: a lost one costs nothing but time, one that joins is used, and the run is as on a single machine."""

import json
import subprocess
import sys
from pathlib import Path

from evolve.api import run
from evolve.executors.ray_cluster import survey
from evolve.finding import State
from tests.evolve.simulation import config, essence, shuffled, stored

ROOT = Path(__file__).parents[2]


def test_a_machine_dies_in_the_middle_of_a_run_and_another_joins(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.evolve.ray_nodes", str(tmp_path / "cluster")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    reference = run(config(budget={"candidates": 30}), root=tmp_path / "reference", executor=shuffled())
    assert found["essence"] == json.dumps(essence(stored(reference.folder)), sort_keys=True)
    assert len(found["steps"]) == len(set(found["steps"]))
    assert "HARNESS_FAULT" not in found["verdicts"]
    assert found["machines"] == 3
    assert found["doctor"][0] == "ok ray cluster: 3 machines, 2 CPUs, 0 GPUs on 0 of them"
    assert [line.partition("0 GPUs, torch")[1] != "" for line in found["doctor"][1:]] == [True, True]


def test_a_cluster_that_is_not_there_is_a_finding() -> None:
    (finding,) = survey("127.0.0.1:1")
    assert finding.state is State.MISSING
    assert "Ray can't be reached at 127.0.0.1:1" in finding.detail
    assert "ray start --head" in finding.detail
