"""Names of the constant tables of a cubin, by which the driver finds them."""

import io

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from evaluator.cuda.cubin import INITIAL

TABLES = (".nv.constant3", INITIAL)


def constant_names(cubin: bytes) -> tuple[str, ...]:
    """The ``__constant__`` variables and constants of namespace scope, sorted. Raises ELFError for what is no ELF file.

    NVRTC makes their symbols local, and the driver finds most of them all the same.
    """
    elf = ELFFile(io.BytesIO(cubin))
    sections = [section.name for section in elf.iter_sections()]
    found = set()
    for table in elf.iter_sections():
        if not isinstance(table, SymbolTableSection):
            continue
        for symbol in table.iter_symbols():
            place = symbol["st_shndx"]
            is_object = symbol["st_info"]["type"] == "STT_OBJECT"
            if isinstance(place, int) and is_object and sections[place].startswith(TABLES):
                found.add(symbol.name)
    return tuple(sorted(found))
