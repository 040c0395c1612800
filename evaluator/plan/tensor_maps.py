"""Tensor maps: TMA descriptors written by axis name, worked out and validated by the driver's rules before anything compiles.

The rules are those of ``cuTensorMapEncodeTiled`` in NVIDIA's driver documentation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluator.expression import Value
from evaluator.plan.model import DTYPE_BYTES, PlanError, Quantity, TensorMapSpec
from evaluator.plan.names import identifier_problem
from evaluator.plan.resolved import Buffer, TensorMap
from evaluator.plan.section import Scope, Section, nearest

SWIZZLE_BYTES: Mapping[str, int] = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
INTERLEAVES = ("none", "16B", "32B")
L2_PROMOTIONS = (0, 64, 128, 256)
MAX_RANK = 5
MAX_BOX = 256
MAX_DIM = 2**32
MAX_STRIDE_BYTES = 2**40


@dataclass(frozen=True, slots=True)
class _Axis:
    name: str
    size: int
    stride: int  # elements


def read_tensor_maps(table: Section, axes: Mapping[str, tuple[str, ...]], scope: Scope) -> dict[str, TensorMapSpec]:
    """The maps of [tensor_maps] by name. ``axes`` holds the axis names of every tensor and workspace."""
    found = {}
    for name, value in table.values.items():
        if not isinstance(value, dict):
            raise table.error('a tensor map is a table; write NAME = { tensor = "q", box = { sq = 64, d = 64 } }', name)
        section = table.inner(name, f"tensor map {name}")
        found[name] = _read_map(name, section, axes, scope)
    return found


def _read_map(name: str, section: Section, axes: Mapping[str, tuple[str, ...]], scope: Scope) -> TensorMapSpec:
    section.only(("tensor", "split", "box", "swizzle", "l2_promotion", "interleave"))
    tensor = section.need("tensor", 'tensor = "q"')
    if not isinstance(tensor, str) or tensor not in axes:
        hint = nearest(str(tensor), axes) or f" (there are {', '.join(axes)})"
        raise section.error(f"no tensor or workspace is called `{str(tensor)[:40]}`{hint}", "tensor")
    split = _extents(section, "split", axes[tensor], scope)
    names: list[str] = []
    for axis in axes[tensor]:
        names += [f"{axis}0", f"{axis}1"] if axis in split else [axis]
    if len(set(names)) < len(names):
        raise section.error(f"splitting gives two axes one name ({', '.join(names)}); split another axis", "split")
    if len(names) > MAX_RANK:
        raise section.error(f"{len(names)} axes after splitting ({', '.join(names)}); TMA takes at most {MAX_RANK}", "split")
    section.need("box", "box = { " + ", ".join(f"{axis} = 64" for axis in names[-2:]) + " }")
    box = _extents(section, "box", tuple(names), scope)
    promotion = section.integer("l2_promotion", section.values.get("l2_promotion", 0))
    if promotion not in L2_PROMOTIONS:
        raise section.error(f"must be one of {', '.join(map(str, L2_PROMOTIONS))} (bytes)", "l2_promotion")
    return TensorMapSpec(
        name=name,
        tensor=tensor,
        axes=axes[tensor],
        split=split,
        box=box,
        swizzle=section.word("swizzle", tuple(SWIZZLE_BYTES), "none"),
        l2_promotion=promotion,
        interleave=section.word("interleave", INTERLEAVES, "none"),
        line=section.line(),
    )


def _extents(section: Section, key: str, axes: tuple[str, ...], scope: Scope) -> dict[str, Quantity]:
    table = section.inner(key, f"{key} of {section.title}")
    found = {}
    for axis, value in table.values.items():
        if axis not in axes:
            hint = nearest(axis, axes)
            raise section.error(f"no axis `{axis[:40]}`{hint} (the axes are {', '.join(axes)})", key)
        found[axis] = table.quantity(axis, value, scope)
    return found


def workspace_axes(shape: tuple[str, ...]) -> tuple[str, ...]:
    """Axis names of a workspace: its shape's own expressions where they are plain, different names, otherwise axis0, axis1..."""
    return tuple(
        text if identifier_problem(text) is None and shape.count(text) == 1 else f"axis{index}"
        for index, text in enumerate(shape)
    )


