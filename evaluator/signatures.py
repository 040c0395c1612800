"""Finds kernels and their parameters in a C++ or CUDA source by its text, well enough to draft a plan from them.

Not a compiler: comments and quoted texts are blanked, brackets are matched, macros aren't expanded.
"""

import re
from dataclasses import dataclass
from itertools import islice

MAX_FUNCTIONS = 256
_BLANKED = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_ATTRIBUTES = ("__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__block_size__", "__attribute__", "alignas")
_QUALIFIERS = re.compile(
    r"\b(?:__restrict__|__restrict|restrict|__grid_constant__|const|volatile|struct|unsigned|signed|register)\b"
)
_FUNCTION = re.compile(r"\bvoid\s+([A-Za-z_]\w*)\s*\(", re.ASCII)
_CALLED = re.compile(r"([A-Za-z_]\w*)\s*\(", re.ASCII)
_NOT_NAMES = frozenset({"if", "for", "while", "switch", "return", "sizeof", "main"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: ``type`` without qualifiers and stars, ``text`` as written on one line."""

    name: str
    type: str
    pointer: bool
    const: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A kernel or a CPU function; ``head`` is the text before its parameters, attributes included, ``body`` from there on."""

    name: str
    parameters: tuple[Parameter, ...]
    template: bool
    extern_c: bool
    head: str
    body: str

    def numbers_of(self, attribute: str) -> tuple[int, ...]:
        """The leading plain integers of an attribute such as ``__launch_bounds__``; empty where it has none."""
        found = re.search(rf"\b{attribute}\s*\(([^)]*)", self.head)
        numbers = []
        for part in found[1].split(",") if found else ():
            if not re.fullmatch(r"[0-9]{1,9}", part.strip()):
                break
            numbers.append(int(part))
        return tuple(numbers)


def blanked(source: str) -> str:
    """The source with comments and quoted texts replaced by spaces, except ``"C"``; positions and lines stay."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0] == '"C"' else re.sub(r"[^\n]", " ", found[0])

    return _BLANKED.sub(blank, source)


def kernels(source: str) -> tuple[Function, ...]:
    """Every ``__global__`` function of a CUDA source, each name once, in order."""
    text = blanked(source)
    found: dict[str, Function] = {}
    for mark in islice(re.finditer(r"\b__global__\b", text), MAX_FUNCTIONS):
        position = mark.end()
        while called := _CALLED.search(text, position):
            if called[1] not in _ATTRIBUTES:
                function = _function(text, _start(text, mark.start()), called)
                found.setdefault(function.name, function)
                break
            position = _closing(text, called.end())
    return tuple(found.values())


def cpu_functions(source: str) -> tuple[Function, ...]:
    """The C++ functions with parameters and a body that return nothing: those with ``extern "C"``, or else the last one."""
    text = blanked(source)
    found: dict[str, Function] = {}
    for called in islice(_FUNCTION.finditer(text), MAX_FUNCTIONS):
        after = text[_closing(text, called.end()) :].lstrip()
        if after.startswith("{") and called[1] not in _NOT_NAMES:
            function = _function(text, _start(text, called.start()), called)
            if function.parameters:
                found.setdefault(function.name, function)
    exported = tuple(function for function in found.values() if function.extern_c)
    return exported or tuple(found.values())[-1:]


def _function(text: str, start: int, called: re.Match[str]) -> Function:
    end = _closing(text, called.end())
    head = text[start : called.start(1)]
    return Function(
        name=called[1],
        parameters=tuple(_parameters(text[called.end() : end - 1])),
        template=re.search(r"\btemplate\s*<", head) is not None,
        extern_c='extern "C"' in " ".join(head.split()) or _inside_extern_block(text, start),
        head=head,
        body=text[end:],
    )


def _start(text: str, position: int) -> int:
    """Where the declaration begins that holds ``position``: after the last ; { } or preprocessor line before it."""
    start = max(text.rfind(mark, 0, position) for mark in ";{}") + 1
    lines = list(re.finditer(r"^[ \t]*#[^\n]*\n", text[start:position], re.MULTILINE))
    return start + lines[-1].end() if lines else start


def _inside_extern_block(text: str, position: int) -> bool:
    opened = list(re.finditer(r'extern\s+"C"\s*\{', text[:position]))
    inside = text[opened[-1].end() : position] if opened else "}"
    return inside.count("{") >= inside.count("}")


def _closing(text: str, position: int) -> int:
    """The position after the bracket that closes the one before ``position``; the end of the text if there is none."""
    depth = 1
    for found in re.compile(r"[()]").finditer(text, position):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.end()
    return len(text)


def _parameters(text: str) -> list[Parameter]:
    parts, depth, start = [], 0, 0
    for found in re.finditer(r"[()<>\[\],]", text):
        if found[0] != ",":
            depth += 1 if found[0] in "(<[" else -1
        elif depth == 0:
            parts.append(text[start : found.start()])
            start = found.end()
    parts.append(text[start:])
    return [parameter for part in parts if (parameter := parameter_of(part)) is not None]


def parameter_of(text: str) -> Parameter | None:
    """The parameter declared by a text such as ``const float* __restrict__ q``; None for nothing or ``void``."""
    declared = " ".join(text.partition("=")[0].split())
    array = declared.endswith("]")
    named = re.search(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?$", declared, re.ASCII)
    if named is None or declared == "void":
        return None
    before = declared[: named.start()]
    return Parameter(
        name=named[1],
        type=" ".join(_QUALIFIERS.sub(" ", before).replace("*", " ").replace("&", " ").split()) or "int",
        pointer="*" in before or array,
        const=re.search(r"\bconst\b", before.partition("*")[0]) is not None,
        text=declared,
    )


def unpacked(function: Function) -> tuple[Parameter, ...]:
    """What a function of the form ``(long task, void* const* args)`` takes out of ``args``, by the variables it names them."""
    if len(function.parameters) != 2:
        return ()
    array = re.escape(function.parameters[1].name)
    pattern = re.compile(
        rf"([\w:\s*&]{{1,80}}?\b[A-Za-z_]\w*)\s*=([^;={{}}]{{0,200}})\b{array}\s*\[\s*([0-9]{{1,3}})\s*\]", re.ASCII
    )
    found: dict[int, Parameter] = {}
    for declared, cast, index in pattern.findall(function.body):
        parameter = parameter_of(_without_auto(declared, cast))
        if parameter is not None:
            found.setdefault(int(index), parameter)
    return tuple(found[index] for index in sorted(found)) if sorted(found) == list(range(len(found))) else ()


def _without_auto(declared: str, cast: str) -> str:
    """A declaration with ``auto`` replaced by the type of the cast that it is set from."""
    target = re.search(r"[<(]\s*([^<>()]*)\*\s*[>)]", cast)
    if target is None:
        return declared
    return re.sub(r"\bauto\b[\s*]*", target[1] + (" " if cast.lstrip().startswith("*") else "* "), declared)
