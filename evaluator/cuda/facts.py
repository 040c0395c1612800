"""Compiler facts of a CUDA build, from ptxas' remarks and the cubin."""

import re
from collections.abc import Mapping

from evaluator.cuda.cubin import Kernel, read_cubin

SERIALIZED = re.compile(r"\(C75(?:1\d|20)\)")
COMPILING = re.compile(r"^ptxas info\s*: Compiling entry function '(?P<name>[^']+)'")
SPILLS = re.compile(r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")


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


def compiler_facts(log: str, cubin: bytes) -> dict[str, int | float | str | bool]:
    """Facts with units in their names: the largest over the kernels, then ``KERNEL.name`` for each where there are several.

    ``wgmma_serialized`` (text of the remarks) comes first and only where ptxas made one. ``spill_bytes`` counts stores and loads,
    ``stack_bytes`` and ``registers`` are per thread, ``static_shared_bytes`` per block.
    """
    facts: dict[str, int | float | str | bool] = {}
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
    return facts | {"cubin_bytes": len(cubin)}


def _kernel_facts(kernel: Kernel, spills: Mapping[str, int]) -> dict[str, int]:
    return {
        "registers": kernel.registers,
        "spill_bytes": spills.get(kernel.name, 0),
        "stack_bytes": kernel.stack_bytes,
        "static_shared_bytes": kernel.shared_bytes,
        "barriers": kernel.barriers,
    }
