"""Compiles candidates with g++ in the sandbox; compiles our own host process once per version, outside it.

A candidate becomes a shared object without start files: it may use the compiler's and the system's headers, libm and libc.
"""

import hashlib
import platform
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from evaluator.backend import Build
from evaluator.cache import BuildCache, Made, cache_key
from evaluator.log_hygiene import clean_log, first_error, printable, unopened_files
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.plan.resolved import Resolved
from evaluator.sandbox import Limits, run_sandboxed, toolchain_paths

SOURCE = "candidate.cpp"
COMPILE_LIMITS = Limits(cpu_s=30, wall_s=45.0, memory_bytes=3 << 30, file_bytes=64 << 20)
LANGUAGE = ("-std=c++20", "-O3", "-march=native", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")
ARITHMETIC = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
# What distributions switch on by default would need symbols or writable data that the gate refuses.
PLAIN = (
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-fcf-protection=none",
    "-fno-semantic-interposition",
    "-fno-asynchronous-unwind-tables",
    "-fno-ident",
    "-fstack-clash-protection",  # a large frame touches every page on its way, so it can't jump over the guard
)
REPORTS = (
    "-w",
    "-fmax-errors=5",
    "-fno-diagnostics-show-caret",
    "-fdiagnostics-color=never",
    "-fopt-info-vec-optimized=vectors.txt",
    "-MD",
    "-MFheaders.d",
    "-Wa,--MD,assembled.d",
)
LINK = (
    "-shared",
    "-nostartfiles",
    "-nodefaultlibs",
    "-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code,-Bsymbolic,--as-needed,--build-id=none,--hash-style=gnu",
)
LIBRARIES = ("-lm", "-lc", "-lgcc")
KILLED = re.compile(r"^(?:x86_64\S*-)?g\+\+\S*: fatal error: Killed signal terminated program", re.MULTILINE)
HOST_FOLDER = Path(__file__).with_name("host")
HOST_FLAGS = ("-std=c++20", "-O2", "-g0", "-pthread", "-Wl,-z,relro,-z,now")


@cache
def compiler() -> Path:
    """The path of g++. Raises FileNotFoundError with advice if there is none."""
    found = shutil.which("g++")
    if found is None:
        raise FileNotFoundError("g++ isn't installed; the CPU backend compiles candidates with it (Debian: apt install g++)")
    return Path(found).resolve()


@cache
def compiler_version() -> str:
    """First line of ``g++ --version``."""
    done = subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


@cache
def instruction_set() -> str:
    """What -march=native stands for here, as a digest of the target options that g++ works out."""
    argv = [str(compiler()), "-march=native", "-Q", "--help=target"]
    done = subprocess.run(argv, capture_output=True, check=True)
    return hashlib.sha256(done.stdout).hexdigest()[:16]


def flags_of(resolved: Resolved) -> tuple[str, ...]:
    """All flags of a candidate's build, in order."""
    fast = ("-ffast-math",) if resolved.fast_math else ()
    defines = tuple(f"-D{name}={value}" for name, value in sorted(resolved.defines.items()))
    return (*LANGUAGE, *ARITHMETIC, *fast, *PLAIN, *REPORTS, *defines, *LINK)


def build_candidate(source: str, resolved: Resolved, cache: BuildCache, limits: Limits = COMPILE_LIMITS) -> Build | Fault:
    """Compile, or take from the cache. Verdicts: COMPILE_ERROR, COMPILE_LIMIT; HARNESS_FAULT where g++ was killed."""
    flags = flags_of(resolved)
    key = cache_key(
        {"source": source, "flags": flags, "compiler": compiler_version(), "instruction_set": instruction_set(), "kind": "cpu"}
    )
    return cache.build(key, lambda: _compile(source, flags, limits))


def _compile(source: str, flags: tuple[str, ...], limits: Limits) -> Made | Fault:
    with tempfile.TemporaryDirectory(prefix="askevolve-") as name:
        folder = Path(name)
        (folder / SOURCE).write_text(source)
        argv = [str(compiler()), *flags, "-pipe", SOURCE, *LIBRARIES, "-o", "candidate.so"]
        done = run_sandboxed(argv, readable=toolchain_paths(), writable=folder, limits=limits)
        foreign = foreign_file(folder)
        if foreign is not None:
            return _fault(
                Verdict.COMPILE_ERROR,
                f"The source reads {foreign}; only the compiler's and the system's headers may be included. Remove that line.",
            )
        raw = done.stderr.decode("utf-8", "replace")
        log = clean_log(raw, SOURCE)
        limit = done.limit_hit or _limit_of_a_part(raw)
        if limit is None and (done.returncode == -signal.SIGKILL or KILLED.search(raw)):
            return _fault(Verdict.HARNESS_FAULT, "The compiler was killed from outside (out of memory?). Evaluate it again.", log)
        if limit is not None:
            return _too_much(limit, limits, log)
        library = folder / "candidate.so"
        if done.returncode != 0 or not library.is_file() or library.is_symlink():
            return _fault(Verdict.COMPILE_ERROR, _error_message(raw, log, source), log)
        return Made(artefact=library.read_bytes(), log=log, facts=_facts(folder, library))


def _fault(verdict: Verdict, message: str, detail: str = "") -> Fault:
    return Fault(verdict=verdict, stage=Stage.BUILD, message=message, detail=detail)


def _limit_of_a_part(raw: str) -> str | None:
    """Which limit stopped the compiler proper or the assembler, as the g++ driver puts it (it removes their files)."""
    found = re.search(r"error: (File size|CPU time) limit exceeded signal terminated program", raw)
    return {"File size": "file", "CPU time": "cpu"}[found.group(1)] if found is not None else None


def _too_much(limit: str, limits: Limits, log: str) -> Fault:
    allowed = {
        "wall": f"{limits.wall_s:g} s",
        "cpu": f"{limits.cpu_s} s of CPU time",
        "memory": f"{limits.memory_bytes >> 20} MiB of memory",
        "file": f"a file of {limits.file_bytes >> 20} MiB",
    }[limit]
    return _fault(
        Verdict.COMPILE_LIMIT,
        f"Compiling needs more than {allowed}. Shrink what the compiler must unroll, instantiate or store: fewer template "
        "levels, smaller constant tables, plain loops.",
        log,
    )


def foreign_file(folder: Path) -> str | None:
    """A file outside the toolchain that preprocessor or assembler read: second line of defence where there is no Landlock."""
    allowed = [*(path.resolve() for path in toolchain_paths()), folder.resolve()]
    for name in ("headers.d", "assembled.d"):
        path = folder / name
        if not path.is_file() or path.is_symlink():
            continue
        words = re.split(r"(?<!\\)\s+", path.read_text("utf-8", "replace").replace("\\\n", " "))
        names = (word.replace("\\ ", " ") for word in words if word and not word.endswith(":"))
        for name_read in names:
            if name_read in {"{standard", "input}"}:  # how the assembler names the pipe
                continue
            resolved = (folder / name_read).resolve()
            if not any(resolved.is_relative_to(root) for root in allowed):
                return repr(name_read)
    return None


def _error_message(raw: str, log: str, source: str) -> str:
    """The compiler's first complaint with the line of source that it is about."""
    unopened = unopened_files(raw)
    if unopened:
        return f"The compiler can't open {unopened[0]!r}; only its own and the system's headers may be read. Remove that line."
    first = first_error(log) or "the compiler gave no message"
    found = re.match(rf"{re.escape(SOURCE)}:(\d+):", first)
    text = source.split("\n")
    line = printable(text[int(found.group(1)) - 1]).strip() if found is not None and int(found.group(1)) <= len(text) else ""
    return f"g++: {first}; the line reads: {line[:160]}" if line else f"g++: {first}"


def _facts(folder: Path, library: Path) -> Mapping[str, int | float | str | bool]:
    """Size of the library and what was vectorised."""
    report = folder / "vectors.txt"
    text = report.read_text("utf-8", "replace") if report.is_file() and not report.is_symlink() else ""
    widths = [int(width) for width in re.findall(r"loop vectorized using (\d+) byte vectors", text)]
    return {
        "library_bytes": library.stat().st_size,
        "vectorised_loops": len(widths),
        "widest_vector_bytes": max(widths, default=0),
    }


def host_program(cache: BuildCache) -> Path:
    """The compiled host process, built from evaluator/cpu/host when its sources or the compiler changed.

    Raises RuntimeError with the compiler's output if that fails, or on another machine than x86-64.
    """
    if platform.machine() != "x86_64":
        raise RuntimeError(f"the CPU backend runs on x86-64 only, this machine is {platform.machine()}")
    sources = sorted(HOST_FOLDER.glob("*.*"))
    text = {path.name: path.read_text() for path in sources}
    key = cache_key({"sources": text, "flags": HOST_FLAGS, "compiler": compiler_version(), "kind": "cpu host"})
    built = cache.build(key, _compile_host)
    assert isinstance(built, Build)
    built.path.chmod(0o755)
    return built.path


def _compile_host() -> Made:
    with tempfile.TemporaryDirectory(prefix="askevolve-") as name:
        program = Path(name) / "host"
        argv = [str(compiler()), *HOST_FLAGS, str(HOST_FOLDER / "host.cpp"), "-o", str(program), "-ldl"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"g++ can't compile the host process of the CPU backend:\n{done.stderr[:4000]}")
        return Made(artefact=program.read_bytes())
