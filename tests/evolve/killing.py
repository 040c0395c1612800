"""Drives simulated runs in children that are killed at random instants, until each run is over.

A program of its own, so that it forks from a process without threads: ``python -m tests.evolve.killing FOLDER KILLS SEED
ANSWERER``, where the answerer is ``knobs``, or ``mailbox``: then somebody outside answers open prompts in a shuffled order, or
``editor``: then edits are followed by knob sweeps.
Prints one JSON document: how many children were killed and in how many runs.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from evaluator.simulated import SimulatedEvaluator
from evaluator.task import Task, load_task
from evolve import api, parts
from evolve.config import RunConfig
from evolve.desks import MailboxDesk
from results.events import Event
from results.folder import holds_run
from results.store import Store
from tests.evolve.answering import Among, Outside, mailbox_config
from tests.evolve.simulation import config
from tests.evolve.sweeping import Editor, Landscape, sweep_config

SLOWNESS_S = 0.0005
"""What an evaluation takes, so that a timer also hits in the middle of one."""


def main(folder: Path, kills: int, seed: int, answerer: str) -> None:
    """Kill ``kills`` children; every run that is begun is driven to its end."""
    choice = random.Random(seed)
    wanted = run_config(answerer, folder)
    tiny = load_task(wanted.task.name)
    parts.load_task = lambda name: tiny  # reading the task anew in each child is what would take the time
    killed, runs = 0, 0
    while killed < kills:
        killed += _finish_with_kills(folder / str(runs), tiny, choice, wanted)
        runs += 1
    print(json.dumps({"killed": killed, "runs": runs}))


def run_config(answerer: str, folder: Path) -> RunConfig:
    """The run that is killed; what it needs is put into the folder."""
    if answerer == "editor":
        return sweep_config(folder)
    return config() if answerer == "knobs" else mailbox_config(executor={"lookahead": 4})


def _finish_with_kills(root: Path, tiny: Task, choice: random.Random, wanted: RunConfig) -> int:
    """How often a run's driver was killed before one came to the end."""
    for attempt in range(1000):
        child = os.fork()
        if child == 0:
            _drive(root, tiny, choice.random(), attempt, wanted)
        if choice.random() < 0.3:
            time.sleep(choice.random() * 0.08)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        choice.random()  # the child's random numbers must not repeat
        if os.WIFEXITED(status):
            if os.WEXITSTATUS(status) != 0:
                raise SystemExit(f"a driver failed with status {os.WEXITSTATUS(status)}")
            return attempt
    raise SystemExit("the run doesn't come to an end")


def _drive(root: Path, tiny: Task, draw: float, attempt: int, wanted: RunConfig) -> None:
    """Run or resume in this process, which kills itself before or after a random commit; never returns."""
    status = 1
    try:
        choice = random.Random(draw)
        _die_at_commit(choice)
        simulated = Landscape if wanted.mutation.answerer == "recorded" else SimulatedEvaluator
        evaluator = simulated(tiny.card("five"), 5, lambda request: SLOWNESS_S)
        folder = root / "sim"
        executor = Among(evaluator, choice.choice([1, 3, 8]), attempt)
        executor.outside = Outside(folder, attempt)
        if wanted.mutation.answerer == "mailbox":
            parts.Parts.desk = lambda these, mailbox, *_: MailboxDesk(mailbox, executor.outside)  # type: ignore[method-assign]
        if wanted.mutation.answerer == "recorded":
            parts.Parts.answerer = lambda *_: Editor()  # type: ignore[method-assign]
        if holds_run(folder):
            api.resume(folder, executor=executor)
        else:
            api.run(wanted, root=root, executor=executor)
        status = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(status)


def _die_at_commit(choice: random.Random) -> None:
    """SIGKILL this process before or after one of the next commits, most often a near one."""
    left = int(choice.expovariate(1 / 25))
    before = choice.random() < 0.5
    append = Store.append

    def deadly(store: Store, *events: Event, prompts: Sequence[str] = ()) -> int:
        nonlocal left
        left -= 1
        if left < 0 and before:
            os.kill(os.getpid(), signal.SIGKILL)
        seq = append(store, *events, prompts=prompts)
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return seq

    Store.append = deadly  # type: ignore[method-assign]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
