"""What an exported package is made of, before it is files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.outcome import Outcome
from evaluator.task_card import TaskCard
from population.candidate import Candidate, Knob


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSpec:
    """One build of a kernel: the macros it was built with, its bytes, and what it needs to be built or to run elsewhere.

    ``arch`` is "x86_64" or a GPU architecture; ``cpu_flags`` are the features of the CPU that ``-march=native`` stood for;
    ``compile`` are the compiler's options in order.
    """

    defines: Mapping[str, str]
    artefact: bytes
    suffix: str
    arch: str
    cpu_flags: Sequence[str] = ()
    compile: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One scenario that a final tested: every symbol, and the float scalars that the host passed there."""

    name: str
    symbols: Mapping[str, int | str]
    scalars: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSpec:
    """A kernel with everything that a package needs.

    ``exact`` are the symbols that hold for whole combinations only, the others are sizes; ``between`` says whether the final
    tested hidden sizes. ``plan_modules`` are the texts of the plan's code by module name without package. ``extra_files`` are
    further files of the package by name. ``provenance`` is plain data.
    """

    name: str
    version: str
    license: str
    candidate: Candidate
    plan_text: str
    knobs: Sequence[Knob]
    card: TaskCard
    device_facts: Mapping[str, int]
    builds: Sequence[BuildSpec]
    tested: Sequence[Tested]
    exact: Sequence[str]
    between: bool
    final: Outcome
    provenance: Mapping[str, object]
    plan_modules: Mapping[str, str]
    extra_files: Mapping[str, bytes]

    @property
    def module(self) -> str:
        """The name by which the package is imported."""
        return self.name.replace("-", "_")
