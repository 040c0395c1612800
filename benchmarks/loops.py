"""How fast lines that come back are found: `python benchmarks/loops.py [LINEAGE] [LINES]`.

A lineage of LINEAGE attempts (1,000), each of which takes away and brings LINES lines (60), one in ten of them from earlier in
the lineage. Prints the time of one search, of which a step makes two, and compares its answer with a comparison byte by byte.
"""

import random
import sys
import time
from itertools import pairwise

from mutators.attempts import Attempt, line_changes
from mutators.moments import readded


def source_of(lines: dict[int, str]) -> str:
    return "".join(f"{line}\n" for line in lines.values())


def lineage(length: int, changed: int, rng: random.Random) -> tuple[list[Attempt], list[str]]:
    """Attempts of one lineage, and the sources before and after them."""
    lines = {number: f"    value{number} = load(address + {number});" for number in range(10 * changed)}
    gone: list[str] = []
    sources, attempts = [source_of(lines)], []
    for number in range(length):
        for slot in rng.sample(sorted(lines), changed):
            gone.append(lines[slot])
            back = rng.random() < 0.1
            lines[slot] = rng.choice(gone) if back else f"    value{slot} = load(address + {number} * {slot});"
        sources.append(source_of(lines))
        added, deleted = line_changes(sources[-2], sources[-1])
        attempts.append(
            Attempt(
                number=number, island=0, parent_id=f"c{number}", candidate_id=f"c{number + 1}", verdict="OK", accepted=True,
                added=added, deleted=deleted,
            )
        )  # fmt: skip
    return attempts, sources


def byte_by_byte(sources: list[str]) -> int:
    """Lines of the last edit that some earlier edit of the lineage had deleted, from the texts themselves."""
    deleted: set[str] = set()
    for before, after in pairwise(sources[:-1]):
        deleted |= set(_only(before, after))
    return sum(line in deleted for line in _only(sources[-1], sources[-2]))


def _only(source: str, other: str) -> list[str]:
    rest = other.split("\n")
    left = []
    for line in source.split("\n"):
        if line in rest:
            rest.remove(line)
        else:
            left.append(line)
    return left


def main() -> None:
    length = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    changed = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    attempts, sources = lineage(length, changed, random.Random(1))
    start = time.process_time()
    repeats = 20
    for _ in range(repeats):
        found = readded(attempts[-1], attempts)
    took_ms = (time.process_time() - start) / repeats * 1e3
    lines = found.lines if found else 0
    print(
        f"{length} attempts of {changed} lines: {took_ms:.2f} ms of processor time a search; {lines} lines came back, "
        f"{byte_by_byte(sources)} by a comparison byte by byte"
    )


if __name__ == "__main__":
    main()
