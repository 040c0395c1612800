"""Reads a cubin (an ELF file for the GPU) without the GPU: kernels with their resources, state, undefined symbols.

The attribute numbers of ``.nv.info`` are those that ``cuobjdump -elf`` names EIATTR_...; each was checked against ptxas' own
report for the five architectures of the tests.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol, SymbolTableSection

FRAME_SIZE, MIN_STACK_SIZE, KPARAM_INFO, REGCOUNT, NUM_BARRIERS = 0x11, 0x12, 0x17, 0x2F, 0x4C
FORMAT_SIZED = 0x04
INITIAL = ".nv.global.init"
RESERVED_SHARED_BYTES = 1024  # sm_90 and newer keep the first KiB of a block's shared memory to themselves
DRIVER_SYMBOLS = (".nv.reservedSmem.", "__cuda_syscall_cp_async_bulk_")
"""Prefixes of symbols that the driver adds to honest kernels: reserved shared memory, and TMA copies on sm_120."""


class CubinError(ValueError):
    """The bytes aren't a cubin that this reader understands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One entry point. ``stack_bytes`` and ``registers`` are per thread; ``parameter_bytes`` the sizes in order."""

    name: str
    registers: int
    stack_bytes: int
    shared_bytes: int
    barriers: int
    parameter_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cubin:
    """What the gate judges.

    ``has_state``: device variables without an initial value, which outlive a launch. It goes by the section and not by its size,
    which ptxas stores modulo 4 GiB. ``initial_bytes``: device variables with one. ``undefined``: symbols that the driver would
    have to add.
    """

    kernels: tuple[Kernel, ...]
    has_state: bool
    initial_bytes: int
    constant_bytes: int
    undefined: tuple[str, ...]


def read_cubin(data: bytes) -> Cubin:
    """The parts of a cubin that the gate judges. Raises CubinError for anything that isn't one."""
    try:
        elf = ELFFile(io.BytesIO(data))
        sections = {section.name: section for section in elf.iter_sections()}
        symbols = [
            symbol for table in sections.values() if isinstance(table, SymbolTableSection) for symbol in table.iter_symbols()
        ]
        sizes = {name: int(section["sh_size"]) for name, section in sections.items()}
        totals = _per_function(sections[".nv.info"].data(), [symbol.name for symbol in symbols])
        reserved = RESERVED_SHARED_BYTES if _architecture(elf["e_flags"]) >= 90 else 0
        names = [name.removeprefix(".text.") for name in sections if name.startswith(".text")]
        return Cubin(
            kernels=tuple(_kernel(name, sections, sizes, totals, reserved) for name in sorted(names)),
            has_state=any(name.startswith(".nv.global") and name != INITIAL for name in sections),
            initial_bytes=sizes.get(INITIAL, 0),
            constant_bytes=sizes.get(".nv.constant3", 0),
            undefined=tuple(sorted({symbol.name for symbol in symbols if _is_undefined(symbol)})),
        )
    except (ELFError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise CubinError(f"not a cubin that can be read: {error}") from error


def _is_undefined(symbol: Symbol) -> bool:
    return bool(symbol["st_shndx"] == "SHN_UNDEF" and symbol.name and not symbol.name.startswith(DRIVER_SYMBOLS))


def _architecture(flags: int) -> int:
    """The SM version in an ELF header's flags: second byte in today's files, first byte in those before CUDA 13."""
    return (flags >> 8 & 0xFF) or (flags & 0xFF)


def _attributes(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(attribute, immediate value, payload) of each record: format byte, attribute byte, two bytes of value or payload size."""
    position = 0
    while position + 4 <= len(data):
        form, attribute = data[position], data[position + 1]
        value = int.from_bytes(data[position + 2 : position + 4], "little")
        position += 4
        size = value if form == FORMAT_SIZED else 0
        yield attribute, value, data[position : position + size]
        position += size


def _per_function(data: bytes, names: list[str]) -> dict[int, dict[str, int]]:
    """For each attribute, function name -> number: records of a symbol index and a value."""
    found: dict[int, dict[str, int]] = {}
    for attribute, _, payload in _attributes(data):
        if attribute in (FRAME_SIZE, MIN_STACK_SIZE, REGCOUNT):
            name = names[int.from_bytes(payload[:4], "little")]
            found.setdefault(attribute, {})[name] = int.from_bytes(payload[4:8], "little")
    return found


def _kernel(
    name: str, sections: Mapping[str, object], sizes: Mapping[str, int], totals: Mapping[int, Mapping[str, int]], reserved: int
) -> Kernel:
    section = sections.get(f".nv.info.{name}")
    attributes = list(_attributes(section.data())) if section is not None else []  # type: ignore[attr-defined]
    parameters = sorted(
        (int.from_bytes(payload[4:6], "little"), int.from_bytes(payload[8:12], "little") >> 18)
        for attribute, _, payload in attributes
        if attribute == KPARAM_INFO
    )
    return Kernel(
        name=name,
        registers=totals.get(REGCOUNT, {}).get(name, 0),
        stack_bytes=max(totals.get(attribute, {}).get(name, 0) for attribute in (FRAME_SIZE, MIN_STACK_SIZE)),
        shared_bytes=max(0, sizes.get(f".nv.shared.{name}", 0) - reserved),
        barriers=max((value for attribute, value, _ in attributes if attribute == NUM_BARRIERS), default=0),
        parameter_bytes=tuple(size for _, size in parameters),
    )
