"""Reads the launch plan of a source and judges all that can be judged without a scenario."""

from collections.abc import Mapping

from evaluator.outcome import Fault
from evaluator.plan.knobs import read_knobs
from evaluator.plan.launches import read_launch
from evaluator.plan.model import DTYPE_BYTES, LaunchSpec, Plan, PlanError, Quantity, WorkspaceSpec
from evaluator.plan.names import NameKind, name_kinds, scopes
from evaluator.plan.section import Scope, Section
from evaluator.plan.tensor_maps import read_tensor_maps, workspace_axes
from evaluator.plan.text import key_lines, load_table, plan_text
from evaluator.task_card import TaskCard
from population.candidate import Language

MAX_WORKSPACE_AXES = 8
MIN_REGISTERS, MAX_REGISTERS = 16, 255
_TOP_KEYS = (
    "domain",
    "nondeterministic",
    "knobs",
    "constants",
    "compile",
    "workspace",
    "tensor_maps",
    "scalars",
    "launch",
)
_WORKSPACE_FORM = 'NAME = { dtype = "float32", shape = ["b", "h", "sq"] }'


def parse_plan(source: str, language: Language, card: TaskCard) -> Plan | Fault:
    """The plan of a source, or a PLAN_ERROR with the line in the source and what to write instead. Never raises for any text."""
    try:
        body, line = plan_text(source)
        root = Section(values=load_table(body, line), path=(), title="", lines=key_lines(body, line))
        return _read_plan(root, language, card)
    except PlanError as error:
        return error.fault()


def _read_plan(root: Section, language: Language, card: TaskCard) -> Plan:
    root.only(_TOP_KEYS)
    kinds = name_kinds(root, card)
    narrow, wide = scopes(kinds, card)
    if language is Language.CPP and "tensor_maps" in root.values:
        raise root.error("a CPU candidate has no tensor maps; pass the tensors themselves", "tensor_maps")
    fast_math, maxrregcount = _read_compile(root.inner("compile", "[compile]"), language)
    workspaces = _read_workspaces(root.inner("workspace", "[workspace]"), wide)
    axes = {tensor.name: tensor.axes for tensor in card.tensors}
    axes |= {name: workspace_axes(tuple(size.expression.text for size in spec.shape)) for name, spec in workspaces.items()}
    return Plan(
        language=language,
        domain=root.quantity("domain", root.values.get("domain", 1), narrow),
        knobs=read_knobs(root.inner("knobs", "[knobs]"), narrow),
        constants=_read_quantities(root.inner("constants", "[constants]"), wide),
        fast_math=fast_math,
        maxrregcount=maxrregcount,
        nondeterministic=root.flag("nondeterministic"),
        workspaces=workspaces,
        tensor_maps=read_tensor_maps(root.inner("tensor_maps", "[tensor_maps]"), axes, wide),
        scalars=_read_quantities(root.inner("scalars", "[scalars]"), wide),
        launches=_read_launches(root, language, kinds, (narrow, wide)),
        line=root.line(),
    )


def _read_compile(section: Section, language: Language) -> tuple[bool, int | None]:
    if language is Language.CPP and "maxrregcount" in section.values:
        raise section.error("a CPU candidate has no register limit; remove it", "maxrregcount")
    section.only(("fast_math", "maxrregcount") if language is Language.CUDA else ("fast_math",))
    if "maxrregcount" not in section.values:
        return section.flag("fast_math"), None
    registers = section.integer("maxrregcount", section.values["maxrregcount"])
    if not MIN_REGISTERS <= registers <= MAX_REGISTERS:
        raise section.error(f"must be {MIN_REGISTERS} to {MAX_REGISTERS} registers a thread", "maxrregcount")
    return section.flag("fast_math"), registers


def _read_quantities(section: Section, scope: Scope) -> dict[str, Quantity]:
    return {name: section.quantity(name, value, scope) for name, value in section.values.items()}


def _read_workspaces(table: Section, scope: Scope) -> dict[str, WorkspaceSpec]:
    found = {}
    for name, value in table.values.items():
        if not isinstance(value, dict):
            raise table.error(f"a workspace is a table; write {_WORKSPACE_FORM}", name)
        section = table.inner(name, f"workspace {name}")
        section.only(("dtype", "shape", "init", "self_resetting"))
        init = section.word("init", ("poison", "zero"), "poison")
        self_resetting = section.flag("self_resetting")
        if self_resetting and init != "zero":
            raise section.error('needs init = "zero", since the kernel must leave it all zero', "self_resetting")
        found[name] = WorkspaceSpec(
            name=name,
            dtype=section.word("dtype", (*DTYPE_BYTES, "dtype")),
            shape=section.quantities("shape", section.need("shape", _WORKSPACE_FORM), scope, most=MAX_WORKSPACE_AXES),
            init=init,
            self_resetting=self_resetting,
            line=section.line(),
        )
    return found


def _read_launches(
    root: Section, language: Language, kinds: Mapping[str, NameKind], both: tuple[Scope, Scope]
) -> tuple[LaunchSpec, ...]:
    tables = root.values.get("launch")
    if tables is None:
        raise root.error("the plan has no launch; add a [[launch]] table with kernel, grid, block and args")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise root.error("launches are written as [[launch]], with two brackets", "launch")
    found = []
    for index, table in enumerate(tables):
        section = Section(values=table, path=("launch", index), title=f"launch {index + 1}", lines=root.lines)
        found.append(read_launch(section, index + 1, language, kinds, both))
    return tuple(found)
