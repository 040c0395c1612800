"""Judges a candidate's shared object by its ELF headers, symbols and instructions, never by its source text.

The scan for forbidden instructions reads a linear disassembly, so code that jumps into the middle of an instruction passes
it. Such code meets the seal of the process (seccomp, PR_SET_TSC) when it runs.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection, DynamicTag
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, SymbolTableSection

from evaluator.backend import Build
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.plan.resolved import Resolved
from evaluator.sandbox import Limits, run_sandboxed, toolchain_paths

MOST_LIBRARY_BYTES = 32 << 20
MOST_LAUNCHES, MOST_NAME_CHARACTERS, MOST_TASKS = 64, 255, 1 << 32
ALLOWED_LIBRARIES = frozenset({"libm.so.6", "libmvec.so.1", "libc.so.6"})
ALLOWED_SYMBOLS = frozenset({"expf", "exp2f", "logf", "fmaxf", "fminf", "sqrtf", "memcpy", "memset", "memmove"})
VECTOR_FORM = re.compile(r"_ZGV[bcde][NM]\d+v+_(expf|exp2f|logf)(@.*)?")
HEAP = re.compile(r"_Z(nw|na|dl|da)|(m|c|re)alloc$|free$")
START_TAGS = frozenset(
    f"DT_{name}" for name in ("INIT", "INIT_ARRAY", "PREINIT_ARRAY", "FINI", "FINI_ARRAY", "TEXTREL", "AUDIT", "FILTER")
)
WRITE, EXECUTE = 2, 1
SHF_WRITE, SHF_ALLOC, SHF_EXECUTE, SHF_TLS = 1, 2, 4, 0x400
INDIRECT_FUNCTION = ("STT_GNU_IFUNC", "STT_LOOS")
REFUSED_RELOCATIONS = {5: "COPY", 16: "DTPMOD64", 17: "DTPOFF64", 18: "TPOFF64", 36: "TLSDESC", 37: "IRELATIVE"}
# syscall, sysenter, int, rdtsc, rdtscp, rdpmc, wrpkru
SUSPICIOUS = re.compile(rb"\x0f\x05|\x0f\x34|\xcd.|\x0f\x31|\x0f\x01\xf9|\x0f\x33|\x0f\x01\xef", re.DOTALL)
FORBIDDEN = re.compile(r"\b(syscall|sysenter|int\s+0x[0-9a-f]+|int\s+\$0x[0-9a-f]+|rdtscp?|rdpmc|wrpkru)\b")
THREAD_LOCAL = "The library has thread-local data; keep state in local variables or a workspace."
CLOCKS = ("rdtsc", "rdtscp", "rdpmc")
SCAN_LIMITS = Limits(cpu_s=20, wall_s=30.0, memory_bytes=2 << 30, file_bytes=1 << 20)


@dataclass(eq=False)
class _RefusedError(Exception):
    """Why the artefact is refused; turned into a Fault where the gate ends. Not frozen: raising writes the traceback."""

    message: str
    detail: str = ""
    reaches: str = ""


def gate(build: Build, resolved: Resolved) -> Fault | None:
    """GATE_VIOLATION with the reason, or None if the shared object may be loaded."""
    try:
        _check_plan(resolved)
        if build.path.stat().st_size > MOST_LIBRARY_BYTES:
            raise _RefusedError(
                f"The library has {build.path.stat().st_size >> 20} MiB; at most {MOST_LIBRARY_BYTES >> 20} are allowed."
            )
        with build.path.open("rb") as file, _readable():
            elf = ELFFile(file)
            _check_dynamic(elf)
            _check_memory(elf)
            _check_symbols(elf, resolved)
            _check_libraries(elf)
            suspicious = any(SUSPICIOUS.search(section.data()) for section in _sections(elf) if _has(section, SHF_EXECUTE))
        if suspicious:
            _check_instructions(build.path)
    except _RefusedError as refusal:
        return Fault(
            verdict=Verdict.GATE_VIOLATION,
            stage=Stage.GATE,
            message=refusal.message,
            detail=refusal.detail,
            scenario=resolved.scenario,
            reaches=refusal.reaches,
        )
    return None


@contextmanager
def _readable() -> Iterator[None]:
    """Refuses an object that the reader can't make sense of, which inline assembly can bring about."""
    try:
        yield
    except (ELFError, ValueError, KeyError, IndexError, AttributeError, TypeError) as error:
        raise _RefusedError("The library can't be read; write no assembly that changes the object's form.", str(error)) from None


