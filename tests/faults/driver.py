"""A driver to be killed: runs or resumes the simulated run under Ray, with evaluations of up to SECONDS (a quarter).

``python -m tests.faults.driver ROOT [SECONDS]`` prints the reason why it stopped.
"""

import sys
from pathlib import Path

from evolve import api
from evolve.executors.ray_executor import RayExecutor
from results.folder import holds_run
from tests.evolve.simulation import SlowSimulation, config


def main(root: Path, most_s: float = 0.25) -> None:
    """Drive the run in ``root/sim`` as far as it goes."""
    executor = RayExecutor(SlowSimulation(most_s), workers=2)
    if holds_run(root / "sim"):
        result = api.resume(root / "sim", executor=executor)
    else:
        result = api.run(config(), root=root, executor=executor)
    print(result.stopped_by)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(float, sys.argv[2:]))
