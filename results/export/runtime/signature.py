"""The task's arguments as an operator sees them: schema, symbols from shapes, shapes of outputs."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._plan.expression import parse
from .errors import CannotRun

TORCH_TYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "float32": torch.float32,
    "int32": torch.int32,
}
NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


class Signature:
    """What ``task.json`` says of the arguments, in order: input tensors, float scalars, integers that no shape gives."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self.name: str = task["name"]
        self.inputs: list[Mapping[str, Any]] = [tensor for tensor in task["tensors"] if tensor["role"] == "input"]
        self.outputs: list[Mapping[str, Any]] = [tensor for tensor in task["tensors"] if tensor["role"] == "output"]
        self.scalars: list[str] = list(task["scalars"])
        self.symbols: list[str] = list(task["symbols"])
        axes = {extent for tensor in self.inputs for extent in tensor["shape"]}
        self.integers = [name for name in self.symbols if name != "dtype" and name not in axes]

    def schema(self) -> str:
        """The operator's schema after its name."""
        given = [f"Tensor {tensor['name']}" for tensor in self.inputs]
        given += [f"float {name}" for name in self.scalars]
        given += [f"int {name}" for name in self.integers]
        results = ", ".join("Tensor" for _ in self.outputs)
        return f"({', '.join(given)}) -> {f'({results})' if len(self.outputs) > 1 else results}"

    def read(self, tensors: Sequence[torch.Tensor], integers: Sequence[int]) -> dict[str, Any]:
        """The value of each symbol, sizes as they are (symbolic while torch traces). CannotRun where shapes or types disagree."""
        found: dict[str, Any] = dict(zip(self.integers, integers, strict=True))
        for spec, tensor in zip(self.inputs, tensors, strict=True):
            dtype = NAMES.get(tensor.dtype)
            if dtype is None or found.setdefault("dtype", dtype) != dtype or tensor.dim() != len(spec["shape"]):
                raise self._wrong(spec, tensor)
            for extent, size in zip(spec["shape"], tensor.shape, strict=True):
                if extent in self.symbols and found.setdefault(extent, size) != size:
                    raise self._wrong(spec, tensor)
        return {name: found[name] for name in self.symbols}

    def made(self, symbols: Mapping[str, Any], like: torch.Tensor) -> list[torch.Tensor]:
        """Fresh outputs on the device of ``like``."""
        return [like.new_empty(self._shape(spec, symbols), dtype=self._dtype(spec, symbols)) for spec in self.outputs]

    def _shape(self, spec: Mapping[str, Any], symbols: Mapping[str, Any]) -> list[Any]:
        return [symbols[extent] if extent in symbols else parse(extent).integer(symbols) for extent in spec["shape"]]

    def _dtype(self, spec: Mapping[str, Any], symbols: Mapping[str, Any]) -> torch.dtype:
        return TORCH_TYPES[str(symbols["dtype"]) if spec["dtype"] == "dtype" else spec["dtype"]]

    def _wrong(self, spec: Mapping[str, Any], tensor: torch.Tensor) -> CannotRun:
        shape = ", ".join(spec["shape"])
        return CannotRun(
            f"{self.name} takes {spec['name']} as ({shape}) of one type among bf16, fp16, fp32, equal names for equal sizes; "
            f"it got {str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}",
            f"argument {spec['name']}",
            "Bring the arguments into that form.",
        )
