"""Works a plan out for one scenario: every size known and held against the limits, before anything compiles."""

import struct
from collections.abc import Mapping
from math import prod

from evaluator.expression import ExpressionError, Value, parse
from evaluator.outcome import Fault, Stage, Verdict
from evaluator.plan.knobs import knob_values
from evaluator.plan.launches import resolve_launch
from evaluator.plan.model import DEVICE_FACTS, DTYPE_BYTES, LaunchSpec, Plan, PlanError, WorkspaceSpec
from evaluator.plan.resolved import Argument, ArgumentKind, Buffer, Resolved
from evaluator.plan.tensor_maps import resolve_tensor_map
from evaluator.task_card import Scenario, TaskCard

MAX_INT32 = 2**31 - 1
WORKSPACE_ALLOWANCE_BYTES = 64 * 2**20


def supported(plan: Plan, card: TaskCard) -> tuple[Scenario, ...] | Fault:
    """The card's scenarios inside the plan's domain, in their order. UNSUPPORTED if there are none."""
    try:
        found = tuple(item for item in card.scenarios if plan.domain.at(item.symbols, item.name))
    except PlanError as error:
        return error.fault()
    if found:
        return found
    return Fault(
        verdict=Verdict.UNSUPPORTED,
        stage=Stage.SCREEN,
        message=f"line {plan.domain.line}: the domain `{plan.domain.expression.text}` holds in none of the "
        f"{len(card.scenarios)} scenarios of {card.scenario_set}; widen it or choose another scenario set",
    )


def resolve(
    plan: Plan, card: TaskCard, scenario: Scenario, device_facts: Mapping[str, int], scalars: Mapping[str, float]
) -> Resolved | Fault:
    """The plan in one scenario of its domain, or a PLAN_ERROR that names the scenario.

    ``device_facts`` holds ``sm_count`` and ``shared_limit`` (bytes a block); ``scalars`` the task's float arguments by name.
    """
    try:
        return _resolve(plan, card, scenario, device_facts, scalars)
    except PlanError as error:
        return error.fault()


def _resolve(
    plan: Plan, card: TaskCard, scenario: Scenario, device_facts: Mapping[str, int], scalars: Mapping[str, float]
) -> Resolved:
    knobs = knob_values(plan.knobs, scenario.symbols, scenario.name)
    facts = {fact: device_facts[fact] for fact in DEVICE_FACTS}
    names: dict[str, Value] = {**facts, **scenario.symbols, **knobs}
    constants = {name: quantity.at(names, scenario.name) for name, quantity in plan.constants.items()}
    launches = _applying(plan, card, scenario)
    tensors = task_buffers(card, scenario)
    used = {name for launch in launches for name in launch.args}
    maps = [spec for name, spec in plan.tensor_maps.items() if name in used]
    used |= {spec.tensor for spec in maps}
    workspaces = tuple(_workspace(spec, names, scenario) for name, spec in plan.workspaces.items() if name in used)
    _check_workspaces(plan, workspaces, tensors, scenario)
    buffers = {buffer.name: buffer for buffer in (*tensors, *workspaces)}
    arguments = {name: _argument(name, plan, scenario, names, scalars, frozenset(buffers)) for name in used}
    return Resolved(
        scenario=scenario.name,
        defines={name: _define(value) for name, value in (knobs | constants).items()},
        knobs=knobs,
        fast_math=plan.fast_math,
        maxrregcount=plan.maxrregcount,
        nondeterministic=plan.nondeterministic,
        tensors=tensors,
        workspaces=workspaces,
        tensor_maps=tuple(resolve_tensor_map(spec, buffers[spec.tensor], names, scenario.name) for spec in maps),
        launches=tuple(
            resolve_launch(launch, plan.language, tuple(arguments[name] for name in launch.args), names, scenario.name)
            for launch in launches
        ),
        kernels=tuple(dict.fromkeys(launch.kernel for launch in plan.launches)),
    )


def _applying(plan: Plan, card: TaskCard, scenario: Scenario) -> list[LaunchSpec]:
    """The launches that apply, which together must be given every output."""
    found = [launch for launch in plan.launches if launch.when is None or launch.when.at(scenario.symbols, scenario.name)]
    if not found:
        raise PlanError(
            f"no launch applies in scenario {scenario.name}, which the domain claims; narrow `domain` or widen a `when`",
            plan.launches[0].line,
            scenario.name,
        )
    given = {name for launch in found for name in launch.args}
    given |= {spec.tensor for name, spec in plan.tensor_maps.items() if name in given}
    for tensor in card.tensors:
        if tensor.role == "output" and tensor.name not in given:
            raise PlanError(
                f"the output `{tensor.name}` is among the args of no launch that applies in scenario {scenario.name}; "
                "pass it to the kernel that writes it",
                found[-1].line,
                scenario.name,
            )
    return found


