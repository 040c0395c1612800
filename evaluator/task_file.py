"""Reads and validates ``task.toml``: what a task computes, as data."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evaluator.dtypes import NAMES
from evaluator.expression import TEXT_SYMBOL, ExpressionError, parse


class TaskError(ValueError):
    """A task folder that can't be used; the text names the file, the key and what to write."""


class TensorEntry(BaseModel):
    """One line of ``[tensors]``: shape entries are expressions over the symbols."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    role: Literal["input", "output"]
    dtype: str
    shape: tuple[str, ...] = Field(min_length=1)
    axes: tuple[str, ...] = ()


class TaskFile(BaseModel):
    """``task.toml``. ``names`` are helper expressions that later ones, regions, ``flop`` and ``bytes`` may use, in order.

    ``tolerance`` gives an output's least floor of the allowed error; ``distributions`` maps names to what they test.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    summary: str = Field(min_length=1)
    flop: str
    bytes: str
    baselines: tuple[str, ...] = Field(min_length=1)
    symbols: dict[str, str] = Field(min_length=1)
    tensors: dict[str, TensorEntry]
    scalars: dict[str, str] = {}
    names: dict[str, str] = {}
    regions: dict[str, str] = {}
    tolerance: dict[str, float] = {}
    distributions: dict[str, str] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> "TaskFile":
        for name, tensor in self.tensors.items():
            if tensor.dtype != TEXT_SYMBOL and tensor.dtype not in NAMES:
                raise ValueError(f"tensors.{name}.dtype is {tensor.dtype!r}; write 'dtype' or one of {', '.join(NAMES)}")
            if tensor.dtype == TEXT_SYMBOL and TEXT_SYMBOL not in self.symbols:
                raise ValueError(f"tensors.{name}.dtype is the symbol 'dtype', which [symbols] doesn't declare")
            if tensor.axes and len(tensor.axes) != len(tensor.shape):
                raise ValueError(f"tensors.{name}.axes names {len(tensor.axes)} axes of {len(tensor.shape)}")
            for extent in tensor.shape:
                self._check(f"tensors.{name}.shape", extent, set(self.symbols))
        outputs = [name for name, tensor in self.tensors.items() if tensor.role == "output"]
        if not outputs or len(outputs) == len(self.tensors):
            raise ValueError("tensors must hold at least one input and one output")
        for name in self.tolerance:
            if name not in outputs:
                raise ValueError(f"tolerance.{name} isn't an output; outputs are {', '.join(outputs)}")
        known = set(self.symbols)
        for name, text in self.names.items():
            self._check(f"names.{name}", text, known)
            known.add(name)
        for key, text in [("flop", self.flop), ("bytes", self.bytes), *((f"regions.{k}", v) for k, v in self.regions.items())]:
            self._check(key, text, known)
        return self

    @staticmethod
    def _check(key: str, text: str, known: set[str]) -> None:
        try:
            unknown = sorted(parse(text).names - known)
        except ExpressionError as error:
            raise ValueError(f"{key}: {error}") from None
        if unknown:
            raise ValueError(f"{key} uses {unknown[0]!r}; known here are {', '.join(sorted(known))}")


def read_toml(path: Path) -> Mapping[str, Any]:
    """The tables of a TOML file; TaskError names the file and the line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TaskError(f"{path}: no such file; `askevolve task new FOLDER` writes a complete task") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TaskError(f"{path}: {error}") from None


def read_task_file(path: Path) -> TaskFile:
    """The validated content of a ``task.toml``; TaskError lists every wrong key."""
    try:
        return TaskFile.model_validate(dict(read_toml(path)))
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc'])) or 'task'}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()]
        raise TaskError(f"{path}: " + "; ".join(lines)) from None
