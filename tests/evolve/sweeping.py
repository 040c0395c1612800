"""A landscape for sweeps: edits that only a person could make pay, and best values of knobs that differ from region to region."""

import math
import shutil
from pathlib import Path

import numpy as np

from evaluator.outcome import Fault
from evaluator.simulated import SimulatedEvaluator, _Point
from evaluator.task import load_task
from evaluator.task_card import Scenario, TaskCard
from evolve.config import RunConfig
from mutators.answerers.base import Prompt
from mutators.question import Answer
from tests.evolve.simulation import SEEDS, TINY_TASK, ShuffledExecutor, config

REGIONS = '[regions]\nsmall = "n <= 8"\nlarge = "1"\n'
BEST = {"BLOCK": {"small": 4, "large": 64}, "WIDTH": {"small": 16, "large": 16}, "UNROLL": {"small": 1, "large": 1}}


def sweep_config(root: Path, **tables: dict[str, object]) -> RunConfig:
    """A simulated run on the tiny task with two regions, from one seed; its answers come from ``Editor``."""
    folder = root / "task"
    if not folder.exists():
        shutil.copytree(TINY_TASK, folder)
        text = (folder / "task.toml").read_text()
        (folder / "task.toml").write_text(text.replace("[tolerance]", f"{REGIONS}\n[tolerance]"))
    values = {
        "task": {"name": str(folder)},
        "population": {"seeds": SEEDS[:1], "islands": 2},
        "mutation": {"answerer": "recorded"},
        "recorded": {"source": "patched"},
        "executor": {"lookahead": 2},
        "budget": {"candidates": 14},
    }
    return config(**{table: {**values.get(table, {}), **tables.get(table, {})} for table in {*values, *tables}})


def card_of(wanted: RunConfig) -> TaskCard:
    """The task's card with its regions."""
    return load_task(wanted.task.name).card("five")


class Landscape(SimulatedEvaluator):
    """Every statement ``step();`` of a kernel brings 10 %; each doubling of a knob away from its best in a region costs 4 %."""

    def _failure(self, point: _Point) -> Fault | None:
        return None

    def _score(self, scenario: Scenario, point: _Point) -> float:
        score = 0.1 * point.body.count("step();")
        for name, best in BEST.items():
            score -= 0.04 * abs(math.log2(point.knobs[scenario.name][name] / best[scenario.region]))
        return score


class Editor:
    """Adds a statement to the kernel each time: an edit that no knob could make."""

    name = "editor"

    def answer(self, prompt: Prompt, rng: np.random.Generator) -> Answer:
        """A SEARCH/REPLACE block."""
        line = next(line for line in prompt.parent.source.splitlines() if line.startswith('extern "C"'))
        new = line.replace("{", "{ step();" + f" /* {prompt.step_number} */", 1)
        head = '+++\nhypothesis = "one more step"\nclaim = "none"\n[prediction]\nall = 1.1\n+++\n'
        return Answer(text=f"{head}<<<<<<< SEARCH\n{line}\n=======\n{new}\n>>>>>>> REPLACE\n", answerer=self.name)


def landscape(wanted: RunConfig, workers: int = 2, seed: int = 0) -> ShuffledExecutor:
    """A shuffled executor over the landscape."""
    return ShuffledExecutor(Landscape(card_of(wanted), 5), workers, seed)
