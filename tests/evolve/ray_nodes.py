"""A Ray of three machines on this one, one of which is killed in the middle of a run, and another joins; for test_ray_cluster.py.

Prints as JSON what the run came to, and by how many workers it was evaluated.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import ray
from ray.cluster_utils import Cluster

from evolve.api import run
from evolve.executors.ray_cluster import survey
from evolve.executors.ray_executor import RayExecutor
from results.events import StepEvaluated
from tests.evolve.simulation import SlowSimulation, config, essence, stored

SMALL = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
QUICK_TO_NOTICE = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 2}


def main() -> None:
    root = Path(sys.argv[1])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": QUICK_TO_NOTICE, **SMALL})
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=SMALL["object_store_memory"]) for _ in range(2)]
    executor = RayExecutor(SlowSimulation(0.6), workers=3, address=cluster.address)
    with ThreadPoolExecutor(1) as pool:
        searching = pool.submit(run, config(budget={"candidates": 30}), root=root, executor=executor)
        wait_for(lambda: len(executor.nodes) == 2)
        seen = set(executor.nodes)
        cluster.remove_node(nodes[0], allow_graceful=False)
        cluster.add_node(num_cpus=1, object_store_memory=SMALL["object_store_memory"])
        wait_for(lambda: len(executor.nodes - seen) == 1)
        seen |= executor.nodes
        events = stored(searching.result().folder)
    outcomes = [event for event in events if isinstance(event, StepEvaluated)]
    told = {
        "essence": json.dumps(essence(events), sort_keys=True),
        "steps": [event.step_number for event in outcomes],
        "verdicts": sorted({event.outcome.verdict.value for event in outcomes}),
        "machines": len(seen),
    }
    executor.close()
    ray.shutdown()
    told["doctor"] = [f"{finding.state} {finding.name}: {finding.detail}" for finding in survey(cluster.address)]
    cluster.shutdown()
    print(json.dumps(told))


def wait_for(condition: Callable[[], bool], deadline_s: float = 60.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


if __name__ == "__main__":
    main()
