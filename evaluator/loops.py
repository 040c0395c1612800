"""The innermost loops of compiled code as text: what one looks at first in a disassembly, with what they are made of.

Reads what objdump and nvdisasm print. Which loop is hot isn't known here: the longest come first.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_LINES = 240
"""Instructions shown in all; of a loop that doesn't fit, as many as are left."""

MAX_LOOPS = 4
MAX_KINDS = 12

_OBJDUMP_FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>[^>]+)>:$")
_OBJDUMP_LINE = re.compile(r"^\s*(?P<place>[0-9a-f]+):\t(?P<text>.+)$")
_OBJDUMP_JUMP = re.compile(r"^j\w+\s+(?:0x)?(?P<place>[0-9a-f]+)\b")
_SASS_FUNCTION = re.compile(r"^\s*\.section\s+\.text\.(?P<name>[\w$.]+)")
_SASS_LABEL = re.compile(r"^(?P<label>\.L\w+):")
_SASS_LINE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?P<text>[^;]*);?")
_SASS_JUMP = re.compile(r"\bBRA\b[^;]*`\((?P<label>\.L\w+)\)")
_PREFIX = re.compile(r"^(?:\{\s*)?(?:@!?U?P\w+\s+)?(?:(?:rep\w*|lock|notrack|bnd)\s+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction; ``to`` is the place in its function that it jumps to, None where it doesn't jump within it."""

    text: str
    to: int | None = None

    @property
    def opcode(self) -> str:
        """The name of the operation without predicate, prefix and operands."""
        return _PREFIX.sub("", self.text).split(maxsplit=1)[0] if self.text.strip() else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """The instructions between the target of a backward jump and that jump, both included."""

    function: str
    instructions: tuple[Instruction, ...]


def read_objdump(text: str) -> Mapping[str, tuple[Instruction, ...]]:
    """The functions in what ``objdump --disassemble --no-show-raw-insn`` prints, in its order."""
    found: dict[str, list[tuple[int, str]]] = {}
    lines: list[tuple[int, str]] = []
    for line in text.splitlines():
        if function := _OBJDUMP_FUNCTION.match(line):
            lines = found.setdefault(function["name"], [])
        elif instruction := _OBJDUMP_LINE.match(line):
            lines.append((int(instruction["place"], 16), " ".join(instruction["text"].split())))
    return {name: _placed(lines) for name, lines in found.items()}


def read_nvdisasm(text: str) -> Mapping[str, tuple[Instruction, ...]]:
    """The kernels in what ``nvdisasm -c`` prints, in its order."""
    found: dict[str, list[str]] = {}
    labels: dict[str, dict[str, int]] = {}
    name = ""
    for line in text.splitlines():
        if section := _SASS_FUNCTION.match(line):
            name = section["name"]
        elif label := _SASS_LABEL.match(line):
            labels.setdefault(name, {})[label["label"]] = len(found.get(name, []))
        elif name and (instruction := _SASS_LINE.match(line)):
            found.setdefault(name, []).append(" ".join(instruction["text"].split()))
    return {
        kernel: tuple(
            Instruction(text=text, to=labels.get(kernel, {}).get(jump["label"]) if (jump := _SASS_JUMP.search(text)) else None)
            for text in texts
        )
        for kernel, texts in found.items()
    }


def innermost(functions: Mapping[str, Sequence[Instruction]]) -> tuple[Loop, ...]:
    """The loops that hold no other, the longest first, among equals in the order of the code."""
    loops: list[Loop] = []
    for name, code in functions.items():
        spans = sorted({(one.to, place) for place, one in enumerate(code) if one.to is not None and one.to < place})
        inner = [span for span in spans if not any(_holds(span, other) for other in spans)]
        loops += [Loop(function=name, instructions=tuple(code[first : last + 1])) for first, last in inner]
    return tuple(sorted(loops, key=lambda loop: -len(loop.instructions)))


def loop_text(functions: Mapping[str, Sequence[Instruction]]) -> str:
    """The longest innermost loops with their instruction mix; empty where the code has no loop."""
    loops = innermost(functions)
    left = MAX_LINES
    lines: list[str] = []
    for loop in loops[:MAX_LOOPS]:
        if left <= 0:
            break
        mix = Counter(one.opcode for one in loop.instructions)
        kinds = ", ".join(f"{count} {opcode}" for opcode, count in mix.most_common(MAX_KINDS))
        shown = loop.instructions[:left]
        lines += [f"{loop.function}: innermost loop of {len(loop.instructions)} instructions ({kinds})"]
        lines += [f"  {one.text}" for one in shown]
        if len(shown) < len(loop.instructions):
            lines.append(f"  ... and {len(loop.instructions) - len(shown)} more")
        left -= len(shown)
    if more := len(loops[MAX_LOOPS:]):
        lines.append(f"{more} shorter innermost loops are left out")
    return "\n".join(lines)


def _placed(lines: Sequence[tuple[int, str]]) -> tuple[Instruction, ...]:
    places = {place: index for index, (place, _) in enumerate(lines)}
    return tuple(
        Instruction(text=text, to=places.get(int(jump["place"], 16)) if (jump := _OBJDUMP_JUMP.match(text)) else None)
        for _, text in lines
    )


def _holds(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer != inner and outer[0] <= inner[0] and inner[1] <= outer[1]
