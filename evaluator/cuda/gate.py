"""Judges a compiled CUDA candidate: the cubin that will run and the PTX it came from, never the source text.

docs/gates.md says what is refused and why.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from evaluator.backend import Build
from evaluator.cuda.cubin import Cubin, CubinError, Kernel, read_cubin
from evaluator.cuda.occupancy import registers_fit
from evaluator.cuda.ptx import (
    Entry,
    Parameter,
    device_variables,
    external_functions,
    forbidden_words,
    idle_constants,
    read_entries,
    recursive_function,
    target,
)
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.plan.resolved import Argument, ArgumentKind, Resolved, ResolvedLaunch

CUBIN_CAP_BYTES = 4 << 20
CONSTANT_CAP_BYTES = 64 << 10
IDLE_CAP_BYTES = 4 << 10
"""Constants that no instruction names, such as ``constexpr int BLOCK = 128;``: they can't be reached by name, and are hashed."""
STACK_CAP_BYTES = 4 << 10
UNKNOWN_STACK_BYTES = (1 << 32) - 1  # what ptxas stores for recursion
SHARED_LIMIT_KIB = {80: 163, 86: 99, 87: 163, 88: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}
"""Shared memory a block may ask for: CUDA programming guide, table "Technical specifications per compute capability"."""
MAP_BYTES, MAP_ALIGN_BYTES = 128, 64
WANTED = {
    ArgumentKind.TENSOR: (8, "a pointer"),
    ArgumentKind.WORKSPACE: (8, "a pointer"),
    ArgumentKind.TENSOR_MAP: (MAP_BYTES, "a 128-byte struct with alignas(64), by value: const __grid_constant__ TensorMap"),
    ArgumentKind.INT32: (4, "an int"),
    ArgumentKind.FLOAT32: (4, "a float"),
}


def gate_cuda(build: Build, resolved: Resolved) -> Fault | None:
    """GATE_VIOLATION with the first thing that is wrong with ``build`` as ``resolved`` would launch it, None if nothing is."""
    data = build.path.read_bytes()
    if len(data) > CUBIN_CAP_BYTES:
        return _fault(f"the cubin has {len(data)} bytes, at most {CUBIN_CAP_BYTES} are allowed; unroll less", resolved)
    try:
        cubin = read_cubin(data)
    except CubinError as error:
        return _fault(f"{error}; write no assembly that changes the object's form", resolved)
    entries = {entry.name: entry for entry in read_entries(build.ptx)}
    problem = next(chain(_wrong_kernels(cubin, entries, resolved), _outside(cubin, build.ptx)), None)
    if problem is None and (found := next(_reaching(cubin, build), None)):
        return replace(_fault(found[0], resolved), reaches=found[1])
    problem = problem or next(_problems(cubin, entries, build, resolved), None)
    return None if problem is None else _fault(problem, resolved)


def _reaching(cubin: Cubin, build: Build) -> Iterator[tuple[str, str]]:
    """What the kernel reaches for that would let it cheat: the problem, and in a word what it is."""
    for problem in _state(cubin, build.ptx):
        yield problem, "state that outlives a launch"
    for word, does, instead in forbidden_words(build.ptx):
        yield f"the kernel {does} ({word}), which is not allowed; {instead}", does
    if forbidden := build.facts.get("sass_forbidden"):
        yield (
            f"the machine code holds {forbidden}, which is not allowed: a kernel reads no clock or counter and doesn't release "
            "dependent launches",
            f"{forbidden} in the machine code",
        )


def _problems(cubin: Cubin, entries: dict[str, Entry], build: Build, resolved: Resolved) -> Iterator[str]:
    """What else is wrong, most telling first."""
    ptx = build.ptx
    if cubin.constant_bytes > CONSTANT_CAP_BYTES:
        yield f"the source has {cubin.constant_bytes} bytes of __constant__ tables, at most {CONSTANT_CAP_BYTES} are allowed"
    kernels = {kernel.name: kernel for kernel in cubin.kernels}
    for launch in resolved.launches:
        entry, kernel = entries[launch.kernel], kernels[launch.kernel]
        yield from _wrong_arguments(launch, entry.parameters)
        if kernel.parameter_bytes != tuple(parameter.size_bytes for parameter in entry.parameters):
            yield f"kernel {entry.name}: cubin and PTX disagree about its parameters; write no directives in inline assembly"
        if (recursive := recursive_function(ptx, entry.name)) or kernel.stack_bytes >= UNKNOWN_STACK_BYTES:
            who = (
                f"kernel {entry.name} calls {recursive}, which calls itself" if recursive else f"kernel {entry.name} calls itself"
            )
            yield f"{who}, so that nobody can tell how much stack a thread needs; write a loop instead"
        yield from _wrong_sizes(launch, entry, kernel, target(ptx))


