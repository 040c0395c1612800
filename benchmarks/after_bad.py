"""Does a good kernel's figure suffer after bad candidates? Its ratio alone, and again after each of them, in one session.

Run from the repository's root on an otherwise idle machine: ``python benchmarks/after_bad.py``. Prints the good kernel's ratio to
the baseline alone and after each bad candidate, and how many of the latter intervals overlap the former.
"""

import argparse
import math
import statistics
from pathlib import Path

from evaluator.cache import default_folder
from evaluator.cpu.backend import CpuBackend
from evaluator.harness import Harness
from evaluator.outcome import Outcome
from evaluator.request import Request
from evaluator.settings import quick_settings
from evaluator.task import load_task
from evolve.evaluators import spare_cores
from population.candidate import Language
from population.novelty import candidate_of
from results.text import table

ROOT = Path(__file__).parent.parent
BAD = ROOT / "tests" / "cheats" / "attention"
DEFAULT = (
    "endless_loop", "trap", "write_past_end", "write_input", "all_zeros", "half_the_rows", "wrong_scale", "constructor",
    "hidden_system_call", "hidden_clock", "template_bomb", "static_gigabyte", "huge_frame",
)  # fmt: skip


def evaluated(harness: Harness, path: Path) -> Outcome:
    source = path.read_bytes().decode("utf-8", "surrogateescape")
    return harness.evaluate(Request(candidate=candidate_of(source, Language.CPP)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bad", nargs="*", help="names of candidates below tests/cheats/attention")
    parser.add_argument("--alone", type=int, default=5, help="evaluations of the good kernel before the first bad one")
    given = parser.parse_args()
    known = {path.stem: path for path in sorted(BAD.glob("*.cpp"))}
    names = given.bad or DEFAULT
    task = load_task("attention_forward")
    good = task.seeds(Language.CPP)["cpu_blocked"]
    harness = Harness(task, "cpu_quick", CpuBackend(default_folder(), spare_cores()), quick_settings())
    rows: list[tuple[str, str, float, float, float]] = []
    try:
        for number in range(given.alone):
            rows.append(("alone", str(number + 1), *figures(evaluated(harness, good))))
        for name in names:
            verdict = evaluated(harness, known[name]).verdict
            rows.append((f"after {name}", verdict, *figures(evaluated(harness, good))))
    finally:
        harness.close()
    report(rows, given.alone)


def figures(outcome: Outcome) -> tuple[float, float, float]:
    if outcome.fitness is None:
        raise SystemExit(f"the good kernel came out as {outcome.verdict}: {outcome.message}")
    return outcome.fitness.geomean, outcome.fitness.low, outcome.fitness.high


def report(rows: list[tuple[str, str, float, float, float]], alone: int) -> None:
    print("\n".join(table(("good kernel", "verdict before", "ratio", "low", "high"), rows)))
    solo = [row[2] for row in rows[:alone]]
    low, high = min(row[3] for row in rows[:alone]), max(row[4] for row in rows[:alone])
    after = rows[alone:]
    inside = sum(low <= row[4] and row[3] <= high for row in after)
    change = math.exp(statistics.mean(math.log(row[2]) for row in after) - statistics.mean(math.log(ratio) for ratio in solo))
    print(f"\n{inside} of {len(after)} intervals after a bad candidate overlap the range alone [{low:.3f}, {high:.3f}]")
    print(f"geometric mean after / alone: {change:.4f}")


if __name__ == "__main__":
    main()
