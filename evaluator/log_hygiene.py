"""Compiler logs made fit to show: nothing of the machine, nothing of files that aren't the candidate's, short.

A log is data. What a candidate writes into it (``#error``, ``static_assert``) stays recognisable as the candidate's own line.
Formats: EDG (NVRTC) ``file(3): error: ...``, GNU ``file:3:5: error: ...``, ptxas, assembler and linker.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CAP_CHARACTERS = 4096
LINE_CHARACTERS = 300
SYSTEM_FOLDERS = (Path("/usr/include"), Path("/usr/lib"), Path("/usr/local/include"), Path("/usr/local/cuda"))
ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.")
LOCATION = re.compile(
    r"^(?:(?:In file included|\s+) from )?(?P<path>[^\s:(][^:(\n]*?)"
    r"(?:\(\d+\)|:\d+(?::\d+)?|(?=:\s+(?:In |At |Assembler )))[:,].*$"
)
NOISE = re.compile(r"^ptxas info\s+: (?:Compile time|0 bytes gmem)")
TOOL = re.compile(r"^(?:ptxas|nvlink|nvrtc|collect2|cc1plus|g\+\+|as|(?:\S*/)?ld)(?=[\s:])")
ASSEMBLY = re.compile(r"cc\w{6}\.(?:s|o)|[\w.-]*\.ltrans\d+\.ltrans\.o|\{standard input\}")
SUMMARY = re.compile(r"^\s*$|^\d+ (?:catastrophic )?errors? detected|^Compilation terminated|^Remark:|^compilation terminated")
ERROR = re.compile(r"(?i)\b(?:error|fatal)\b\s*(?:#\S+)?\s*:|undefined reference")
MACHINE_PATH = re.compile(r"(?<![\w./])(?:/[\w.+@-]+)+/([\w.+@-]+)")
UNOPENED = re.compile(
    r"cannot open source file \"(?P<edg>[^\"\n]+)\"|fatal error: (?P<gnu>[^:\n]+): (?:Permission denied|No such file)"
    r"|Error: file not found: (?P<asm>[^\n]+)|Error: can't open (?P<asm_include>[^\n]+) for reading"
)
HIDDEN = "error: in a file that isn't the candidate's (by #include, #line or .include); its text is not shown, remove that line"


@dataclass(slots=True)
class _Block:
    """A diagnostic and the lines that belong to it."""

    lines: list[str]
    is_error: bool

    def size(self) -> int:
        return sum(len(line) + 1 for line in self.lines)


def clean_log(text: str, source_name: str, headers: Sequence[Path] = ()) -> str:
    """``text`` without machine paths, control characters and foreign file content, at most 4 KiB, errors first when cut.

    ``source_name`` is the candidate's file as the compiler names it. Diagnostics in ``headers`` and the system's headers keep
    their message and lose the echoed line; those in any other file are replaced by one sentence.
    """
    trusted = (*headers, *SYSTEM_FOLDERS)
    blocks: list[_Block] = []
    echo = True
    for raw in printable(text).split("\n"):
        if NOISE.match(raw):
            continue
        owner = _owner(raw, source_name, trusted)
        if owner == "foreign":
            echo = False
            if ERROR.search(raw) and not (blocks and blocks[-1].lines == [HIDDEN]):
                blocks.append(_Block([HIDDEN], True))
        elif owner:
            echo = owner in ("own", "tool")
            blocks.append(_Block([_short(_without_paths(raw))], bool(ERROR.search(raw))))
        elif SUMMARY.match(raw):
            continue
        elif not (echo := echo and bool(blocks) and (raw[0].isspace() or raw.startswith(f"{source_name}:("))):
            continue  # a continuation is indented; anything else is text that some file smuggled in
        else:
            blocks[-1].lines.append(_short(_without_paths(raw)))
    return _cap(blocks)


def first_error(cleaned: str) -> str:
    """The first line of a cleaned log that reports an error, or the first line at all; empty for an empty log."""
    lines = cleaned.splitlines()
    return next((line for line in lines if ERROR.search(line)), lines[0] if lines else "").strip()


def unopened_files(text: str) -> tuple[str, ...]:
    """The files that a compiler or assembler says it could not open, as the source names them."""
    return tuple(next(name for name in match.groups() if name) for match in UNOPENED.finditer(text))


def foreign_files(text: str, source_name: str, headers: Sequence[Path] = ()) -> bool:
    """Whether a diagnostic lies in a file that is neither the candidate's nor a header of the toolchain."""
    trusted = (*headers, *SYSTEM_FOLDERS)
    return any(_owner(line, source_name, trusted) == "foreign" for line in printable(text).split("\n"))


def printable(text: str) -> str:
    """Without escape sequences, control, format (bidirectional, zero-width) and surrogate characters, except tab and newline."""
    plain = ESCAPE.sub("", text).replace("\r\n", "\n")
    return "".join(c for c in plain if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co"))


def _owner(line: str, source_name: str, trusted: Sequence[Path]) -> str:
    """Whose diagnostic starts here: "own", "header", "tool", "foreign", or "" where none starts."""
    if TOOL.match(line):
        return "tool"
    match = LOCATION.match(line)
    if match is None:
        return ""
    path = match["path"]
    if path == source_name or ASSEMBLY.fullmatch(Path(path).name):
        return "own"
    if match["path"].startswith("<"):  # <built-in>, <command-line>
        return "header"
    inside = any(Path(path).is_relative_to(folder) for folder in trusted) and ".." not in Path(path).parts
    return "header" if inside else "foreign"


def _without_paths(line: str) -> str:
    """Absolute paths cut to their last part, but for those that the source itself names."""
    line = MACHINE_PATH.sub(r"\1", line, count=1) if line.startswith("/") else line
    if UNOPENED.search(line) or "#include" in line or "incbin" in line:
        return line
    return MACHINE_PATH.sub(r"\1", line)


def _short(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS else line[: LINE_CHARACTERS - 3] + "..."


def _cap(blocks: Sequence[_Block]) -> str:
    """All blocks in order if they fit, else errors before the rest, then how many lines are missing."""
    order = list(blocks)
    if sum(block.size() for block in order) > CAP_CHARACTERS:
        order.sort(key=lambda block: not block.is_error)
    kept: list[str] = []
    room = CAP_CHARACTERS - 40
    for line in (line for block in order for line in block.lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    left = sum(len(block.lines) for block in order) - len(kept)
    return "\n".join([*kept, f"[{left} more lines not shown]"] if left else kept)
