"""What ``verify`` found, as text for a terminal."""

import math
from collections.abc import Mapping, Sequence
from typing import Any


def lines(found: Mapping[str, Any]) -> list[str]:
    """Correctness in a line, failed checks, the races with their intervals, the geometric mean, where it was measured."""
    checks, races = found["checks"], found["races"]
    failed = [check for check in checks if not check["passed"]]
    text = [f"{'OK' if found['passed'] else 'WRONG'}: kernel {found['candidate'][:10]} of {found['package']}", ""]
    text.append(f"correctness: {len(checks) - len(failed)} of {len(checks)} checks passed")
    for check in failed:
        text.append(f"  {check['scenario']}, {check['inputs']}: error {check['max_error']}, allowed {check['allowed']:.2e}")
    rows = [("scenario", "us", "torch us", "ratio", "interval", "in the final")]
    for race in races:
        final = race["final"]
        interval = f"[{race['low']:.3f}, {race['high']:.3f}]" if race["low"] is not None else "too few blocks"
        then = f"{final['ratio']:.3f}x [{final['low']:.3f}, {final['high']:.3f}]" if final else ""
        rows.append(
            (race["scenario"], f"{race['kernel_us']:.1f}", f"{race['torch_us']:.1f}", f"{race['ratio']:.3f}x", interval, then)
        )
    mean = math.exp(sum(math.log(race["ratio"]) for race in races) / len(races))
    text += ["", *_table(rows), "", f"{mean:.3f} times torch (geometric mean over {len(races)} scenarios)"]
    text.append(f"device: {found['device']}; torch {found['torch']}; threads: {found['threads']}")
    return text


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
