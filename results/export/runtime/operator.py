"""Registers the task as a torch operator: schema, kernel, shapes for tracing, and a refusal of gradients."""

import importlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import library as registry

from .domain import Domain
from .errors import CannotRun
from .outside import tell
from .package import FOLDER, check_manifest, document
from .plans import MOST_REMEMBERED, Plans
from .signature import Signature

Fallback = Callable[..., tuple[torch.Tensor, ...]]
NAMESPACE = str(__package__).rpartition(".")[2]
LAUNCHERS = {"cpp": ("cpu_kernel", "CpuKernel"), "cu": ("cuda_kernel", "CudaKernel")}
ALIGNMENT_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is known of every call with the same shapes, types, device and numbers; ``why`` it is outside, or empty."""

    values: Mapping[str, Any]
    outputs: tuple[tuple[torch.Size, torch.dtype], ...]
    empty: bool
    why: str


class Operator:
    """The task's kernel behind its domain. ``fallback`` computes the same by torch, None where torch has no counterpart."""

    def __init__(self, task: Mapping[str, Any], fallback: Fallback | None) -> None:
        self.signature = Signature(task)
        self.kernel: dict[str, Any] = {**document("kernels/kernel.json"), "task": task}
        self.plans = Plans(FOLDER / "kernels", self.kernel)
        self.domain = Domain(document("domain.json"), self.plans)
        self._fallback = fallback
        self._launcher: Any = None
        self._names = [spec["name"] for spec in (*self.signature.inputs, *self.signature.outputs)]
        self._known: dict[tuple[Any, ...], Call] = {}
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        """The outputs: by the kernel inside the domain, else as ``on_outside`` says. Nothing runs where all outputs are empty."""
        tensors = arguments[: len(self.signature.inputs)]
        key = (*((tensor.shape, tensor.dtype, tensor.device) for tensor in tensors), *arguments[len(tensors) :])
        call = self._known.get(key)
        if call is None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            call = self._known[key] = self._judged(arguments)
        if call.why:
            tell(call.why, self.signature.name, "torch's own operator" if self._fallback else "")
            assert self._fallback is not None
            return self._result(list(self._fallback(*arguments)))
        outputs = [tensors[0].new_empty(shape, dtype=dtype) for shape, dtype in call.outputs]
        if not call.empty:
            buffers = [*map(_settled, tensors), *outputs]
            self.launcher().launch(dict(zip(self._names, buffers, strict=True)), call.values)
        return self._result(outputs)

    def _judged(self, arguments: tuple[Any, ...]) -> Call:
        """What a call of such shapes comes to. CannotRun where the arguments make no call at all."""
        tensors, scalars, integers = self._split(arguments)
        symbols = self.signature.read(tensors, integers)
        outputs = self.signature.made(symbols, tensors[0])
        devices = {tensor.device for tensor in tensors}
        if len(devices) > 1:
            places = ", ".join(sorted(map(str, devices)))
            raise CannotRun(f"the tensors lie on {places}", self.signature.name, "Move them to one device.")
        empty = all(output.numel() == 0 for output in outputs)
        return Call(
            values={**symbols, **scalars},
            outputs=tuple((output.shape, output.dtype) for output in outputs),
            empty=empty,
            why="" if empty else self.domain.outside(symbols, scalars, tensors[0].device.type),
        )

    def shapes(self, *arguments: Any) -> Any:
        """Empty outputs for tracing; sizes may be symbolic."""
        tensors, _, integers = self._split(arguments)
        return self._result(self.signature.made(self.signature.read(tensors, integers), tensors[0]))

    def launcher(self) -> Any:
        """The object that launches, made once."""
        if self._launcher is not None:
            return self._launcher
        with self._lock:
            if self._launcher is None:
                module, name = LAUNCHERS[self.kernel["language"]]
                self._launcher = getattr(importlib.import_module(f"{__package__}.{module}"), name)(
                    FOLDER / "kernels", self.kernel
                )
        return self._launcher

    def _split(self, arguments: tuple[Any, ...]) -> tuple[list[torch.Tensor], dict[str, float], list[int]]:
        tensors = len(self.signature.inputs)
        scalars = tensors + len(self.signature.scalars)
        named = dict(zip(self.signature.scalars, arguments[tensors:scalars], strict=True))
        return list(arguments[:tensors]), named, list(arguments[scalars:])

    def _result(self, outputs: list[torch.Tensor]) -> Any:
        return tuple(outputs) if len(outputs) > 1 else outputs[0]


def _settled(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as the harness laid it out: contiguous, at a multiple of ALIGNMENT_BYTES; a copy where it isn't."""
    if tensor.is_contiguous() and tensor.data_ptr() % ALIGNMENT_BYTES == 0:
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def _refuse(ctx: Any, inputs: Any, output: Any) -> None:
    raise CannotRun(
        "an input requires a gradient and this kernel has no backward",
        NAMESPACE,
        "Call it under torch.no_grad(), or train with torch's own operator.",
    )


def _no_backward(ctx: Any, *gradients: Any) -> None:
    raise CannotRun("this kernel has no backward", NAMESPACE, "Call it under torch.no_grad().")


def register(fallback_of: Mapping[str, Fallback]) -> tuple[Operator, Any]:
    """The operator and its handle ``torch.ops.PACKAGE.TASK.default``, once every file is as the manifest says.

    ``Library.define`` and ``impl`` cost about half of what torch's ``custom_op`` costs a call.
    """
    check_manifest()
    task = document("task.json")
    operator = Operator(task, fallback_of.get(task["name"]))
    library = registry.Library(NAMESPACE, "DEF")
    name = operator.signature.name
    library.define(f"{name}{operator.signature.schema()}", tags=(torch.Tag.pt2_compliant_tag,))
    for key in ("CPU", "CUDA"):
        library.impl(name, operator, key)
    registry.register_fake(f"{NAMESPACE}::{name}", operator.shapes, lib=library)
    registry.register_autograd(f"{NAMESPACE}::{name}", _no_backward, setup_context=_refuse, lib=library)
    _kept.append(library)
    return operator, getattr(getattr(torch.ops, NAMESPACE), name).default


_kept: list[registry.Library] = []
"""A Library that is collected takes its operators with it."""
