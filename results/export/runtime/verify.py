"""``python -m PACKAGE.verify``: is the kernel right here, and how fast against torch? Exit code 1 where it isn't right."""

import argparse
import importlib
import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .attention_torch import exact, sdpa
from .package import FOLDER, check_manifest, document
from .signature import TORCH_TYPES
from .verify_text import lines

SCALES = {"normal": 1.0, "large": 8.0, "tiny": 1e-3}
FLOOR = 1e-6
BLOCKS = 16
WINDOW_US = 2000.0
LEAST_RUNS = 1
ALPHA = 0.05


def main(arguments: list[str]) -> int:
    """Exit code: 0 where every check passes."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}.verify", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="ABBA blocks of each race (8 or more for an interval)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the inputs")
    parser.add_argument("--threads", type=int, default=0, help="threads of a CPU kernel and of torch; 0: as in the final")
    given = parser.parse_args(arguments)
    found = verify(given.blocks, given.seed, given.threads)
    print(json.dumps(found, indent=1) if given.json else "\n".join(lines(found)))
    return 0 if found["passed"] else 1


def verify(blocks: int, seed: int, threads: int) -> dict[str, Any]:
    """Checks and races of every scenario that the kernel's final tested, as plain data; times in microseconds."""
    check_manifest()
    package = importlib.import_module(str(__package__))
    domain, final = document("domain.json"), document("final.json")
    device = torch.device("cuda" if domain["device_type"] == "cuda" else "cpu")
    if device.type == "cpu":  # before the first call, which counts them
        torch.set_num_threads(threads or final["device"]["cores"])
    published = {(t["scenario"], t["opponent"]): t for t in final["timings"]}
    generator = torch.Generator().manual_seed(seed)
    package.on_outside("raise")
    checks, races = [], []
    with torch.no_grad():
        for point in domain["points"]:
            call = getattr(package, document("task.json")["name"])
            checks += [_check(call, point, name, generator, device) for name in SCALES]
            opponent = final["fitness"]["opponent"]
            races.append({**_race(call, point, generator, device, blocks), "final": published.get((point["name"], opponent))})
    return {
        "package": FOLDER.name,
        "candidate": document("manifest.json")["candidate"],
        "device": torch.cuda.get_device_name() if device.type == "cuda" else domain["arch"],
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "passed": all(check["passed"] for check in checks),
        "checks": checks,
        "races": races,
    }


def _inputs(point: Mapping[str, Any], scale: float, generator: torch.Generator, device: torch.device) -> tuple[Any, ...]:
    """The operator's arguments for one scenario."""
    s = point["symbols"]
    shapes = [(s["b"], s["sq"], s["h"], s["d"]), *[(s["b"], s["sk"], s["hkv"], s["d"])] * 2]
    dtype = TORCH_TYPES[s["dtype"]]
    tensors = [(torch.randn(shape, generator=generator) * scale).to(dtype).to(device) for shape in shapes]
    return (*tensors, point["scalars"]["scale"], s["causal"], s["window"])


def _check(
    call: Callable[..., Any], point: Mapping[str, Any], name: str, generator: torch.Generator, device: torch.device
) -> Any:
    """The largest error of ``out`` and of ``lse`` against float64.

    ``out`` may err twice as much as torch does on these inputs (the rule of flash-attention's tests) and FLOOR of the largest
    value beside; ``lse`` 1e-4 of its largest value.
    """
    arguments = _inputs(point, SCALES[name], generator, device)
    out, lse = call(*arguments)
    right, right_lse = exact(*arguments)
    peak = float(right.abs().max())
    allowed = 2 * float((sdpa(*arguments).double() - right).abs().max()) + FLOOR * peak
    error = float((out.double() - right).abs().max())
    seen = torch.isfinite(right_lse)
    same = bool((torch.isfinite(lse) == seen).all())
    error_lse = float((lse.double() - right_lse)[seen].abs().max()) if bool(seen.any()) else 0.0
    allowed_lse = 1e-4 * max(1.0, float(right_lse[seen].abs().max()) if bool(seen.any()) else 1.0)
    passed = math.isfinite(error) and error <= allowed and same and error_lse <= allowed_lse
    return {
        "scenario": point["name"], "inputs": name, "passed": passed, "max_error": error if math.isfinite(error) else None,
        "allowed": allowed, "lse_error": error_lse if math.isfinite(error_lse) else None, "lse_allowed": allowed_lse,
    }  # fmt: skip


def _race(
    call: Callable[..., Any], point: Mapping[str, Any], generator: torch.Generator, device: torch.device, blocks: int
) -> Any:
    """Kernel against torch's SDPA in ABBA blocks: median ratio with the interval of order statistics at ALPHA."""
    arguments = _inputs(point, 1.0, generator, device)
    sides = (lambda: call(*arguments), lambda: sdpa(*arguments))
    runs = [max(LEAST_RUNS, min(1000, int(WINDOW_US / min(_window(side, 1, device) for _ in range(3))))) for side in sides]
    ours, theirs, ratios = [], [], []
    for _ in range(blocks):
        a1, b1, b2, a2 = (_window(sides[i], runs[i], device) for i in (0, 1, 1, 0))
        ours += [a1, a2]
        theirs += [b1, b2]
        ratios.append(math.sqrt(b1 * b2 / (a1 * a2)))
    ratios.sort()
    rank = _rank(blocks)
    return {
        "scenario": point["name"], "kernel_us": _median(ours), "torch_us": _median(theirs), "ratio": _median(ratios),
        "low": ratios[rank - 1] if rank else None, "high": ratios[-rank] if rank else None, "blocks": blocks,
    }  # fmt: skip


def _window(call: Callable[[], Any], runs: int, device: torch.device) -> float:
    """Microseconds of one execution, over ``runs`` of them; by events on a GPU."""
    if device.type == "cuda":
        begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begun.record()
        for _ in range(runs):
            call()
        ended.record()
        ended.synchronize()
        return max(float(begun.elapsed_time(ended)) * 1000 / runs, 1e-3)
    started = time.perf_counter_ns()
    for _ in range(runs):
        call()
    return (time.perf_counter_ns() - started) / 1000 / runs


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])


def _rank(count: int) -> int:
    """The largest k for which the k-th smallest and largest of ``count`` values enclose the median with 1 - ALPHA; 0: none."""
    missing, rank = 0.0, 0
    while rank < count // 2:
        missing += math.comb(count, rank) * 2.0 ** (1 - count)
        if missing > ALPHA:
            break
        rank += 1
    return rank


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
