"""Builds a CUDA candidate with NVRTC in the sandbox; needs no GPU and no driver."""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from evaluator.backend import Build
from evaluator.cache import BuildCache, Made, cache_key
from evaluator.cuda import compile_child
from evaluator.cuda.facts import compiler_facts, serialized_wgmma
from evaluator.cuda.sass import disassemble, find_disassembler
from evaluator.cuda.toolkit import INSTALL, Toolkit, find_toolkit
from evaluator.log_hygiene import clean_log, first_error, foreign_files, unopened_files
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.plan.resolved import Resolved
from evaluator.sandbox import Finished, Limits, run_sandboxed

SOURCE_NAME = "candidate.cu"
COMPILE_LIMITS = Limits(cpu_s=60, wall_s=90.0, memory_bytes=4 << 30, file_bytes=32 << 20)
OUT_OF_MEMORY_CODE = 1  # NVRTC_ERROR_OUT_OF_MEMORY
HINTS = (
    ("cannot open source file", "NVRTC has no host headers; use built-in types, CUDA's own headers, <cuda/std/...> or raw PTX"),
)


def compile_cuda(source: str, resolved: Resolved, arch: str, cache: BuildCache, limits: Limits = COMPILE_LIMITS) -> Build | Fault:
    """The build of ``source`` for ``arch`` ("sm_90a"), from the cache where it is there.

    Faults: COMPILE_ERROR (message: first error, detail: cleaned log), COMPILE_LIMIT, SANDBOX for a source that names a file
    outside the CUDA headers, HARNESS_FAULT without a compiler.
    """
    toolkit = find_toolkit()
    if toolkit is None:
        return _fault(Verdict.HARNESS_FAULT, f"no CUDA compiler is installed here; {INSTALL}")
    if "\0" in source:
        return _fault(Verdict.COMPILE_ERROR, f"{SOURCE_NAME} holds a zero byte; remove it")
    options = compile_options(resolved, arch)
    key = build_key(source, options, toolkit)
    return cache.build(key, lambda: _compile(source, options, toolkit, limits))


def build_key(source: str, options: Sequence[str], toolkit: Toolkit) -> str:
    """The content hash of everything that a build comes from: source, options, compiler, headers, and who reads its facts."""
    tool = find_disassembler()
    versions = {"compiler": toolkit.version, "toolkit": toolkit.digest, "disassembler": tool.version if tool else ""}
    return cache_key({"source": source, "options": list(options), **versions})


def compile_options(resolved: Resolved, arch: str) -> list[str]:
    """NVRTC's options but for the include folders, which depend on the machine."""
    options = [f"-arch={arch}", "-std=c++17", "-default-device", "--ptxas-options=-v"]  # lambdas need no __device__ of their own
    if resolved.fast_math:
        options.append("--use_fast_math")
    if resolved.maxrregcount is not None:
        options.append(f"--maxrregcount={resolved.maxrregcount}")
    return options + [f"-D{name}={value}" for name, value in sorted(resolved.defines.items())]


def _compile(source: str, options: Sequence[str], toolkit: Toolkit, limits: Limits) -> Made | Fault:
    includes = [f"-I{folder}" for folder in toolkit.includes or (".",)]  # without any, NVRTC's messages are worded differently
    request = {"library": str(toolkit.nvrtc), "source": source, "name": SOURCE_NAME, "options": [*options, *includes]}
    python = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory(prefix="askevolve-nvrtc-") as name:
        folder = Path(name)
        done = run_sandboxed(
            [python, "-I", "-S", compile_child.__file__],
            readable=(Path(python), Path(compile_child.__file__), *_python_files(), toolkit.nvrtc.parent, *toolkit.includes),
            writable=folder,
            limits=limits,
            stdin=json.dumps(request).encode(),
        )
        fault = _failure(done, folder, toolkit, limits)
        if fault is not None:
            return fault
        log = json.loads((folder / compile_child.RESULT).read_text())["log"]
        cubin = (folder / compile_child.CUBIN).read_bytes()
        ptx = (folder / compile_child.PTX).read_text("utf-8", "replace")
    cleaned = clean_log("\n".join([*serialized_wgmma(log), log]), SOURCE_NAME, toolkit.includes)
    tool = find_disassembler()
    sass = disassemble(cubin, tool) if tool else None
    return Made(artefact=cubin, log=cleaned, ptx=ptx, facts=compiler_facts(log, cubin, ptx, sass))


def _python_files() -> tuple[Path, ...]:
    """What a bare Python needs: its library, the shared objects beside it, the system's."""
    beside = sorted(Path(sys.base_prefix, "lib").glob("*.so*"))
    system = (Path("/usr/lib"), Path("/lib"), Path("/lib64"), Path("/usr/lib64"), Path("/etc/ld.so.cache"))
    return (Path(os.__file__).resolve().parent, *beside, *system)


def _failure(done: Finished, folder: Path, toolkit: Toolkit, limits: Limits) -> Fault | None:
    """The fault of a compile that didn't succeed, None for one that did."""
    result_file = folder / compile_child.RESULT
    result = json.loads(result_file.read_text()) if done.returncode == 0 and result_file.exists() else None
    if done.limit_hit or (result and result["code"] == OUT_OF_MEMORY_CODE):
        return _limit_fault(done.limit_hit or "memory", limits)
    if result is None:
        return _fault(
            Verdict.COMPILE_ERROR, f"the compiler itself broke down (exit status {done.returncode}); write it more simply"
        )
    if result["code"] == 0:
        return None
    log = clean_log(result["log"], SOURCE_NAME, toolkit.includes)
    outside = next((name for name in unopened_files(result["log"]) if _lies_outside(name, toolkit.includes)), None)
    if outside is not None or foreign_files(result["log"], SOURCE_NAME, toolkit.includes):
        what = f'the file "{outside}"' if outside else "a file"
        return _fault(Verdict.SANDBOX, f"the source reads {what} outside the CUDA headers; include nothing but those", log)
    message = first_error(log) or result["error"]
    hint = next((f" ({advice})" for sign, advice in HINTS if sign in message), "")
    if HINTS[0][0] in message and toolkit.missing:
        hint = (
            f" (this host has no headers of {' and '.join(toolkit.missing)}, which cuda_fp16.h and <cuda/std/...> need: include "
            f"nothing and write raw PTX, or pip install {' '.join(toolkit.missing)})"
        )
    return _fault(Verdict.COMPILE_ERROR, message + hint, log)


def _limit_fault(limit: str, limits: Limits) -> Fault:
    allowed = {
        "cpu": f"{limits.cpu_s} s of CPU time",
        "wall": f"{limits.wall_s:g} s",
        "memory": f"{limits.memory_bytes >> 20} MiB of memory",
        "file": f"{limits.file_bytes >> 20} MiB in one file",
    }[limit]
    advice = "unroll less, instantiate fewer templates, include fewer headers (raw PTX instead of <cuda/barrier>)"
    return _fault(Verdict.COMPILE_LIMIT, f"compiling took more than {allowed}; {advice}")


def _lies_outside(name: str, includes: Sequence[Path]) -> bool:
    """Whether an include's path leads out of the header folders, whether or not something is there."""
    path = Path(os.path.normpath(name))
    return not any(path.is_relative_to(folder) for folder in includes) if path.is_absolute() else path.parts[:1] == ("..",)


def _fault(verdict: Verdict, message: str, detail: str = "") -> Fault:
    return Fault(verdict=verdict, stage=Stage.BUILD, message=message, detail=detail)