def _wrong_kernels(cubin: Cubin, entries: dict[str, Entry], resolved: Resolved) -> Iterator[str]:
    planned = {launch.kernel for launch in resolved.launches} | set(resolved.kernels)
    compiled = {kernel.name for kernel in cubin.kernels}
    for name in sorted(planned - (compiled & set(entries))):
        mangled = next((other for other in sorted(compiled) if other.startswith(f"_Z{len(name)}{name}")), None)
        if mangled:
            yield f'kernel {name} is compiled as {mangled}; write extern "C" __global__ void {name}(...)'
        else:
            yield f'the plan launches {name}, but the source has no such kernel; write extern "C" __global__ void {name}(...)'
    for name in sorted((compiled | set(entries)) - planned):
        yield f"the source holds an entry point {name} that no [[launch]] names; remove it or add its launch"


def _outside(cubin: Cubin, ptx: str) -> Iterator[str]:
    """Functions that the driver would have to supply. They come before state, since the text of a printf lies in a variable."""
    outside = list(dict.fromkeys([*external_functions(ptx), *cubin.undefined]))
    if outside:
        yield f"the source calls {', '.join(outside)}, which is not allowed: no printf, assert, malloc, free or device launches"


def _state(cubin: Cubin, ptx: str) -> Iterator[str]:
    """Device variables, which would outlive a launch."""
    idle = set(idle_constants(ptx))
    names = [name for name in device_variables(ptx) if name not in idle]
    if cubin.has_state or names or (cubin.initial_bytes and not idle) or cubin.initial_bytes > IDLE_CAP_BYTES:
        what = f" ({', '.join(names[:4])})" if names else ""
        yield (
            f"the source has device variables{what}, which outlive a launch: __device__, __managed__, static, string literals "
            "and constexpr arrays indexed at run time aren't allowed; use a [workspace], or __constant__ for tables"
        )


def _wrong_arguments(launch: ResolvedLaunch, parameters: Sequence[Parameter]) -> Iterator[str]:
    names = ", ".join(argument.name for argument in launch.args)
    if len(parameters) != len(launch.args):
        yield f"kernel {launch.kernel} takes {len(parameters)} parameters, the plan passes {len(launch.args)}: {names}"
        return
    for number, (argument, parameter) in enumerate(zip(launch.args, parameters, strict=True), start=1):
        if not _fits(argument, parameter):
            yield (
                f"kernel {launch.kernel}, parameter {number}: the plan passes {argument.name} as {WANTED[argument.kind][1]}, "
                f"the kernel takes {_words(parameter)}; the plan's order is {names}"
            )


def _fits(argument: Argument, parameter: Parameter) -> bool:
    size_bytes, _ = WANTED[argument.kind]
    if parameter.size_bytes != size_bytes:
        return False
    if argument.kind is ArgumentKind.TENSOR_MAP:
        return parameter.align_bytes >= MAP_ALIGN_BYTES
    is_float = parameter.type.startswith("f")
    return is_float == (argument.kind is ArgumentKind.FLOAT32)


def _words(parameter: Parameter) -> str:
    """A parameter in words, as the source would write it."""
    scalars = {"u64": "a pointer or 64-bit integer", "b64": "a pointer or 64-bit integer", "s64": "a 64-bit integer"}
    scalars |= {"u32": "an int", "b32": "an int", "s32": "an int", "f32": "a float", "f64": "a double"}
    struct = f"a struct of {parameter.size_bytes} bytes aligned to {parameter.align_bytes}"
    return scalars.get(parameter.type, struct if parameter.type == "b8" else f"a {parameter.size_bytes}-byte value")


def _wrong_sizes(launch: ResolvedLaunch, entry: Entry, kernel: Kernel, arch: str) -> Iterator[str]:
    """Sizes that the launch would fail on, or that would take memory from the rest."""
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    where = f"kernel {launch.kernel}"
    if kernel.stack_bytes > STACK_CAP_BYTES:
        yield f"{where} uses {kernel.stack_bytes} bytes of stack a thread, {STACK_CAP_BYTES} are allowed; use shared memory"
    limit_kib = SHARED_LIMIT_KIB.get(int(re.sub(r"\D", "", arch) or 0))
    if limit_kib and kernel.shared_bytes + launch.shared_bytes > limit_kib << 10:
        yield (
            f"{where} needs {kernel.shared_bytes} bytes of static and {launch.shared_bytes} of dynamic shared memory, "
            f"{arch} has {limit_kib << 10} for a block; use smaller tiles or fewer stages"
        )
    if entry.max_threads is not None and threads > entry.max_threads:
        yield f"{where} is built for {entry.max_threads} threads at most, the plan's block has {threads}; fix __launch_bounds__"
    if entry.required_block not in (None, launch.block):
        yield f"{where} requires blocks of {entry.required_block}, the plan says {launch.block}; make them agree"
    if entry.required_cluster not in (None, launch.cluster):
        yield f"{where} requires clusters of {entry.required_cluster}, the plan says {launch.cluster}; make them agree"
    if not registers_fit(kernel.registers, threads):
        yield (
            f"{where} needs {kernel.registers} registers a thread, too many for a block of {threads}; "
            f"write __launch_bounds__({threads}) or set maxrregcount"
        )


def _fault(message: str, resolved: Resolved) -> Fault:
    return Fault(verdict=Verdict.GATE_VIOLATION, stage=Stage.GATE, message=message, scenario=resolved.scenario)
