"""Runs the kernel of seeds/hopper.cu on a CPU: its own source, with the section of PTX replaced by data/hopper_emulator.cpp."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evaluator.backend import Array
from evaluator.dtypes import element_type
from evaluator.plan.resolved import ArgumentKind, Buffer, Resolved, TensorMap
from evaluator.screen import Screened, screen
from evaluator.task import load_task
from evaluator.task_card import Scenario
from population.candidate import Language

TASK = load_task("attention_forward")
SOURCE = TASK.seeds(Language.CUDA)["hopper"].read_text()
EMULATOR = Path(__file__).parent / "data" / "hopper_emulator.cpp"
HEADING = "// ------------------------------------------------------------ "
INTEGERS = ("b", "h", "group", "sq", "sk", "reach", "section")


def symbols(**given: Any) -> dict[str, Any]:
    """All symbols of a scenario; those that aren't given are b = 1, h = hkv = 1, no mask, bf16, sk = sq."""
    found = {"b": 1, "h": 1, "d": 128, "causal": 0, "window": 0, "dtype": "bf16"} | given
    return {"hkv": found["h"], "sk": found["sq"]} | found


def resolved(of: Mapping[str, Any], sm_count: int = 132, source: str = SOURCE) -> Resolved:
    """The seed's plan in a scenario with these symbols."""
    card = replace(TASK.card("fa3_36"), scenarios=(Scenario(name="one", symbols=of),))
    facts = {"sm_count": sm_count, "shared_limit": 232_448}
    found = screen(source, Language.CUDA, card, facts, lambda scenario: TASK.scalars(scenario.symbols))
    assert isinstance(found, Screened), found
    return found.resolved[0]


def with_knobs(**values: int) -> str:
    """The source with these knobs fixed, whatever the scenario."""
    lines = SOURCE.splitlines()
    for name, value in values.items():
        first = next(index for index, line in enumerate(lines) if line.startswith(f"{name} = "))
        last = next(index for index in range(first, len(lines)) if lines[index].split("#")[0].rstrip().endswith("}"))
        lines[first : last + 1] = [f"{name} = {{ value = {value}, choices = [{value}] }}"]
    return "\n".join(lines)


def section(source: str, *titles: str) -> str:
    """The named sections of the source, one after the other."""
    parts = {part.split("\n", 1)[0].strip(): part.split("\n", 1)[1] for part in source.split(HEADING)[1:]}
    return "\n".join(parts[title] for title in titles)


def opening(source: str = SOURCE) -> str:
    """What stands between the plan and the first section: comments and type names."""
    return source.split("*/", 1)[1].split(HEADING, maxsplit=1)[0]


def build(plan: Resolved, folder: Path, source: str = SOURCE) -> Path:
    """The emulator of one build of the kernel, compiled into ``folder``."""
    (folder / "before.inc").write_text(opening(source) + section(source, "Sizes", "Tiles"))
    (folder / "after.inc").write_text(section(source, "Matrix products", "Softmax", "Kernel"))
    program = folder / "emulator"
    defines = [f"-D{name}={value}" for name, value in plan.defines.items()]
    flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-w", "-U_FORTIFY_SOURCE"]
    command = ["g++", *flags, *defines, f"-I{folder}", str(EMULATOR), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return program


def run(program: Path, plan: Resolved, inputs: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """``out``, ``lse`` and ``counter`` after a run; outputs hold NaN before, the counter zeros."""
    launch = plan.launches[0]
    buffers = {buffer.name: buffer for buffer in (*plan.tensors, *plan.workspaces)}
    arrays = {name: np.ascontiguousarray(inputs[name]) for name in "qkv"}
    arrays |= {name: np.frombuffer(b"\xff" * _bytes(buffers[name]), dtype=np.uint8) for name in ("out", "lse")}
    arrays["counter"] = np.zeros(2, np.int32)
    values = {argument.name: argument.value for argument in launch.args}
    words: list[Any] = [
        seed,
        launch.grid[0],
        launch.block[0],
        launch.shared_bytes,
        *(values[name] for name in INTEGERS),
        values["scale"],
    ]
    words += [array.nbytes for array in arrays.values()]
    maps = {found.name: found for found in plan.tensor_maps}
    for argument in launch.args:
        if argument.kind is ArgumentKind.TENSOR_MAP:
            words += _map_words(maps[argument.name])
    data = program.parent / "data"
    data.write_bytes(b"".join(array.tobytes() for array in arrays.values()))
    done = subprocess.run([program, data], input=" ".join(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout} (exit status {done.returncode})"
    after, place = data.read_bytes(), 0
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        part, place = after[place : place + array.nbytes], place + array.nbytes
        storage = np.dtype(np.int32) if name == "counter" else element_type(buffers[name].dtype).storage
        found[name] = np.frombuffer(part, storage).reshape(buffers[name].shape)
    return found


def _bytes(buffer: Buffer) -> int:
    return int(np.prod(buffer.shape)) * element_type(buffer.dtype).storage.itemsize


def _map_words(found: TensorMap) -> list[int]:
    assert len(found.dims) == 5
    return [int(found.swizzle.removesuffix("B")), *found.dims, 2, *found.strides_bytes, *found.box]
