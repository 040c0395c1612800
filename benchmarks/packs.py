"""How often the CPU packs are judged as they must be: bad candidates over and over, unusual right ones over and over.

    python benchmarks/packs.py --bad 100 --honest 20

Each round takes a harness with secrets of its own and every candidate of the pack in a new order. A bad candidate with a verdict
that it mustn't get is a miss, a right one that isn't called right a false alarm; each is printed with its message. Exit code 1
where there was one. ``--seconds`` ends after the round that is then running.
"""

import argparse
import gc
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from evaluator.cpu.backend import CpuBackend
from evaluator.harness import Harness
from evaluator.outcome import Verdict
from evaluator.request import Request
from population.candidate import Language
from population.novelty import candidate_of
from tests.cheats.attention_session import COMPILE_LIMITS, RIGHT, SET, SETTINGS, bad_source, honest_sources, small_task
from tests.cheats.test_attention_cheats import BY_ADDRESS, CASES
from tests.cheats.test_cpu_cheats import host_offsets

BY_CHANCE = {
    BY_ADDRESS: {Verdict.WRONG, Verdict.STALE_OUTPUT, Verdict.NONDETERMINISTIC},
    "sometimes_wrong": {Verdict.WRONG, Verdict.NONFINITE},
    "no_maximum": {Verdict.NONFINITE, Verdict.WRONG},
    "race": {Verdict.NONDETERMINISTIC, Verdict.WRONG, Verdict.STALE_OUTPUT},
}
"""Bad candidates whose verdict depends on addresses, contents or the order of threads."""


def allowed(name: str) -> set[Verdict]:
    """The verdicts that a bad candidate may get."""
    return BY_CHANCE.get(name) or {CASES[name][0]}


def source_of(name: str, cache: Path) -> str:
    """A bad candidate; those that forge the host's reports get the offsets that they would have to guess."""
    source = bad_source(name)
    if "HOST_OFFSET" not in source:
        return source
    end = source.index("*/\n") + 3
    return source[:end] + "".join(f"#define {key} {value}\n" for key, value in host_offsets(cache).items()) + source[end:]


def one_round(names: Sequence[str], good: bool, cache: Path) -> list[str]:
    """What was judged otherwise than it must be, a line each."""
    backend = CpuBackend(cache, threads=2, compile_limits=COMPILE_LIMITS)
    judge = Harness(small_task(), SET, backend, SETTINGS, lock=cache.parent / "lock")
    wrong = []
    try:
        for name in random.sample(names, len(names)):
            source = honest_sources()[name] if good else source_of(name, cache)
            outcome = judge.evaluate(Request(candidate=candidate_of(source, Language.CPP)))
            if outcome.verdict not in (RIGHT if good else allowed(name)):
                wrong.append(f"{name}: {outcome.verdict}: {outcome.message}")
    finally:
        judge.close()
        gc.collect()
    return wrong


def rounds(kind: str, names: Sequence[str], count: int, ends_s: float, cache: Path) -> int:
    """Run up to ``count`` rounds; the number of verdicts that were wrong."""
    wrong, done, began_s = 0, 0, time.monotonic()
    while done < count and time.monotonic() < ends_s:
        found = one_round(names, kind == "honest", cache)
        done, wrong = done + 1, wrong + len(found)
        for line in found:
            print(f"  {kind} round {done}: {line}", flush=True)
        print(f"{kind}: {done} of {count} rounds, {done * len(names)} verdicts, {wrong} wrong", flush=True)
    print(f"{kind}: {wrong} wrong of {done * len(names)} verdicts in {done} rounds, {time.monotonic() - began_s:.0f} s")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bad", type=int, default=100, help="rounds over the bad candidates")
    parser.add_argument("--honest", type=int, default=20, help="rounds over the right ones")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no further round beyond this")
    chosen = parser.parse_args()
    os.nice(5)
    ends_s = time.monotonic() + chosen.seconds
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        wrong = rounds("honest", sorted(honest_sources()), chosen.honest, ends_s, cache)
        wrong += rounds("bad", sorted({*CASES, BY_ADDRESS}), chosen.bad, ends_s, cache)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
