"""A small run with real compiles and real timings, to be killed: rows of a matrix doubled and summed, beside numpy.

``python -m tests.faults.timed ROOT KIND CANDIDATES`` starts the run in ``ROOT/runs/timed`` or goes on with it, under the executor
KIND, and prints why it stopped.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

from evolve import api
from evolve.config import RunConfig
from results.folder import holds_run
from tests.evolve.simulation import TINY_TASK

BASELINES = """
import numpy as np
from evaluator.baseline import Baseline, Bound

def bind(symbols, inputs, outputs):
    def call():
        np.multiply(inputs["x"], np.float32(2), out=outputs["y"])
        np.sum(inputs["x"], axis=1, out=outputs["total"])
    return Bound(call=call, store=lambda: None)

BASELINES = (
    Baseline(name="peer", backend="cpu", available=lambda: None, version=np.version.full_version.strip,
             supports=lambda symbols: True, bind=bind),
)
"""
KERNEL = """/* plan
[knobs]
BLOCK  = { value = 16, choices = [4, 8, 16, 32, 64, 128] }
UNROLL = { value = 1, choices = [1, 2, 4, 8] }

[[launch]]
kernel = "scale_rows"
grid = ["ceil_div(n, BLOCK)"]
args = ["x", "y", "total", "n", "m"]
*/
extern "C" void scale_rows(long task, void* const* args) {
    const float* x = static_cast<const float*>(args[0]);
    float* y = static_cast<float*>(args[1]);
    float* total = static_cast<float*>(args[2]);
    const int n = *static_cast<const int*>(args[3]), m = *static_cast<const int*>(args[4]);
    for (long row = task * BLOCK; row < n && row < (task + 1) * BLOCK; ++row) {
        float sum = 0.0f;
        for (int column = 0; column < m; column += UNROLL) {
            for (int step = 0; step < UNROLL && column + step < m; ++step) {
                y[row * m + column + step] = 2.0f * x[row * m + column + step];
                sum += x[row * m + column + step];
            }
        }
        total[row] = sum;
    }
}
"""


def timed_config(root: Path, **tables: dict[str, Any]) -> RunConfig:
    """The run's configuration; its task and seed are written into ``root``. ``tables`` add to or replace keys of its tables."""
    task = root / "task"
    if not task.exists():
        shutil.copytree(TINY_TASK, task)
        (task / "baselines.py").write_text(BASELINES)
        text = (TINY_TASK / "task.toml").read_text()
        text = text.replace('["peer", "other", "absent"]', '["peer"]').replace("total = 1e-4", "total = 1e-2")
        (task / "task.toml").write_text(text)
        (task / "scenarios.toml").write_text('[[sets.one]]\nname = "n{n}"\nn = [512]\nm = 64\n')
        (root / "rows.cpp").write_text(KERNEL)
    values: dict[str, dict[str, Any]] = {
        "run": {"name": "timed", "seed": 3},
        "task": {"name": str(task), "scenarios": "one", "backend": "cpu"},
        "population": {"seeds": (str(root / "rows.cpp"),)},
        "evaluation": {"pace": "quick", "looks": 1, "threads": 1},
        "budget": {"candidates": 6},
    }
    for table, keys in tables.items():
        values[table] = {**values.get(table, {}), **keys}
    return RunConfig.model_validate(values)


def main(root: Path, kind: str, candidates: int) -> None:
    """Drive the run as far as it goes."""
    folder = root / "runs" / "timed"
    if holds_run(folder):
        result = api.resume(folder)
    else:
        result = api.run(timed_config(root, executor={"kind": kind}, budget={"candidates": candidates}), root=root / "runs")
    print(result.stopped_by)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
