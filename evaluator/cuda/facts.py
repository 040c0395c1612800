"""Facts of a CUDA candidate: of each build from ptxas' remarks, cubin, PTX and machine code; of its launches from the plan."""

import re
from collections.abc import Mapping, Sequence
from math import prod

from evaluator.cuda.cubin import Kernel, read_cubin
from evaluator.cuda.occupancy import Demand, occupancy
from evaluator.cuda.ptx import without_comments
from evaluator.cuda.sass import Sass, hot_kernel, kind_counts
from evaluator.plan.resolved import Resolved, ResolvedLaunch

Fact = int | float | str | bool

SERIALIZED = re.compile(r"\(C75(?:1\d|20)\)")
COMPILING = re.compile(r"^ptxas info\s*: Compiling entry function '(?P<name>[^']+)'")
SPILLS = re.compile(r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
USES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "uses_wgmma": (r"\bwgmma\.mma_async\b", ("hgmma_count",)),
    "uses_mma": (r"\b(?:mma\.sync|wmma\.mma)\b", ("mma_count",)),
    "uses_tma": (r"\bcp(?:\.reduce)?\.async\.bulk\.tensor\b", ("tma_load_count", "tma_store_count")),
    "uses_cp_async": (r"\bcp\.async\.c[ag]\b", ("cp_async_count",)),
}
"""Fact -> the PTX that shows it where the machine code isn't known, and the counts of machine instructions that do."""


def serialized_wgmma(log: str) -> tuple[str, ...]:
    """ptxas' remarks C7510 to C7520: wgmma instructions run one after the other, which halves a kernel's speed."""
    return tuple(dict.fromkeys(line.strip() for line in log.splitlines() if SERIALIZED.search(line)))


def spills_bytes(log: str) -> dict[str, int]:
    """Bytes of spill stores and loads for each kernel; the last report of a name counts."""
    spills: dict[str, int] = {}
    kernel = ""
    for line in log.splitlines():
        if match := COMPILING.match(line):
            kernel = match["name"]
            spills[kernel] = 0
        elif kernel and (match := SPILLS.search(line)):
            spills[kernel] += int(match["stores"]) + int(match["loads"])
    return spills


def compiler_facts(log: str, cubin: bytes, ptx: str = "", sass: Sass | None = None) -> dict[str, Fact]:
    """Facts with units in their names: the largest over the kernels, then ``KERNEL.name`` for each where there are several.

    ``wgmma_serialized`` (text of the remarks) comes first and only where ptxas made one. ``spill_bytes`` counts stores and loads,
    ``stack_bytes`` and ``registers`` are per thread, ``static_shared_bytes`` per block. Counts of instructions are those of the
    ``hot_kernel`` and there only with ``sass``; ``sass_forbidden`` names what the gate refuses in it.
    """
    facts: dict[str, Fact] = {}
    if remarks := serialized_wgmma(log):
        facts["wgmma_serialized"] = "\n".join(remarks)
    kernels = read_cubin(cubin).kernels
    spills = spills_bytes(log)
    each = {kernel.name: _kernel_facts(kernel, spills) for kernel in kernels}
    for values in each.values():
        for name, value in values.items():
            facts[name] = max(int(facts.get(name, 0)), value)
    if len(each) > 1:
        facts |= {f"{kernel}.{name}": value for kernel, values in each.items() for name, value in values.items()}
    return facts | instruction_facts(ptx, sass) | {"cubin_bytes": len(cubin)}


def instruction_facts(ptx: str, sass: Sass | None) -> dict[str, Fact]:
    """What the code is made of: counts and ``uses_...`` from the hot kernel's machine code, else ``uses_...`` from the PTX."""
    if sass is None:
        code = without_comments(ptx)
        return {"sass_examined": False, **{fact: bool(re.search(pattern, code)) for fact, (pattern, _) in USES.items()}}
    counts: Mapping[str, int] = {}
    facts: dict[str, Fact] = {"sass_examined": True}
    if name := hot_kernel(sass):
        facts["hot_kernel"] = name
        counts = kind_counts(sass.kernels[name])
    if sass.forbidden:
        facts["sass_forbidden"] = ", ".join(sass.forbidden)
    return facts | {fact: any(counts.get(kind) for kind in kinds) for fact, (_, kinds) in USES.items()} | dict(counts)


def launch_facts(build: Mapping[str, Fact], resolved: Resolved, arch: str) -> dict[str, Fact]:
    """What the plan adds in one scenario: ``shared_bytes`` of the neediest block, and the occupancy of the hot kernel.

    ``occupancy_limit`` names what keeps a further block off a multiprocessor. Empty but for the bytes where ``arch`` isn't known.
    """
    launches = resolved.launches
    facts: dict[str, Fact] = {"shared_bytes": max(_shared_bytes(build, launch) for launch in launches)}
    hot = _hot_launch(build, launches)
    threads = prod(hot.block)
    demand = Demand(
        registers=_of_kernel(build, hot.kernel, "registers"),
        shared_bytes=_shared_bytes(build, hot),
        threads=threads,
        barriers=_of_kernel(build, hot.kernel, "barriers"),
    )
    found = occupancy(arch, demand)
    if found is None:
        return facts
    return facts | {
        "block_threads": threads,
        "blocks_per_sm": found.blocks,
        "warps_per_sm": found.warps,
        "occupancy_pct": 100 * found.warps / found.most_warps,
        "occupancy_limit": found.limit,
    }


def lowest_occupancy(scenarios: Mapping[str, Mapping[str, Fact]]) -> dict[str, Fact]:
    """The launch facts of the scenario with the fewest resident warps; it is named where they differ. Bytes: the largest."""
    if not scenarios:
        return {}
    lowest = min(scenarios, key=lambda name: (float(scenarios[name].get("warps_per_sm", 0)), name))
    facts = dict(scenarios[lowest])
    facts["shared_bytes"] = max(int(values["shared_bytes"]) for values in scenarios.values())
    if any(values.get("warps_per_sm") != facts.get("warps_per_sm") for values in scenarios.values()):
        facts["occupancy_scenario"] = lowest
    return facts


def _kernel_facts(kernel: Kernel, spills: Mapping[str, int]) -> dict[str, int]:
    return {
        "registers": kernel.registers,
        "spill_bytes": spills.get(kernel.name, 0),
        "stack_bytes": kernel.stack_bytes,
        "static_shared_bytes": kernel.shared_bytes,
        "barriers": kernel.barriers,
    }


def _of_kernel(build: Mapping[str, Fact], kernel: str, name: str) -> int:
    return int(build.get(f"{kernel}.{name}", build.get(name, 0)))


def _shared_bytes(build: Mapping[str, Fact], launch: ResolvedLaunch) -> int:
    return _of_kernel(build, launch.kernel, "static_shared_bytes") + launch.shared_bytes


def _hot_launch(build: Mapping[str, Fact], launches: Sequence[ResolvedLaunch]) -> ResolvedLaunch:
    """The launch of the hot kernel; where that isn't known or not launched, the one with the most threads."""
    hot = [launch for launch in launches if launch.kernel == build.get("hot_kernel")]
    return max(hot or launches, key=lambda launch: prod(launch.grid) * prod(launch.block))
