"""Which names a plan may introduce, and which names its expressions may use."""

import keyword
import re
from collections.abc import Mapping
from enum import StrEnum

from evaluator.expression_parser import FUNCTIONS
from evaluator.plan.model import DEVICE_FACTS
from evaluator.plan.section import Scope, Section
from evaluator.task_card import TaskCard


class NameKind(StrEnum):
    """What a name of the task or the plan stands for, in the words of the messages."""

    SYMBOL = "a scenario symbol"
    DEVICE_FACT = "a device fact"
    INPUT = "an input tensor"
    OUTPUT = "an output tensor"
    FLOAT = "a float argument of the task"
    KNOB = "a knob"
    CONSTANT = "a constant"
    WORKSPACE = "a workspace"
    TENSOR_MAP = "a tensor map"
    SCALAR = "a scalar of the plan"


TABLES = {
    "knobs": NameKind.KNOB,
    "constants": NameKind.CONSTANT,
    "workspace": NameKind.WORKSPACE,
    "tensor_maps": NameKind.TENSOR_MAP,
    "scalars": NameKind.SCALAR,
}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_RESERVED_SHAPE = re.compile(r"_[A-Z]|.*__", re.ASCII)
_CPP_WORDS = """alignas alignof and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double
    dynamic_cast enum explicit export extern false float for friend goto inline int long mutable namespace new noexcept not_eq
    nullptr operator or_eq private protected public register reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned
    using virtual void volatile wchar_t while xor xor_eq main defined"""
_RESERVED = frozenset((*_CPP_WORDS.split(), *keyword.kwlist, *FUNCTIONS))


def identifier_problem(name: str) -> str | None:
    """Why a name can't be a C identifier of the plan, or None."""
    if not _IDENTIFIER.fullmatch(name):
        return "isn't a C identifier of at most 64 characters (letters, digits and _, not beginning with a digit)"
    if name in _RESERVED:
        return "is a reserved word; choose another name"
    if _RESERVED_SHAPE.match(name):
        return "is reserved for the compiler (it holds `__` or begins with _ and a capital letter); choose another name"
    return None


def name_kinds(root: Section, card: TaskCard) -> dict[str, NameKind]:
    """What each name of the task and the plan is. PlanError for a bad name or one used twice."""
    kinds = dict.fromkeys(card.symbols, NameKind.SYMBOL)
    kinds |= dict.fromkeys(DEVICE_FACTS, NameKind.DEVICE_FACT)
    kinds |= {tensor.name: NameKind.OUTPUT if tensor.role == "output" else NameKind.INPUT for tensor in card.tensors}
    kinds |= dict.fromkeys(card.scalars, NameKind.FLOAT)
    for table, kind in TABLES.items():
        section = root.inner(table, f"[{table}]")
        for name in section.values:
            if problem := identifier_problem(name):
                raise section.error(f"the name {problem}", name)
            if name in kinds:
                raise section.error(f"the name is taken, it is already {kinds[name]}; choose another", name)
            kinds[name] = kind
    return kinds


def scopes(kinds: Mapping[str, NameKind], card: TaskCard) -> tuple[Scope, Scope]:
    """The scope of conditions (scenario symbols only) and that of every other expression (with knobs and device facts)."""
    symbols = frozenset(card.symbols)
    knobs = frozenset(name for name, kind in kinds.items() if kind is NameKind.KNOB)
    narrow = Scope(allowed=symbols, title="scenario symbols", others=kinds)
    wide = Scope(
        allowed=symbols | knobs | frozenset(DEVICE_FACTS), title="scenario symbols, knobs and device facts", others=kinds
    )
    return narrow, wide
