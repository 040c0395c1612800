"""Reads PTX as text: entry points with their parameters and launch bounds, and words that the gate refuses.

PTX is what macros, templates and digraphs have become, and inline assembly stands in it word for word, so nothing is hidden
from it. Grammar: "Parallel Thread Execution ISA", chapters Syntax, Directives, Special Registers.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEXEME = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
ENTRY = re.compile(r"\.entry\s+(?P<name>[\w$%]+)\s*(?:\((?P<parameters>[^)]*)\))?(?P<directives>[^{;]*)")
PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align_before>\d+)\s+)?\.(?P<type>[a-z]+\d+)\s*(?:\.ptr(?:\s*\.\w+)*(?:\s*\.align\s+\d+)?\s*)?"
    r"(?:\.align\s+(?P<align>\d+)\s+)?[\w$%]+(?:\s*\[\s*(?P<count>\d*)\s*\])?"
)
HEADER = re.compile(r"^\s*\.(?:version|target|address_size|file|loc|section)\b[^\n{;]*", re.MULTILINE)
STATE = re.compile(
    r"(?:^|[;{}:])\s*(?:\.(?:visible|extern|weak|common)\s+)*\.global\b[^;]*?([\w$%]+)\s*(?:\[[^;=]*)?(?:=[^;]*)?;"
)
FUNCTION = re.compile(r"\.(?:func|entry)\s*(?:\.attribute\s*\([^)]*\)\s*)?(?:\([^)]*\)\s*)?([\w$%]+)")
EXTERNAL = re.compile(r"\.extern\s+\.func\b(?:\s*\([^)]*\))?\s*([\w$%]+)")
WORD = re.compile(r"[\w$%]+")
TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
FORBIDDEN = (
    (re.compile(r"%(?:clock|globaltimer)\w*"), "reads a clock", "measure nothing inside the kernel; the harness times it"),
    (re.compile(r"%pm\d\w*"), "reads a performance counter", "measure nothing inside the kernel"),
    (re.compile(r"%gridid\b"), "reads the number of its launch", "compute the same in every launch"),
    (re.compile(r"%current_graph_exec\b"), "asks whether it runs in a graph", "compute the same in every launch"),
    (
        re.compile(r"%envreg\d+"),
        "reads a driver register (cooperative_groups' grid.sync() does)",
        "build a grid barrier from a workspace with init = 'zero' and self_resetting = true",
    ),
    (re.compile(r"launch_dependents"), "releases dependent launches early", "leave out griddepcontrol.launch_dependents"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One kernel parameter: PTX type without its dot ("u64", "f32", "b8" for structs), size and alignment in bytes."""

    type: str
    size_bytes: int
    align_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry point. ``max_threads``, ``required_block`` and ``required_cluster`` are None where the source sets none."""

    name: str
    parameters: tuple[Parameter, ...]
    max_threads: int | None
    required_block: tuple[int, int, int] | None
    required_cluster: tuple[int, int, int] | None


def read_entries(ptx: str) -> tuple[Entry, ...]:
    """The entry points in the order of the text."""
    return tuple(_entry(match) for match in ENTRY.finditer(without_comments(ptx)))


def device_variables(ptx: str) -> tuple[str, ...]:
    """Names declared in the global state space, at module scope or in inline assembly."""
    return tuple(match[1] for match in STATE.finditer(HEADER.sub(";", without_comments(ptx))))


def idle_constants(ptx: str) -> tuple[str, ...]:
    """Device variables with an initial value that no instruction and no other declaration names.

    NVRTC keeps every ``constexpr`` scalar of namespace scope as one, though its value stands in the instructions.
    """
    code = HEADER.sub(";", without_comments(ptx))
    found = [(match[1], "=" in match[0]) for match in STATE.finditer(code)]
    words = Counter(WORD.findall(code))
    return tuple(name for name, has_value in found if has_value and words[name] == 1)


def external_functions(ptx: str) -> tuple[str, ...]:
    """Functions that are declared and lie outside the module, such as ``malloc`` and ``vprintf``."""
    return tuple(dict.fromkeys(EXTERNAL.findall(without_comments(ptx))))


def recursive_function(ptx: str, entry: str) -> str | None:
    """A function that ``entry`` reaches and that reaches itself, None if there is none.

    A function reaches those that its body names: whoever takes an address may call it.
    """
    named = _named_functions(without_comments(ptx))
    reached = [entry]
    for name in reached:
        reached += [other for other in named.get(name, ()) if other not in reached]
    return next((name for name in reached if _reaches(named, name)), None)


def _named_functions(code: str) -> dict[str, list[str]]:
    """For each function with a body, the functions that its body names."""
    names = set(FUNCTION.findall(code))
    if len(names) == len(re.findall(r"\.entry\b", code)):  # everything is inlined
        return {}
    token = re.compile(rf"{FUNCTION.pattern}|([{{}}])|(?<![\w$%])(?:{'|'.join(map(re.escape, names))})(?![\w$%])")
    found: dict[str, list[str]] = {}
    current, depth = "", 0
    for match in token.finditer(code):
        defined, brace = match[1], match[2]
        if brace:
            depth += 1 if brace == "{" else -1
        elif not depth:
            current = defined or current
        else:
            found.setdefault(current, []).append(defined or match[0])
    return found


def _reaches(named: Mapping[str, Sequence[str]], name: str) -> bool:
    """Whether a function reaches itself."""
    below = list(named.get(name, ()))
    for other in below:
        below += [further for further in named.get(other, ()) if further not in below]
    return name in below


def forbidden_words(ptx: str) -> tuple[tuple[str, str, str], ...]:
    """(word, what it does, what to do instead) for each refused word; comments count, so that no way of commenting hides one."""
    found = ((pattern.search(ptx), does, instead) for pattern, does, instead in FORBIDDEN)
    return tuple((match[0], does, instead) for match, does, instead in found if match)


def target(ptx: str) -> str:
    """The architecture that the module was compiled for, such as "sm_90a"; empty if the text has no target."""
    match = TARGET.search(ptx)
    return match[1] if match else ""


def without_comments(ptx: str) -> str:
    """PTX with each comment and string as one space."""
    return LEXEME.sub(" ", ptx)


def _entry(match: re.Match[str]) -> Entry:
    directives = match["directives"]
    max_block = _sizes(directives, "maxntid")
    return Entry(
        name=match["name"],
        parameters=tuple(_parameter(found) for found in PARAMETER.finditer(match["parameters"] or "")),
        max_threads=max_block[0] * max_block[1] * max_block[2] if max_block else None,
        required_block=_sizes(directives, "reqntid"),
        required_cluster=_sizes(directives, "reqnctapercluster"),
    )


def _parameter(match: re.Match[str]) -> Parameter:
    item_bytes = int(re.sub(r"\D", "", match["type"])) // 8
    return Parameter(
        type=match["type"],
        size_bytes=item_bytes * int(match["count"] or 1),
        align_bytes=int(match["align_before"] or match["align"] or item_bytes),
    )


def _sizes(directives: str, name: str) -> tuple[int, int, int] | None:
    """The one to three numbers after a directive, missing ones as 1."""
    match = re.search(rf"\.{name}\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", directives)
    return (int(match[1]), int(match[2] or 1), int(match[3] or 1)) if match else None
