"""Launches of a plan: read from [[launch]], worked out and held against the limits of every supported device."""

from collections.abc import Mapping
from math import prod

from evaluator.expression import Value
from evaluator.plan.model import LaunchSpec, Quantity
from evaluator.plan.names import NameKind, identifier_problem
from evaluator.plan.resolved import Argument, ResolvedLaunch
from evaluator.plan.section import Scope, Section, nearest
from population.candidate import Language

MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)
MAX_BLOCK_THREADS = 1024
MAX_CLUSTER_BLOCKS = 8
MAX_CPU_TASKS = 2**31 - 1
_CUDA_ONLY = ("block", "cluster", "cooperative", "shared")
_KEYS = ("kernel", "when", "grid", "args")
_EXAMPLE_ARGS = 'args = ["q", "k", "v", "out"]'
_NOT_PASSED = (NameKind.KNOB, NameKind.CONSTANT, NameKind.DEVICE_FACT)


def read_launch(
    section: Section, number: int, language: Language, kinds: Mapping[str, NameKind], scopes: tuple[Scope, Scope]
) -> LaunchSpec:
    """One [[launch]]; ``kinds`` says what each name of task and plan is, ``scopes`` are those of conditions and of the rest."""
    narrow, wide = scopes
    if language is Language.CPP:
        for key in _CUDA_ONLY:
            if key in section.values:
                raise section.error("not used by a CPU candidate, whose grid numbers independent tasks; remove it", key)
    section.only(_KEYS + (_CUDA_ONLY if language is Language.CUDA else ()))
    kernel = section.need("kernel", 'kernel = "attention_forward"')
    if not isinstance(kernel, str):
        raise section.error("must be the kernel's name in quotes", "kernel")
    if problem := identifier_problem(kernel):
        raise section.error(f"`{kernel[:40]}` {problem}", "kernel")
    if kernel in kinds:
        raise section.error(f"`{kernel}` is already {kinds[kernel]}; give the kernel another name", "kernel")
    section = Section(values=section.values, path=section.path, title=f"launch {number} ({kernel})", lines=section.lines)
    section.need("grid", 'grid = ["ceil_div(sq, 64)", "h", "b"]')
    if language is Language.CUDA:
        section.need("block", "block = [128, 1, 1]")
    return LaunchSpec(
        kernel=kernel,
        when=section.quantity("when", section.values["when"], narrow) if "when" in section.values else None,
        grid=_sizes(section, "grid", wide),
        block=_sizes(section, "block", wide),
        cluster=_sizes(section, "cluster", wide),
        cooperative=section.flag("cooperative"),
        shared=section.quantity("shared", section.values.get("shared", 0), wide),
        args=_read_args(section, kinds),
        line=section.line(),
    )


def _sizes(section: Section, key: str, scope: Scope) -> tuple[Quantity, ...]:
    given = section.quantities(key, section.values.get(key, [1]), scope, most=3)
    return (*given, *(section.quantity(key, 1, scope) for _ in range(3 - len(given))))


def _read_args(section: Section, kinds: Mapping[str, NameKind]) -> tuple[str, ...]:
    args = section.need("args", _EXAMPLE_ARGS)
    if not isinstance(args, list) or not args or not all(isinstance(name, str) for name in args):
        raise section.error(f"must be a list of names in quotes, such as {_EXAMPLE_ARGS}", "args")
    usable = [name for name, kind in kinds.items() if kind not in _NOT_PASSED and name != "dtype"]
    for name in args:
        if name in usable:
            continue
        if name == "dtype":
            raise section.error("`dtype` can't be passed; make it a constant, as in IS_BF16 = \"dtype == 'bf16'\"", "args")
        if name in kinds:
            raise section.error(
                f"`{name}` is {kinds[name]} and can't be passed; name it in [scalars] to pass its value"
                + (", or use the macro in the kernel" if kinds[name] is not NameKind.DEVICE_FACT else ""),
                "args",
            )
        hint = nearest(name, usable) or f"; the names are {', '.join(usable)}"
        raise section.error(f"unknown name `{name[:60]}`{hint}", "args")
    return tuple(args)


def resolve_launch(
    spec: LaunchSpec,
    language: Language,
    arguments: tuple[Argument, ...],
    names: Mapping[str, Value],
    scenario: str,
) -> ResolvedLaunch:
    """The launch in one scenario. PlanError where a size is beyond the device's limits."""
    grid, block, cluster = (_triple(sizes, names, scenario) for sizes in (spec.grid, spec.block, spec.cluster))
    shared = spec.shared.at(names, scenario)
    if language is Language.CPP:
        if prod(grid) > MAX_CPU_TASKS:
            raise spec.grid[0].error(f"{prod(grid)} tasks in all; at most {MAX_CPU_TASKS} are allowed", scenario)
    else:
        _check_grid(spec, grid, cluster, scenario)
        _check_block(spec, block, scenario)
        limit = int(names["shared_limit"])
        if not 0 <= shared <= limit:
            raise spec.shared.error(
                f"{shared} bytes; this device allows 0 to {limit} a block, so shrink a tile or the number of stages", scenario
            )
    return ResolvedLaunch(
        kernel=spec.kernel,
        grid=grid,
        block=block,
        cluster=cluster,
        cooperative=spec.cooperative,
        shared_bytes=shared,
        args=arguments,
    )


def _triple(sizes: tuple[Quantity, ...], names: Mapping[str, Value], scenario: str) -> tuple[int, int, int]:
    x, y, z = (size.at(names, scenario) for size in sizes)
    for size, value in zip(sizes, (x, y, z), strict=True):
        if value < 1:
            raise size.error(f"{value}; write at least 1, or skip the launch with `when`", scenario)
    return x, y, z


def _check_grid(spec: LaunchSpec, grid: tuple[int, int, int], cluster: tuple[int, int, int], scenario: str) -> None:
    if prod(cluster) > MAX_CLUSTER_BLOCKS:
        raise spec.cluster[0].error(
            f"{prod(cluster)} blocks in a cluster; at most {MAX_CLUSTER_BLOCKS} work on every device", scenario
        )
    for axis, size, value, limit, width in zip("xyz", spec.grid, grid, MAX_GRID, cluster, strict=True):
        if value > limit:
            hint = "put the longest axis first" if axis != "x" else "give each block more work"
            raise size.error(f"{value} blocks along {axis}; at most {limit} are possible, so {hint}", scenario)
        if value % width:
            raise size.error(
                f"{value} blocks along {axis} aren't a multiple of the cluster's {width}; write {width} * ceil_div(.., {width})",
                scenario,
            )


def _check_block(spec: LaunchSpec, block: tuple[int, int, int], scenario: str) -> None:
    if prod(block) > MAX_BLOCK_THREADS:
        raise spec.block[0].error(f"{prod(block)} threads in a block; at most {MAX_BLOCK_THREADS} are possible", scenario)
    for axis, size, value, limit in zip("xyz", spec.block, block, MAX_BLOCK, strict=True):
        if value > limit:
            raise size.error(f"{value} threads along {axis}; at most {limit} are possible", scenario)
