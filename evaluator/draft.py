"""Drafts a launch plan for a kernel that someone already has, from its signature; a person then checks the marked lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evaluator.draft_sheet import Sheet
from evaluator.outcome import Fault
from evaluator.plan.parse import parse_plan
from evaluator.plan.text import PLAN_OPENING
from evaluator.signatures import Function, Parameter, cpu_functions, kernels, unpacked
from evaluator.task_card import TaskCard
from population.candidate import Language

CPU_FORM = "(long task, void* const* args)"
MAX_FUNCTIONS = 8
_FOREIGN = {
    "<<<": "the `<<<...>>>` launch",
    "cudaMalloc": "the call of cudaMalloc",
    "cudaMemcpy": "the call of cudaMemcpy",
    "torch/": "the torch header",
    "int main": "the function main",
    "#pragma omp": "OpenMP",
    "std::thread": "std::thread",
}
_HEAP = re.compile(r"\bstd::(?:vector|string|map|deque|make_unique)\b|\bmalloc(?= *\()|\bnew(?= +\w+ *\[)")
_HOST_HEADER = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*(<(?:cstdio|stdio\.h|cstdlib|stdlib\.h|iostream|vector|string|algorithm|cmath|math\.h)>)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The source with a drafted plan at its top, and what a person must change or check, one or two sentences each."""

    text: str
    remarks: tuple[str, ...]


def draft(source: str, language: Language, card: TaskCard) -> Draft:
    """The source with a plan drafted from its signatures; lines that a person must look at carry ``# check:``.

    A source that already has a plan comes back as it is. Guesses go by parameter names, then by pointer constness and order.
    """
    if any(PLAN_OPENING.match(line) for line in source.split("\n")):
        return Draft(text=source, remarks=("the source already has a plan; nothing was changed",))
    remarks: list[str] = []
    functions = _functions(source, language, card, remarks)
    for mark, what in _FOREIGN.items():
        if mark in source:
            remarks.append(f"{what} must go: the file holds the kernel alone, and the harness owns threads, memory and launches")
    if language is Language.CPP and (heap := _HEAP.search(source)):
        remarks.append(f"{heap[0]} needs the heap, which a kernel doesn't have; use an array of fixed size or a [workspace]")
    if language is Language.CUDA and (headers := _HOST_HEADER.findall(source)):
        remarks.append(f"{', '.join(headers)} can't be included: NVRTC has no host headers, and its own functions need none")
    if numbers := re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\d+[ \t]*$", source, re.MULTILINE):
        remarks.append(
            f"{', '.join(numbers[:6])} could become knobs: move them to [knobs], which defines the macros for each build"
        )
    else:
        remarks.append(
            "the plan has no [knobs], so the knobs answerer will find nothing to turn; a number such as a tile size becomes one "
            "as TILE = { value = 64, choices = [32, 64, 128] }, and the source then uses the macro TILE"
        )
    sheet = Sheet(card=card, language=language, remarks=remarks)
    for function in functions:
        sheet.add(function)
    text = f"{sheet.plan()}\n{source}"
    plan = parse_plan(text, language, card)
    if isinstance(plan, Fault):
        remarks.append(f"the draft can't be used yet: {plan.message}")
    return Draft(text=text, remarks=tuple(dict.fromkeys(remarks)))


def _functions(source: str, language: Language, card: TaskCard, remarks: list[str]) -> Sequence[Function]:
    """The functions that the plan will launch, with what stands in the way of each as remarks."""
    found = kernels(source) if language is Language.CUDA else cpu_functions(source)
    usable = []
    for function in found:
        if function.template:
            remarks.append(
                f"{function.name} is a template, which a plan can't name; turn its template parameters into [knobs] or "
                f'[constants], which arrive as macros, and declare it extern "C"'
            )
            continue
        if not function.extern_c:
            remarks.append(
                f'{function.name} isn\'t declared extern "C"; put extern "C" before it, so that it can be found by name'
            )
        usable.append(function if language is Language.CUDA else _cpu_function(function, remarks))
    if len(usable) > MAX_FUNCTIONS:
        remarks.append(f"{len(usable)} kernels were found; the plan launches the first {MAX_FUNCTIONS}, add the others by hand")
    if not usable:
        form = "__global__ void NAME(...)" if language is Language.CUDA else f"void NAME{CPU_FORM}"
        remarks.append(f'no kernel was found that a plan can name; write extern "C" {form} and name it in the plan')
        usable.append(
            Function(name=f"{card.name}_kernel", parameters=(), template=False, extern_c=True, head="", body="")
        )  # fmt: skip
    return usable[:MAX_FUNCTIONS]


def _cpu_function(function: Function, remarks: list[str]) -> Function:
    """The function with the parameters that it takes out of ``args``; an ordinary signature is kept and remarked on."""
    types = [(parameter.type, parameter.pointer) for parameter in function.parameters]
    if types == [("long", False), ("void", True)]:
        taken = unpacked(function)
        if not taken:
            remarks.append(f"which entry of args is what couldn't be read from {function.name}; put the names in its order")
        return replace(function, parameters=taken)
    lines = [_unpacking(index, parameter) for index, parameter in enumerate(function.parameters)]
    remarks.append(
        f'declare {function.name} as extern "C" void {function.name}{CPU_FORM}, where a call does one independent piece of work, '
        f"numbered by task with the grid's x fastest, and begin it with: {' '.join(lines)}"
    )
    return function


def _unpacking(index: int, parameter: Parameter) -> str:
    if parameter.pointer:
        kind = f"{'const ' if parameter.const else ''}{parameter.type}*"
        return f"{kind} {parameter.name} = static_cast<{kind}>(args[{index}]);"
    kind = "float" if parameter.type in ("float", "double") else "int"
    return f"{kind} {parameter.name} = *static_cast<const {kind}*>(args[{index}]);"
