"""For benchmarks/noise.py: good kernels among hanging, trapping and stray-writing ones."""

import random
import sys
from dataclasses import asdict, replace

import psutil
from noise_place import CHEATS, Place, Report, seed_source, within

from evaluator.harness import Harness
from evaluator.outcome import Fitness, Outcome, Verdict
from evaluator.request import Request
from evaluator.statistics import median
from evaluator.task import Task, load_task
from population.candidate import Candidate
from population.novelty import candidate_of

STORM = {"good": 60, "hang": 20, "trap": 10, "write_past_end": 10}
ALONE = 5
DEADLINE_S = 1.0
MOST_GROWTH_BYTES = 256 << 20
EXPECTED = {
    "good": {Verdict.OK, Verdict.AMBIGUOUS},
    "hang": {Verdict.TIMEOUT},
    "trap": {Verdict.CRASH},
    "write_past_end": {Verdict.OUT_OF_BOUNDS},
}


def measure_storm(where: Place, limit_s: float) -> Report:
    """A hundred candidates in random order: verdicts, figures, processes and memory."""
    task, set_name = storm_task(where)
    settings = replace(where.settings, least_deadline_s=DEADLINE_S, hidden_scenarios=0)
    harness = Harness(task, set_name, where.backend, settings)
    sources = {"good": where.good.read_text() if where.good else seed_source(where)}
    for name in ("hang", "trap", "write_past_end"):
        path = where.bad / f"{where.hang if name == 'hang' else name}.{where.language.value}"
        sources[name] = path.read_text()
    names = [name for name, count in STORM.items() for _ in range(count)]
    random.shuffle(names)

    def evaluated(name: str, mark: str) -> Outcome:
        return harness.evaluate(Request(candidate=numbered(sources[name], where, mark)))

    alone = [evaluated("good", f"alone {at}").fitness for at in range(ALONE)]
    before, used = len(psutil.Process().children(recursive=True)), memory_bytes()
    rows = [(name, evaluated(name, f"storm {at}")) for at, name in enumerate(within(limit_s, names))]
    done = len(rows)
    rows.append(("good", evaluated("good", "after the storm")))
    processes, growth_bytes = len(psutil.Process().children(recursive=True)) - before, memory_bytes() - used
    report = Report()
    report.claim(f"{done} of {len(names)} evaluated, none lost", done == len(names))
    report.claim(f"{processes} processes more than before, none", processes <= 0)
    report.claim(
        f"{growth_bytes / 2**20:.0f} MiB more than before, at most {MOST_GROWTH_BYTES >> 20}", growth_bytes <= MOST_GROWTH_BYTES
    )
    _judge(report, rows, [one for one in alone if one is not None])
    report.figures["growth_bytes"] = growth_bytes
    return report


def _judge(report: Report, rows: list[tuple[str, Outcome]], alone: list[Fitness]) -> None:
    wrong = [(name, outcome) for name, outcome in rows if outcome.verdict not in EXPECTED[name]]
    report.lines += [f"  {name} came out as {outcome.verdict}: {outcome.message[:150]}" for name, outcome in wrong]
    report.claim(f"{len(wrong)} of {len(rows)} blamed wrongly, none", not wrong)
    seconds = {name: median([one.wall_s for other, one in rows if other == name]) for name, _ in rows}
    report.lines.append("  median seconds: " + ", ".join(f"{name} {value:.2f}" for name, value in sorted(seconds.items())))
    fits = [outcome.fitness for name, outcome in rows if name == "good" and outcome.fitness is not None]
    low, high = min(one.low for one in alone), max(one.high for one in alone)
    inside = sum(low <= fit.high and fit.low <= high for fit in fits)
    report.claim(
        f"{inside} of {len(fits)} good ones overlap the range alone [{low:.3f}, {high:.3f}], at least 95 %",
        bool(fits) and inside >= 0.95 * len(fits),
    )
    report.figures |= {"alone": [low, high], "good": list(map(asdict, fits)), "seconds": seconds}


def storm_task(where: Place) -> tuple[Task, str]:
    """The light task of the packs on a GPU, attention in its quick set on the CPU."""
    if where.good is None:
        return load_task("attention_forward"), where.small_set
    task = load_task(str(CHEATS / "cuda" / "task"))
    single = {"storm": tuple(one for one in task.scenarios["pack"] if one.symbols["dtype"] == "fp32")}
    return replace(task, scenarios=single), "storm"


def numbered(source: str, where: Place, mark: str) -> Candidate:
    return candidate_of(f"{source}\n// {mark}\n", where.language)


def memory_bytes() -> int:
    """Memory of this process and its children, and of every GPU that this process sees."""
    here = psutil.Process()
    total = sum(one.memory_info().rss for one in (here, *here.children(recursive=True)))
    if "cupy" in sys.modules:
        free, most = sys.modules["cupy"].cuda.runtime.memGetInfo()
        total += most - free
    return int(total)
