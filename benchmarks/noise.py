"""Is the clock to be trusted? Four parts, each with a table and one verdict for each figure that it must reach.

    python benchmarks/noise.py aa sensitivity          # the baseline against itself; copies slowed by 3 % and by 1 %
    python benchmarks/noise.py ranking storm           # six kernels in four sessions; good kernels among bad ones

Run from the repository's root on a machine that does nothing else. ``--backend cpu`` tries it out where there is no GPU. Each
part ends at its time limit and says how far it got; a part that is cut short doesn't pass. ``--json FILE`` keeps all figures.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from noise_place import Place, Report, place
from noise_races import measure_aa, measure_ranking, measure_sensitivity
from noise_storm import measure_storm

from population.candidate import Language
from results.text import table


def flush_lines(where: Place) -> list[str]:
    """What flushing the L2 cache does to a copy, on a GPU."""
    if where.language is not Language.CUDA:
        return []
    from evaluator.cuda.device import find_gpu

    command = [sys.executable, "-m", "evaluator.cuda.steadiness", "0", find_gpu(0).uuid]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [f"steadiness: {(done.stdout or done.stderr).strip()}"]


PARTS: dict[str, tuple[Callable[[Place, float], Report], float]] = {
    "aa": (measure_aa, 150.0),
    "sensitivity": (measure_sensitivity, 90.0),
    "ranking": (measure_ranking, 170.0),
    "storm": (measure_storm, 260.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=PARTS, metavar="part", help=", ".join(PARTS))
    parser.add_argument("--backend", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--set", help="scenario set of the part aa (default: fa3_36 on a GPU, cpu_quick on the CPU)")
    parser.add_argument("--limit-s", type=float, help="time limit of each part (default: 90 to 260 s)")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    where = place(given.backend, given.set)
    print(f"{where.backend.device.name}, load {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    print("\n".join(flush_lines(where)))
    kept: dict[str, Any] = {"device": asdict(where.backend.device), "settings": asdict(where.settings)}
    verdicts = []
    try:
        for name in given.parts:
            measure, limit_s = PARTS[name]
            started_s = time.monotonic()
            report = measure(where, given.limit_s or limit_s)
            print(
                f"\n{name}: {time.monotonic() - started_s:.0f} s, load {os.getloadavg()[0]:.2f}",
                *report.lines,
                sep="\n",
                flush=True,
            )
            verdicts += [(name, "reached" if holds else "MISSED", text) for text, holds in report.claims]
            kept[name] = report.figures | {"claims": report.claims}
            if given.json:
                given.json.write_text(json.dumps(kept, indent=1, default=str))
    finally:
        where.backend.close()
    print("", *table(("part", "", "figure"), verdicts), sep="\n")
    sys.exit(0 if all(verdict == "reached" for _, verdict, _ in verdicts) else 1)


if __name__ == "__main__":
    main()