def _sections(elf: ELFFile) -> Iterator[Section]:
    yield from elf.iter_sections()


def _has(section: Section, flag: int) -> bool:
    return bool(section["sh_flags"] & flag)


def _check_plan(resolved: Resolved) -> None:
    if len(resolved.launches) > MOST_LAUNCHES:
        raise _RefusedError(f"The plan has {len(resolved.launches)} launches; the CPU backend takes {MOST_LAUNCHES}.")
    for launch in resolved.launches:
        x, y, z = launch.grid
        if not 0 < x * y * z < MOST_TASKS:
            raise _RefusedError(f"Launch {launch.kernel!r} has {x * y * z} tasks; between 1 and 2^32 - 1 are possible.")
        if len(launch.kernel) > MOST_NAME_CHARACTERS:
            raise _RefusedError(
                f"A kernel's name has {len(launch.kernel)} characters; at most {MOST_NAME_CHARACTERS} are possible."
            )


def _tags(elf: ELFFile) -> Iterator[DynamicTag]:
    for section in _sections(elf):
        if isinstance(section, DynamicSection):
            yield from section.iter_tags()


def _check_dynamic(elf: ELFFile) -> None:
    for tag in _tags(elf):
        if tag.entry.d_tag in START_TAGS:
            raise _RefusedError(
                "Code would run when the library is loaded or unloaded (a constructor, a destructor or an initialised global "
                "object). Make tables constexpr and compute everything in the kernels.",
                str(tag.entry.d_tag),
            )


def _check_libraries(elf: ELFFile) -> None:
    for tag in _tags(elf):
        kind = tag.entry.d_tag
        if kind in {"DT_RPATH", "DT_RUNPATH"} or (kind == "DT_NEEDED" and tag.needed not in ALLOWED_LIBRARIES):
            raise _RefusedError("The library asks for other libraries; only libm and libc functions of the list may be used.")


def _check_memory(elf: ELFFile) -> None:
    protected = [range(s["p_vaddr"], s["p_vaddr"] + s["p_memsz"]) for s in elf.iter_segments() if s["p_type"] == "PT_GNU_RELRO"]
    for segment in elf.iter_segments():
        kind, flags = segment["p_type"], segment["p_flags"]
        if kind == "PT_TLS":
            raise _RefusedError(THREAD_LOCAL, reaches="state that outlives a task")
        if kind == "PT_GNU_STACK" and flags & EXECUTE:
            raise _RefusedError("The library asks for an executable stack; remove the assembler directive or nested function.")
        if kind == "PT_INTERP":
            raise _RefusedError("The library names a program interpreter; remove that section.")
        if kind == "PT_LOAD" and flags & WRITE and flags & EXECUTE:
            raise _RefusedError("The library has memory that is both writable and executable.")
    for section in _sections(elf):
        if _has(section, SHF_TLS):
            raise _RefusedError(THREAD_LOCAL, reaches="state that outlives a task")
        if not (_has(section, SHF_WRITE) and _has(section, SHF_ALLOC)) or section["sh_size"] == 0:
            continue
        start, end = section["sh_addr"], section["sh_addr"] + section["sh_size"]
        if not any(start in area and end <= area.stop for area in protected):
            names = _names_within(elf, start, end)
            raise _RefusedError(
                f"The library has {section['sh_size']} bytes of writable memory ({names or section.name}). Make tables const or "
                "constexpr; scratch memory belongs into [workspace] of the plan.",
                section.name,
                "state that outlives a task",
            )
    _check_relocations(elf, protected)


def _check_relocations(elf: ELFFile, protected: list[range]) -> None:
    for section in _sections(elf):
        if not isinstance(section, RelocationSection):
            continue
        for relocation in section.iter_relocations():
            kind = relocation["r_info_type"]
            if kind in REFUSED_RELOCATIONS:
                raise _RefusedError(
                    f"The library has a relocation of kind {REFUSED_RELOCATIONS[kind]}: no IFUNC, no thread-local data."
                )
            if not any(relocation["r_offset"] in area for area in protected):
                raise _RefusedError("The library has a relocation outside its read-only data; remove .reloc directives.")


