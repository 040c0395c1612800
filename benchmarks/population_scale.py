"""How the population scales, and how it compares: `python benchmarks/population_scale.py [CANDIDATES] [--peers PYTHON]`.

First a run of CANDIDATES (100,000) kernels of about 8 KB is made, each a small edit of one of the last. Printed are the medians
of an insert (recognise, take in, fold: all that the controller does with an answer but storing it), of a parent's choice, of the
best, of an ancestry; then the time a fresh process takes to resume from the store, and the memory it holds.

With ``--peers`` (a Python that has ``openevolve`` and ``shinka-evolve``) the same sources are given to the databases of
OpenEvolve and ShinkaEvolve at 500, 2,000 and 5,000 programs, after ours: insert (memory of sources, lineage and archive;
recognising a source in its normal form, which they don't do, and storing it are told apart), sample, bytes that go to a worker.
"""

import argparse
import json
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from threading import Thread

import numpy as np

from evaluator.outcome import Device, Effort, Fitness, Outcome, Stage, Verdict
from evaluator.request import Request
from evaluator.task_card import Scenario, TaskCard
from evolve.rules import Rules
from evolve.state import State
from mutators.moments import ancestry
from population.candidate import Language, Origin, Step
from population.lineage import Lineage
from population.novelty import candidate_of
from population.selection import select
from results.events import Event, RunStarted, StepAsked, StepEvaluated
from results.store import Store

