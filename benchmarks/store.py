"""How fast the store, the lineage and the archive are at size: `python benchmarks/store.py [CANDIDATES] [FOLDER]`.

Prints one line per measurement. Sources are about 8 KB, as kernels are. Set FOLDER to try a certain disk.
"""

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from evaluator.outcome import Device, Effort, Fitness, Outcome, Stage, Verdict
from evaluator.task_card import TaskCard
from population.candidate import Language, Origin, Step, hash_text
from population.islands import IslandArchive
from population.lineage import Lineage
from population.novelty import Known, candidate_of, near_duplicate
from population.selection import select
from results.events import RunStarted, StepAsked, StepEvaluated, StepFolded
from results.reader import Reader
from results.store import Store

DEVICE = Device(kind="cpu", name="bench", arch="none", cores=2, peak_tflops=1.0, peak_gbs=10.0)
CARD = TaskCard(
    name="bench",
    summary="",
    contract="",
    symbols=(),
    tensors=(),
    scalars={},
    scenario_set="quick3",
    scenarios=(),
    regions=(),
    baselines=("torch",),
    hash="0",
)
LINE = "    acc[{n}] = fmaf(q[i * {a}], k[j + {b}], acc[{n}]);  // row {n}\n"


@contextmanager
def timed(what: str, count: int = 1) -> Iterator[None]:
    start = time.perf_counter()
    yield
    took = time.perf_counter() - start
    print(f"{what:48s} {took:9.3f} s {took / count * 1e3:10.4f} ms each ({count})")


def source_of(number: int) -> str:
    lines = "".join(LINE.format(n=n, a=number % (n + 7), b=n) for n in range(140))
    return f"/* plan\nkernel = 'f'\n*/\n// {number}\nvoid f{number}() {{\n{lines}}}\n"


def events_of(number: int, random_state: random.Random, ids: list[str]) -> tuple[StepAsked, StepEvaluated, StepFolded]:
    parent = ids[max(0, number - 1 - int(random_state.expovariate(0.05)))] if ids else None
    candidate = candidate_of(source_of(number), Language.CPP)
    ids.append(candidate.id)
    origin = Origin.SEED if parent is None else Origin.QUESTION
    step = Step(number=number, origin=origin, island=number % 4, parent_id=parent, candidate_id=candidate.id)
    geomean = random_state.lognormvariate(0, 0.3)
    fitness = Fitness(
        opponent="torch",
        geomean=geomean,
        low=geomean * 0.998,
        high=geomean * 1.002,
        scenarios=3,
        worst_scenario="s",
        worst_ratio=geomean,
    )
    outcome = Outcome(
        candidate_id=candidate.id,
        effort=Effort.SEARCH,
        verdict=Verdict.OK,
        stage=Stage.SCORE,
        message="",
        device=DEVICE,
        task_hash="0",
        harness="1",
        wall_s=1.0,
        fitness=fitness,
    )
    evaluated = StepEvaluated(step_number=number, outcome=outcome)
    folded = StepFolded(step_number=number, status="added", accepted=False, best_id=candidate.id)
    return StepAsked(step=step, candidate=candidate), evaluated, folded


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as scratch:
        folder = Path(scratch) / "run"
        write(folder, count)
        read(folder)
    recognise()


def write(folder: Path, count: int) -> None:
    random_state = random.Random(1)
    ids: list[str] = []
    with Store.create(folder, RunStarted(name="bench", config={}, config_hash="0", card=CARD, version="0")) as store:
        singles = [events_of(number, random_state, ids) for number in range(200)]
        with timed("append, one event a transaction", 600):
            for events in singles:
                for event in events:
                    store.append(event)
        with timed("make sources, hash, append in batches of 600", count - 200):
            for start in range(200, count, 200):
                batch = [events_of(number, random_state, ids) for number in range(start, min(start + 200, count))]
                store.append(*(event for events in batch for event in events))
    print(f"{'file size':48s} {sum(path.stat().st_size for path in folder.iterdir()) / 1e6:9.1f} MB")


def read(folder: Path) -> None:
    with timed("open for writing, with all checks"):
        Store.open(folder).close()
    with Reader.open(folder) as reader:
        with timed("run at a glance"):
            info = reader.info()
        with timed("best"):
            best = reader.best()
        assert best is not None
        with timed("ancestors in SQL"):
            line = reader.ancestors(best.id)
        with timed(f"one candidate with its source (depth {len(line)})"):
            reader.candidate(best.id[:12])
        with timed("top 100 by fitness"):
            reader.candidates(order="fitness", limit=100)
        with timed("funnel"):
            reader.funnel()
        with timed("replay of all events", info.events):
            steps = [recorded.event for recorded in reader.events()]
        asked = [event.step for event in steps if isinstance(event, StepAsked)]
        outcomes = {event.step_number: event.outcome for event in steps if isinstance(event, StepEvaluated)}
    with timed("lineage of all steps", len(asked)):
        lineage = Lineage(asked)
    with timed("ancestors in memory"):
        lineage.ancestors(best.id)
    archive = IslandArchive(scenarios=3)
    with timed("fold of all steps", len(asked)):
        for step in asked:
            archive.fold(step, outcomes[step.number])
    rng = np.random.default_rng(1)
    with timed("selection", 1000):
        for number in range(1000):
            select(archive, number % 4, rng)


def recognise() -> None:
    sources = [source_of(number) for number in range(100)]
    with timed(f"identity of a source of {len(sources[0])} bytes", 100):
        candidates = [candidate_of(source, Language.CPP) for source in sources]
    known = Known(candidates)
    with timed("exact or normalised duplicate", 100):
        for candidate in candidates:
            known.duplicate(candidate)
    assert hash_text(sources[0]) == candidates[0].id
    with timed("near duplicate among 99", 1):
        near_duplicate(candidates[0], candidates[1:], 0.95)


if __name__ == "__main__":
    main()