def _names_within(elf: ELFFile, start: int, end: int) -> str:
    """The largest variables in a range of addresses, for the message."""
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return ""
    found = [s for s in table.iter_symbols() if s["st_info"]["type"] == "STT_OBJECT" and start <= s["st_value"] < end]
    largest = sorted(found, key=lambda symbol: -symbol["st_size"])[:3]
    return ", ".join(_plain(symbol.name) for symbol in largest)


def _plain(name: str) -> str:
    """A mangled name's last plain part: ``_ZL3big``, ``_ZN12_GLOBAL__N_13bigE`` and ``_ZZ6kernelE3big`` are ``big``."""
    rest = re.sub(r"^_Z(?:Z\w*E(?=\d))?[NL]*", "", name) if name.startswith("_Z") else ""
    plain = name
    while found := re.match(r"[KL]?(\d+)(?=[A-Za-z_])", rest):
        start, length = found.end(), int(found.group(1))
        plain, rest = rest[start : start + length], rest[start + length :]
    return plain


def _check_symbols(elf: ELFFile, resolved: Resolved) -> None:
    table = elf.get_section_by_name(".dynsym")
    symbols = list(table.iter_symbols()) if isinstance(table, SymbolTableSection) else []
    if any(symbol["st_info"]["type"] in INDIRECT_FUNCTION for symbol in symbols):
        raise _RefusedError("The library has an indirect function (IFUNC), which runs while loading. Use #if instead.")
    unknown = sorted(
        symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name and not _allowed(symbol.name)
    )
    if unknown:
        if any(HEAP.match(name) for name in unknown):
            raise _RefusedError(
                "The library takes memory from the heap (new, malloc, or a container such as std::vector), which a kernel "
                "doesn't have. Use an array of fixed size in the kernel, or a [workspace] of the plan.",
                "\n".join(unknown[:50]),
            )
        called, known = ", ".join(_plain(name) for name in unknown[:5]), ", ".join(sorted(ALLOWED_SYMBOLS))
        raise _RefusedError(
            f"The library calls {called}; only {known} exist for a kernel. Write it yourself or leave it out.",
            "\n".join(unknown[:50]),
        )
    exported = {
        symbol.name
        for symbol in symbols
        if symbol["st_shndx"] != "SHN_UNDEF"
        and symbol["st_info"]["type"] == "STT_FUNC"
        and symbol["st_info"]["bind"] != "STB_LOCAL"
    }
    for launch in resolved.launches:
        if launch.kernel not in exported:
            there = ", ".join(sorted(exported)[:5]) or "nothing"
            raise _RefusedError(
                f"The plan launches {launch.kernel!r}, but the source exports {there}. Declare it as "
                f'extern "C" void {launch.kernel}(long task, void* const* args).'
            )


def _allowed(name: str) -> bool:
    return name in ALLOWED_SYMBOLS or VECTOR_FORM.fullmatch(name) is not None


def _check_instructions(library: Path) -> None:
    """Look for forbidden instructions where a linear disassembly finds them; nothing is known without objdump."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return
    with tempfile.TemporaryDirectory(prefix="askevolve-") as folder:
        copy = Path(folder) / "candidate.so"
        shutil.copyfile(library, copy)
        argv = [objdump, "--disassemble", "--no-show-raw-insn", "--wide", copy.name]
        done = run_sandboxed(argv, readable=toolchain_paths(), writable=Path(folder), limits=SCAN_LIMITS)
    function = "?"
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if line.endswith(">:"):
            function = line.partition("<")[2][:-2]
        found = FORBIDDEN.search(line.partition("\t")[2].partition("#")[0].partition("<")[0])
        if found is None:
            continue
        name = found.group(1).split()[0]
        what = "reads a clock; time is taken outside" if name in CLOCKS else "asks the system for something; a kernel may not"
        raise _RefusedError(
            f"{_plain(function)} contains the instruction {name}, which {what}. Remove it.",
            line.strip(),
            f"the instruction {name}",
        )