def resolve_tensor_map(spec: TensorMapSpec, buffer: Buffer, names: Mapping[str, Value], scenario: str) -> TensorMap:
    """The descriptor in one scenario, innermost axis first. PlanError for anything the driver would refuse.

    Order: the axis of stride 1, then the axes of ``box`` as written, then the rest from the inside out. An axis that ``box``
    doesn't name has extent 1.
    """
    ordered = _ordered(_split_axes(spec, buffer, names, scenario), spec)
    size = DTYPE_BYTES[buffer.dtype]
    box = tuple(_box(spec, axis, names, scenario) for axis in ordered)
    strides = tuple(axis.stride * size for axis in ordered[1:])
    found = TensorMap(
        name=spec.name,
        tensor=spec.tensor,
        dtype=buffer.dtype,
        dims=tuple(axis.size for axis in ordered),
        strides_bytes=strides,
        box=box,
        swizzle=spec.swizzle,
        l2_promotion=spec.l2_promotion,
        interleave=spec.interleave,
    )
    if problem := _driver_problem(found, ordered, size):
        raise PlanError(f"tensor map {spec.name}: {problem} (scenario {scenario})", spec.line, scenario)
    return found


def _split_axes(spec: TensorMapSpec, buffer: Buffer, names: Mapping[str, Value], scenario: str) -> list[_Axis]:
    """All axes after splitting, innermost first."""
    found: list[_Axis] = []
    stride = 1
    for name, size in zip(reversed(spec.axes), reversed(buffer.shape), strict=True):
        if name not in spec.split:
            found.append(_Axis(name, size, stride))
        else:
            inner = spec.split[name].at(names, scenario)
            if inner < 1 or size % inner:
                raise spec.split[name].error(
                    f"{inner} doesn't divide the axis of {size}; a tile would bleed into the next row, so choose a divisor",
                    scenario,
                )
            found += [_Axis(f"{name}0", inner, stride), _Axis(f"{name}1", size // inner, stride * inner)]
        stride *= size
    return found


def _ordered(axes: list[_Axis], spec: TensorMapSpec) -> list[_Axis]:
    by_name = {axis.name: axis for axis in axes[1:]}
    boxed = [by_name[name] for name in spec.box if name in by_name]
    return [axes[0], *boxed, *(axis for axis in axes[1:] if axis.name not in spec.box)]


def _box(spec: TensorMapSpec, axis: _Axis, names: Mapping[str, Value], scenario: str) -> int:
    if axis.name not in spec.box:
        return 1
    extent = spec.box[axis.name].at(names, scenario)
    if not 1 <= extent <= MAX_BOX:
        raise spec.box[axis.name].error(f"{extent} is outside 1 to {MAX_BOX}; fetch the tile in several pieces", scenario)
    return extent


def _driver_problem(found: TensorMap, axes: list[_Axis], size: int) -> str | None:
    for axis in axes:
        if axis.size > MAX_DIM:
            return f"axis {axis.name} has {axis.size} elements; TMA takes at most 2^32"
    for axis, stride in zip(axes[1:], found.strides_bytes, strict=True):
        step = 32 if found.interleave == "32B" else 16
        if stride % step or stride >= MAX_STRIDE_BYTES:
            return f"axis {axis.name} has a stride of {stride} bytes; it must be a multiple of {step} below 2^40"
    inner = found.box[0] * size
    if found.interleave == "none":
        if inner % 16:
            return f"the inner box, axis {axes[0].name}, is {inner} bytes; make it a multiple of 16"
        span = SWIZZLE_BYTES[found.swizzle]
        if span and inner > span:
            return (
                f"the inner box, axis {axes[0].name}, is {inner} bytes, more than the {span} of swizzle {found.swizzle}; "
                f"split the axis at {span // size} elements"
            )
        return None
    if len(axes) < 3:
        return f"interleave {found.interleave} needs at least three axes, this map has {len(axes)}"
    if found.interleave == "32B" and found.swizzle != "32B":
        return 'interleave 32B needs swizzle = "32B"'
    return None