def task_buffers(card: TaskCard, scenario: Scenario) -> tuple[Buffer, ...]:
    """The task's tensors in one scenario, in the card's order. ValueError if the card itself is wrong."""
    found = []
    for tensor in card.tensors:
        dtype = str(scenario.symbols["dtype"]) if tensor.dtype == "dtype" else tensor.dtype
        try:
            shape = tuple(parse(size).integer(scenario.symbols) for size in tensor.shape)
        except ExpressionError as error:
            raise ValueError(f"task {card.name}, tensor {tensor.name}, scenario {scenario.name}: {error}") from error
        found.append(Buffer(name=tensor.name, role=tensor.role, dtype=dtype, shape=shape))
    return tuple(found)


def _workspace(spec: WorkspaceSpec, names: Mapping[str, Value], scenario: Scenario) -> Buffer:
    shape = tuple(size.at(names, scenario.name) for size in spec.shape)
    for quantity, size in zip(spec.shape, shape, strict=True):
        if size < 1:
            raise quantity.error(f"a size of {size}; write max(1, ..) around it", scenario.name)
    dtype = str(scenario.symbols["dtype"]) if spec.dtype == "dtype" else spec.dtype
    return Buffer(name=spec.name, role="workspace", dtype=dtype, shape=shape, init=spec.init, self_resetting=spec.self_resetting)


def _check_workspaces(plan: Plan, workspaces: tuple[Buffer, ...], tensors: tuple[Buffer, ...], scenario: Scenario) -> None:
    limit = 2 * sum(map(buffer_bytes, tensors)) + WORKSPACE_ALLOWANCE_BYTES
    total = sum(map(buffer_bytes, workspaces))
    if total > limit:
        largest = max(workspaces, key=buffer_bytes)
        raise PlanError(
            f"workspace {largest.name}: all workspaces together take {total} bytes; at most {limit} are allowed "
            f"(twice the tensors plus 64 MiB), so shrink it (scenario {scenario.name})",
            plan.workspaces[largest.name].line,
            scenario.name,
        )


def buffer_bytes(buffer: Buffer) -> int:
    """Bytes that a buffer's elements take."""
    return prod(buffer.shape) * DTYPE_BYTES[buffer.dtype]


def _argument(
    name: str,
    plan: Plan,
    scenario: Scenario,
    names: Mapping[str, Value],
    scalars: Mapping[str, float],
    buffers: frozenset[str],
) -> Argument:
    if name in plan.workspaces:
        return Argument(name=name, kind=ArgumentKind.WORKSPACE)
    if name in plan.tensor_maps:
        return Argument(name=name, kind=ArgumentKind.TENSOR_MAP)
    if name in buffers:
        return Argument(name=name, kind=ArgumentKind.TENSOR)
    if name in plan.scalars:
        value = plan.scalars[name].at(names, scenario.name)
        if not _fits_int32(value):
            raise plan.scalars[name].error(f"{value} doesn't fit in int32; pass a smaller unit or its factors", scenario.name)
        return Argument(name=name, kind=ArgumentKind.INT32, value=value)
    if name in scenario.symbols:
        return Argument(name=name, kind=ArgumentKind.INT32, value=_symbol(name, plan, scenario))
    (rounded,) = struct.unpack("f", struct.pack("f", scalars[name]))
    return Argument(name=name, kind=ArgumentKind.FLOAT32, value=rounded)


def _symbol(name: str, plan: Plan, scenario: Scenario) -> int:
    value = int(scenario.symbols[name])
    if not _fits_int32(value):
        launch = next(launch for launch in plan.launches if name in launch.args)
        raise PlanError(
            f"args of launch {launch.kernel}: {name} is {value}, which doesn't fit in int32; pass it in parts by [scalars] "
            f"(scenario {scenario.name})",
            launch.line,
            scenario.name,
        )
    return value


def _fits_int32(value: int) -> bool:
    return -MAX_INT32 - 1 <= value <= MAX_INT32


def _define(value: int) -> str:
    """The value as a C expression that a macro may stand for; the smallest 64-bit integer has no literal of its own."""
    if value >= 0:
        return str(value)
    return f"({value})" if value > -(2**63) else f"({value + 1}-1)"
