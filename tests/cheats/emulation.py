"""A side whose CUDA kernels run in ``emulator/emulator.h`` on the CPU, so that checks can judge the pack without a GPU."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from evaluator.backend import Array, Ran
from evaluator.buffers import NUMPY_TYPES, POISONS, elements, pattern_type, size_bytes
from evaluator.check import Checked, Examination, check, confirmed
from evaluator.cuda.offline import DEVICE_FACTS
from evaluator.outcome import Fault
from evaluator.plan.resolved import ArgumentKind, Buffer, Resolved, ResolvedLaunch
from evaluator.pool import Pool
from evaluator.screen import screen
from evaluator.task import Task
from population.candidate import Language

HEADERS = Path(__file__).parent / "emulator"
DYNAMIC = re.compile(r"extern __shared__ float (\w+)\[\];")
BEYOND = re.compile(r"\basm\b|cooperative = true|\[tensor_maps\]|^cluster =", re.MULTILINE)
FACTS = {**DEVICE_FACTS["sm_90a"], "sm_count": 3}


def can_emulate(source: str) -> bool:
    """Whether the kernels are of a kind that the emulator runs: no assembly, no clusters, no tensor maps, no grid-wide waits."""
    return not BEYOND.search(source)


def judge(source: str, task: Task, set_name: str, folder: Path, distributions: Sequence[str]) -> list[Checked]:
    """What the harness's own check says of each scenario that the candidate claims, under each distribution."""
    card = task.card(set_name)
    screened = screen(source, Language.CUDA, card, FACTS, lambda scenario: task.scalars(scenario.symbols))
    assert not isinstance(screened, Fault), screened
    rng = np.random.default_rng(20261130)
    pool = Pool(task, 1 << 26, b"emulated")
    found = []
    for scenario, resolved in zip(screened.scenarios, screened.resolved, strict=True):
        side = EmulatedSide(resolved=resolved, program=_built(source, resolved, folder))
        examination = Examination(
            outputs=task.outputs, repeats=2, deadline_s=60.0, rng=rng, nondeterministic=resolved.nondeterministic
        )
        for name in distributions:
            checked = check(side, pool.draw(scenario, name, rng), examination)
            if checked.near_miss:  # as in a search: fresh inputs tell chance from a mistake
                checked = confirmed(checked, side, partial(pool.fresh, scenario, name, rng), examination)
            found.append(checked)
    return found


@dataclass
class EmulatedSide:
    """Implements ``evaluator.backend.Side``; every other execution runs the threads of a block backwards."""

    resolved: Resolved
    program: Path
    slots: int = 2
    executions: int = 0
    contents: dict[tuple[int, str], Array] = field(default_factory=dict)

    def fill(self, slot: int, inputs: Mapping[str, Array], poison: int) -> None:
        for buffer in (*self.resolved.tensors, *self.resolved.workspaces):
            if buffer.role == "input":
                self.contents[slot, buffer.name] = np.ascontiguousarray(inputs[buffer.name])
                continue
            pattern = 0 if buffer.init == "zero" else POISONS[buffer.dtype][poison]
            filled = np.full(elements(buffer), pattern, pattern_type(buffer))
            self.contents[slot, buffer.name] = filled.view(NUMPY_TYPES[buffer.dtype]).reshape(buffer.shape)

    def run(self, slots: Sequence[int], deadline_s: float) -> Ran | Fault:
        for slot in slots:
            given = b"".join(self.contents[slot, buffer.name].tobytes() for buffer in _buffers(self.resolved))
            command = [str(self.program), str(self.executions % 2)]
            done = subprocess.run(command, input=given, capture_output=True, timeout=deadline_s, check=True)
            self.executions += 1
            offset = 0
            for buffer in (one for one in _buffers(self.resolved) if one.role == "output"):
                array = np.frombuffer(done.stdout, NUMPY_TYPES[buffer.dtype], elements(buffer), offset).reshape(buffer.shape)
                self.contents[slot, buffer.name] = array.copy()
                offset += size_bytes(buffer)
        return Ran(elapsed_us=1.0)

    def read(self, slot: int) -> Mapping[str, Array]:
        return {b.name: self.contents[slot, b.name].copy() for b in self.resolved.tensors if b.role == "output"}

    def audit(self) -> Fault | None:
        return None

    def close(self) -> None:
        self.contents.clear()


def _buffers(resolved: Resolved) -> tuple[Buffer, ...]:
    return (*resolved.tensors, *resolved.workspaces)


def _built(source: str, resolved: Resolved, folder: Path) -> Path:
    """The emulator with the candidate's kernels and plan compiled in."""
    text = DYNAMIC.sub(r"float* \1 = emulator::dynamic_shared.data();", source)
    reads = [f"    auto {b.name}_ = emulator::read({size_bytes(b)});" for b in _buffers(resolved)]
    writes = [f"    std::fwrite({b.name}_.data(), 1, {size_bytes(b)}, stdout);" for b in _buffers(resolved) if b.role == "output"]
    lines = [
        '#include "emulator.h"',
        text,
        "int main(int, char** argv) {",
        "    emulator::backwards = argv[1][0] == '1';",
        *reads,
        *map(_launch, resolved.launches),
        *writes,
        "}",
    ]
    program = folder / resolved.scenario
    defines = [f"-D{name}={value}" for name, value in resolved.defines.items()]
    command = ["g++", "-std=c++20", "-O1", "-w", "-I", str(HEADERS), *defines, "-x", "c++", "-", "-o", str(program)]
    subprocess.run(command, input="\n".join(lines), text=True, check=True)
    return program


def _launch(launch: ResolvedLaunch) -> str:
    values = []
    for argument in launch.args:
        if argument.kind is ArgumentKind.INT32:
            values.append(f"{{.integer = {argument.value}}}")
        elif argument.kind is ArgumentKind.FLOAT32:
            values.append(f"{{.real = {float(argument.value or 0.0).hex()}f}}")
        else:
            values.append(f"{{.pointer = {argument.name}_.data()}}")
    grid, block = (", ".join(map(str, sizes)) for sizes in (launch.grid, launch.block))
    return f"    emulator::launch({launch.kernel}, {{{grid}}}, {{{block}}}, {launch.shared_bytes}, {{{', '.join(values)}}});"