DEVICE = Device(kind="cpu", name="bench", arch="none", cores=2, peak_tflops=1.0, peak_gbs=10.0)
CARD_OF_ONE = TaskCard(
    name="bench", summary="", contract="", symbols=(), tensors=(), scalars={}, scenario_set="one",
    scenarios=(Scenario(name="s", symbols={}),), regions=(), baselines=("torch",), hash="0",
)  # fmt: skip
ISLANDS, CAPACITY = 5, 32
SIZES = (500, 2_000, 5_000)
LINE = "    acc[{n}] = fmaf(q[i * {a}], k[j + {b}], acc[{n}]);  // row {n}\n"
SAMPLES = 400
BATCH = 200
PEER = Path(__file__).with_name("population_scale_peers.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A kernel to insert; ``parent`` is an earlier one's number, None for the seed."""

    number: int
    parent: int | None
    source: str
    score: float


def programs(count: int) -> Iterator[Program]:
    """Kernels of 8 KB, the same for the same count: three lines of one of the last hundred are changed."""
    rng = random.Random(1)
    recent = [[LINE.format(n=n, a=n, b=n) for n in range(140)]]
    for number in range(count):
        place = rng.randrange(len(recent))
        lines = list(recent[place])
        for _ in range(3):
            n = rng.randrange(len(lines))
            lines[n] = LINE.format(n=n, a=number, b=rng.randrange(1000))
        parent = number - len(recent) + place if number else None
        recent = [*recent, lines][-100:] if number else [lines]
        source = f"/* plan\nkernel = 'f'\n*/\nvoid f() {{\n{''.join(lines)}}}\n"
        yield Program(number=number, parent=parent, source=source, score=rng.lognormvariate(0, 0.3))


def outcome_of(candidate_id: str, score: float) -> Outcome:
    fitness = Fitness(
        opponent="torch", geomean=score, low=score * 0.998, high=score * 1.002, scenarios=1, worst_scenario="s",
        worst_ratio=score,
    )  # fmt: skip
    return Outcome(
        candidate_id=candidate_id, effort=Effort.SEARCH, verdict=Verdict.OK, stage=Stage.SCORE, message="", device=DEVICE,
        task_hash="0", harness="1", wall_s=1.0, fitness=fitness,
    )  # fmt: skip


class Ours:
    """This project's population, as a run folds it."""

    def __init__(self) -> None:
        self.state = State(CARD_OF_ONE, Rules(islands=ISLANDS, capacity=CAPACITY))
        self.lineage = Lineage()
        self.ids: list[str] = []

    def insert(self, program: Program) -> tuple[Event, ...]:
        """Recognise, take in and fold a program; the events that a run would store."""
        candidate = candidate_of(program.source, Language.CPP)
        known = self.state.known.duplicate(candidate)
        step = self.step(program, known.candidate_id if known else candidate.id)
        asked = StepAsked(step=step, candidate=None if known else candidate, duplicate_of=known.candidate_id if known else None)
        evaluated = () if known else (StepEvaluated(step_number=step.number, outcome=outcome_of(candidate.id, program.score)),)
        for event in (asked, *evaluated):
            self.state.apply(event)
        return asked, *evaluated, self.state.fold()

    def step(self, program: Program, candidate_id: str) -> Step:
        """The step that brings a program."""
        parent_id = None if program.parent is None else self.ids[program.parent]
        self.ids.append(candidate_id)
        return Step(
            number=program.number,
            origin=Origin.SEED if program.parent is None else Origin.QUESTION,
            island=self.state.archive.island_of(program.number),
            parent_id=parent_id,
            candidate_id=candidate_id,
        )

    def sample(self, number: int) -> None:
        """Choose a parent and inspirations."""
        select(self.state.archive, number % ISLANDS, np.random.default_rng(number))

    def worker_bytes(self) -> int:
        """The size of what one evaluation sends to a worker."""
        best = self.state.best
        assert best is not None
        request = Request(candidate=self.state.candidate(best.candidate_id), incumbent_low=best.score)
        return len(pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("candidates", nargs="?", type=int, default=100_000)
    parser.add_argument("--peers", help="a Python that has openevolve and shinka-evolve")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--resume", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.resume:
        resume(Path(chosen.resume))
        return
    if chosen.peers:
        compare(chosen.peers, chosen.sizes)
    if chosen.candidates:
        with tempfile.TemporaryDirectory() as scratch:
            scale(Path(scratch) / "run", chosen.candidates)


def scale(folder: Path, count: int) -> None:
    """Make a run of ``count`` candidates, and print what it costs at its end."""
    ours, inserts = Ours(), []
    pending: list[Event] = []
    with Store.create(folder, RunStarted(name="bench", config={}, config_hash="0", card=CARD_OF_ONE, version="0")) as store:
        for program in programs(count):
            start = time.perf_counter()
            events = ours.insert(program)
            inserts.append(time.perf_counter() - start)
            pending += events
            if len(pending) >= BATCH:
                store.append(*pending)
                pending.clear()
        if pending:
            store.append(*pending)
    state = ours.state
    best = state.best
    assert best is not None
    numbers = iter(range(SAMPLES))
    ids = ours.ids[-SAMPLES:]
    depth = len(ancestry(state.makers, ids[-1]))
    print(f"{count} candidates; medians in ms")
    print(f"  insert    {median(inserts[-1000:]) * 1e3:9.4f}  (of all {median(inserts) * 1e3:.4f})")
    print(f"  sample    {median_ms(lambda: ours.sample(next(numbers)), SAMPLES):9.4f}")
    print(f"  best      {median_ms(lambda: state.best, SAMPLES):9.4f}")
    print(f"  ancestry  {median_ms(lambda: ancestry(state.makers, ids.pop()), SAMPLES):9.4f}  ({depth} deep)")
    print(f"  memory    {peak_mb():9.1f} MB at most of the process that made it", flush=True)
    subprocess.run([sys.executable, __file__, "--resume", folder], check=True)


def resume(folder: Path) -> None:
    """Print what it takes to bring a stored run back."""
    bare_mb, start = peak_mb(), time.perf_counter()
    state = State(CARD_OF_ONE, Rules(islands=ISLANDS, capacity=CAPACITY))
    with Store.open(folder) as store:
        for recorded in store.events():
            state.apply(recorded.event)
    took_s = time.perf_counter() - start
    print(f"  resume    {took_s:9.2f} s, {peak_mb():.1f} MB at most ({bare_mb:.1f} before), {state.folded} steps folded")


def compare(python: str, sizes: Sequence[int]) -> None:
    """Print ours and the peers' figures at each size, over the same programs."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "programs.jsonl"
        made = list(programs(max(sizes)))
        with path.open("w") as lines:
            lines.writelines(json.dumps(asdict(one)) + "\n" for one in made)
        ours = {row["size"]: row for row in own_figures(made, sizes, Path(scratch) / "run")}
        print(f"{'':12s} {'programs':>8s} {'insert ms':>10s} {'sample ms':>10s} {'bytes to a worker':>18s}")
        for size in sizes:
            show("ours", ours[size], ours[size])
            print(f"{'':21s} {ours[size]['recognise_ms']:10.3f}  more to recognise a source first")
            print(f"{'':21s} {ours[size]['store_ms']:10.3f}  more to have it on disk, in a transaction of its own")
        for peer in ("openevolve", "shinka"):
            command = [python, str(PEER), peer, str(path), *map(str, sizes)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                assert process.stderr is not None
                complaint: list[str] = []
                reader = Thread(target=lambda lines, to: to.extend(lines), args=(process.stderr, complaint))
                reader.start()
                for line in process.stdout:
                    row = json.loads(line)
                    show(peer, row, ours[row["size"]])
                reader.join()
            if process.returncode:
                print(f"{peer}: no figures beyond these: {complaint[-1].strip() if complaint else process.returncode}")


def own_figures(made: Sequence[Program], sizes: Sequence[int], folder: Path) -> Iterator[dict[str, float]]:
    ours, recognised, inserts, stored = Ours(), [], [], []
    store = Store.create(folder, RunStarted(name="bench", config={}, config_hash="0", card=CARD_OF_ONE, version="0"))
    for program in made:
        start = time.perf_counter()
        candidate = candidate_of(program.source, Language.CPP)
        recognised.append(time.perf_counter() - start)
        step, outcome = ours.step(program, candidate.id), outcome_of(candidate.id, program.score)
        start = time.perf_counter()
        ours.state.known.add(candidate)
        ours.lineage.add(step)
        ours.state.archive.fold(step, outcome)
        inserts.append(time.perf_counter() - start)
        events = StepAsked(step=step, candidate=candidate), StepEvaluated(step_number=step.number, outcome=outcome)
        start = time.perf_counter()
        store.append(*events)
        stored.append(time.perf_counter() - start)
        if len(inserts) in sizes:
            numbers = iter(range(SAMPLES))
            yield {
                "size": len(inserts), "insert_ms": median(inserts[-200:]) * 1e3, "bytes": ours.worker_bytes(),
                "sample_ms": median_ms(lambda: ours.sample(next(numbers)), SAMPLES),  # noqa: B023  (called at once)
                "recognise_ms": median(recognised[-200:]) * 1e3,
                "store_ms": median(stored[-200:]) * 1e3,
            }  # fmt: skip
    store.close()


def show(name: str, row: Mapping[str, float], ours: Mapping[str, float]) -> None:
    """A line of the table, with how many times as much it is as ours."""
    times = ", ".join(f"{key.split('_')[0]} {row[key] / ours[key]:.0f}x" for key in ("insert_ms", "sample_ms", "bytes"))
    figures = f"{row['size']:8.0f} {row['insert_ms']:10.3f} {row['sample_ms']:10.3f} {row['bytes']:18.0f}"
    print(f"{name:12s} {figures}  {'' if row is ours else times}", flush=True)


def median_ms(what: Callable[[], object], count: int) -> float:
    took = []
    for _ in range(count):
        start = time.perf_counter()
        what()
        took.append(time.perf_counter() - start)
    return median(took) * 1e3


def peak_mb() -> float:
    """The most memory that this process ever held, in MB (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


if __name__ == "__main__":
    main()
