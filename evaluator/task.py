"""Loads a task: a folder that says what to compute (never how), in which scenarios, and how right an answer must be."""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evaluator.arrays import array_module, on_host
from evaluator.backend import Array
from evaluator.baseline import Baseline
from evaluator.dtypes import decode, element_type, encode, round_mantissa
from evaluator.expression import ExpressionError, parse
from evaluator.roofline import Work
from evaluator.scenario_sets import ScenarioError, expand
from evaluator.task_card import Scenario, SymbolValue, TaskCard, TensorSpec
from evaluator.task_file import TaskError, TaskFile, read_task_file, read_toml
from evaluator.tolerance import Tolerance, derive
from evaluator.transforms import IDENTITY, Transform
from population.candidate import Language

Symbols = Mapping[str, SymbolValue]
Arrays = Mapping[str, Array]
Expected = Mapping[str, NDArray[np.float64]]

BUILT_IN = Path(__file__).parent / "tasks"
_RULES = (
    "arrays.py",
    "tolerance.py",
    "compare.py",
    "dtypes.py",
    "transforms.py",
    "scenario_sets.py",
    "task.py",
    "cuda/kernels.py",
    "cuda/arrays.cu",
)
_MOST_ORDERS = 8
_ENOUGH_ELEMENTS = 1 << 11
_LEAST_ELEMENTS = 1 << 5
"""So many elements over all orders of plain maths, however small a tensor: of fewer the largest error is a matter of luck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task folder, read and validated; its ``task.py`` is imported at the first call that needs it.

    Arrays are contiguous, in stored form (bf16 as uint16), of the host or, where the inputs were asked for there, of the device:
    a ``task.py`` that says ``DEVICE_ARRAYS = True`` computes on both, for any other they are copied. ``hash`` covers everything
    that decides a score. TaskError where a function of the folder gives something of another shape or type than ``task.toml``
    declares.
    """

    name: str
    folder: Path
    hash: str
    contract: str
    definition: TaskFile
    scenarios: Mapping[str, tuple[Scenario, ...]]
    tensors: tuple[TensorSpec, ...]

    @property
    def distributions(self) -> tuple[str, ...]:
        """Names of the input distributions, the ordinary one first."""
        return tuple(self.definition.distributions)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The output tensors in the order of ``task.toml``."""
        return tuple(tensor for tensor in self.tensors if tensor.role == "output")

    def sets(self) -> tuple[str, ...]:
        """Names of the scenario sets."""
        return tuple(self.scenarios)

    def card(self, set_name: str) -> TaskCard:
        """The task's contract with the scenarios of one set; TaskError names the sets that there are."""
        if set_name not in self.scenarios:
            raise TaskError(f"task {self.name} has no scenario set {set_name!r}; it has {', '.join(self.scenarios)}")
        definition = self.definition
        return TaskCard(
            name=self.name,
            summary=definition.summary,
            contract=self.contract,
            symbols=tuple(definition.symbols),
            tensors=self.tensors,
            scalars=definition.scalars,
            scenario_set=set_name,
            scenarios=self.scenarios[set_name],
            regions=tuple(definition.regions),
            baselines=definition.baselines,
            hash=self.hash,
            notes={"flop": definition.flop, "bytes": definition.bytes, **definition.names},
        )

    def scalars(self, symbols: Symbols) -> dict[str, float]:
        """The float scalars that the host passes, each rounded to float32."""
        if not self.definition.scalars:
            return {}
        given = self._function("scalars")(symbols)
        if set(given) != set(self.definition.scalars):
            raise TaskError(f"{self.folder / 'task.py'}: scalars() gives {sorted(given)}, task.toml declares otherwise")
        return {name: float(np.float32(value)) for name, value in given.items()}

    def inputs(self, symbols: Symbols, distribution: str, rng: np.random.Generator, xp: Any = np) -> dict[str, Array]:
        """Fresh inputs of one distribution as arrays of ``xp`` (numpy or cupy)."""
        if distribution not in self.distributions:
            raise TaskError(f"task {self.name} has no distribution {distribution!r}; it has {', '.join(self.distributions)}")
        if self._on_device():
            given = self._function("inputs")(symbols, distribution, rng, xp)
        else:
            given = self._function("inputs")(symbols, distribution, rng)
            if xp is not np:
                given = {name: xp.asarray(array) for name, array in given.items()}
        return self._checked("inputs", given, symbols, "input", xp)

    def reference(self, symbols: Symbols, inputs: Arrays) -> dict[str, NDArray[np.float64]]:
        """The right outputs in float64, from the inputs as they were rounded."""
        given = self._arrays_function("reference")(symbols, inputs)
        return self._checked("reference", given, symbols, "output", _module_of(inputs), np.float64)

    def plain(self, symbols: Symbols, inputs: Arrays, order: int = 0) -> dict[str, Array]:
        """The outputs of ordinary maths at the declared precision; other orders sum in another order."""
        given = self._arrays_function("plain")(symbols, inputs, order)
        return self._checked("plain", given, symbols, "output", _module_of(inputs))

    def tolerances(self, symbols: Symbols, inputs: Arrays, expected: Expected) -> dict[str, Tolerance]:
        """The allowed error of each output on these inputs, from several orders of plain maths (more for small tensors).

        A task whose ``task.py`` has ``part`` runs plain maths on a part of the work where the whole is too large.
        """
        elements = max(1, min(array.size for array in expected.values()))
        orders = max(2, min(_MOST_ORDERS, _ENOUGH_ELEMENTS // elements), _LEAST_ELEMENTS // elements)
        part: dict[str, Any] = {"symbols": symbols, "inputs": inputs, "expected": expected}
        if hasattr(self._module(), "part"):
            part = self._arrays_function("part")(symbols, inputs, expected)
        plains = [self.plain(part["symbols"], part["inputs"], order) for order in range(orders)]
        return {
            spec.name: derive(
                expected[spec.name],
                [plain[spec.name] for plain in plains],
                dtype_of(spec, symbols),
                self.definition.tolerance.get(spec.name, 0.0),
                part["expected"][spec.name],
            )
            for spec in self.outputs
        }

    def transform(self, symbols: Symbols, rng: np.random.Generator) -> Transform:
        """An exact change of contents, drawn at random; the identity if the task has none."""
        function = getattr(self._module(), "transform", None)
        if function is None:
            return IDENTITY
        transform = cast(Transform, function(symbols, rng))
        if self._on_device():
            return transform
        return Transform(apply=on_host(transform.apply), undo=on_host(transform.undo))

    def wrong_answers(self, symbols: Symbols, inputs: Arrays, expected: Expected) -> dict[str, dict[str, Array]]:
        """Outputs, by name of the mistake, that a sound tolerance refuses.

        All zeros and a run at the next lower precision for every task; the task adds its own.
        """
        xp = _module_of(expected)
        answers = {"all zeros": {s.name: encode(xp.zeros_like(expected[s.name]), dtype_of(s, symbols)) for s in self.outputs}}
        answers["next lower precision"] = self._lower_precision(symbols, inputs)
        function = self._arrays_function("wrong_answers") if hasattr(self._module(), "wrong_answers") else None
        for name, outputs in (function(symbols, inputs, expected) if function else {}).items():
            answers[name] = self._checked(f"wrong answer {name!r}", outputs, symbols, "output", xp)
        return answers

    def work(self, symbols: Symbols) -> Work:
        """The FLOP and bytes of one execution by the formulas of ``task.toml``."""
        names = self._names(symbols)
        return Work(
            flop=float(parse(self.definition.flop).integer(names)), bytes=float(parse(self.definition.bytes).integer(names))
        )

    def hidden_scenarios(self, rng: np.random.Generator, card: TaskCard, count: int) -> tuple[Scenario, ...]:
        """Up to ``count`` variations of the card's scenarios that the card doesn't hold; none if the task has no ``hidden``."""
        function = getattr(self._module(), "hidden", None)
        found: dict[tuple[SymbolValue, ...], Scenario] = {}
        known = {tuple(scenario.symbols.values()) for scenario in card.scenarios}
        for base in rng.permutation(len(card.scenarios))[:count].repeat(4) if function else ():
            symbols = dict(cast(Any, function)(rng, card.scenarios[base].symbols))
            values = tuple(symbols.values())
            if values not in known and len(found) < count:
                name = f"hidden{len(found) + 1}_of_{card.scenarios[base].name}"
                found.setdefault(values, Scenario(name=name, symbols=symbols, region=self.region(symbols)))
        return tuple(found.values())

    def seeds(self, language: Language) -> dict[str, Path]:
        """The seed kernels in that language by name."""
        return {path.stem: path for path in sorted((self.folder / "seeds").glob(f"*.{language.value}"))}

    def region(self, symbols: Symbols) -> str:
        """The first region whose condition holds, or "all"."""
        names = self._names(symbols)
        return next((name for name, text in self.definition.regions.items() if parse(text).integer(names)), "all")

    def _names(self, symbols: Symbols) -> dict[str, SymbolValue]:
        names = dict(symbols)
        for name, text in self.definition.names.items():
            names[name] = parse(text).integer(names)
        return names

    def _module(self) -> ModuleType:
        return import_file(self.folder / "task.py")

    def _function(self, name: str) -> Any:
        function = getattr(self._module(), name, None)
        if function is None:
            raise TaskError(f"{self.folder / 'task.py'}: no function {name}; docs/tasks.md shows what it must return")
        return function

    def _arrays_function(self, name: str) -> Any:
        """A function of ``task.py`` for arrays of any module."""
        function = self._function(name)
        return function if self._on_device() else on_host(function)

    def _on_device(self) -> bool:
        return bool(getattr(self._module(), "DEVICE_ARRAYS", False))

    def _lower_precision(self, symbols: Symbols, inputs: Arrays) -> dict[str, Array]:
        rounded = {}
        for spec in self.tensors:
            if spec.role == "input":
                dtype = dtype_of(spec, symbols)
                values = round_mantissa(decode(inputs[spec.name], dtype), element_type(dtype).lower_mantissa_bits)
                rounded[spec.name] = encode(values, dtype)
        result = self.reference(symbols, rounded)
        return {spec.name: encode(result[spec.name], dtype_of(spec, symbols)) for spec in self.outputs}

    def _checked(self, what: str, given: Any, symbols: Symbols, role: str, xp: Any, storage: Any = None) -> dict[str, Any]:
        """The arrays of ``xp`` that a function of the folder gave, contiguous, once names, shapes and types are as declared."""
        place = self.folder / "task.py"
        specs = [tensor for tensor in self.tensors if tensor.role == role]
        if not isinstance(given, Mapping) or set(given) != {spec.name for spec in specs}:
            names = sorted(given) if isinstance(given, Mapping) else type(given).__name__
            raise TaskError(f"{place}: {what} gives {names}, expected {[spec.name for spec in specs]}")
        for spec in specs:
            shape, dtype = shape_of(spec, symbols), storage or element_type(dtype_of(spec, symbols)).storage
            array = given[spec.name]
            if not isinstance(array, xp.ndarray) or array.shape != shape or array.dtype != dtype:
                found = f"{array.dtype} {array.shape}" if isinstance(array, xp.ndarray) else type(array).__name__
                raise TaskError(f"{place}: {what} gives {spec.name} as {found}, expected {np.dtype(dtype)} {shape}")
        return {spec.name: xp.ascontiguousarray(given[spec.name]) for spec in specs}


def load_task(name_or_folder: str) -> Task:
    """The task of that built-in name, or in that folder (a path such as "./my_task"). TaskError names file and key."""
    folder = BUILT_IN / name_or_folder
    if "/" in name_or_folder or not (folder / "task.toml").is_file():
        folder = Path(name_or_folder).expanduser().resolve()
    if not (folder / "task.toml").is_file():
        raise TaskError(
            f"no task {name_or_folder!r}: built in are {', '.join(built_in_tasks())}; a task of yours is a folder with a "
            "task.toml, written by `askevolve task new FOLDER` and named by its path, such as ./my_task"
        )
    definition = read_task_file(folder / "task.toml")
    try:
        contract = (folder / "contract.md").read_text(encoding="utf-8").strip()
    except OSError as error:
        raise TaskError(f"{folder / 'contract.md'}: {error.strerror}; it tells a mutator what to compute") from None
    tensors = tuple(
        TensorSpec(name=name, role=t.role, dtype=t.dtype, shape=t.shape, axes=t.axes or t.shape)
        for name, t in definition.tensors.items()
    )
    bare = Task(
        name=definition.name,
        folder=folder,
        hash=_hash(folder),
        contract=contract,
        definition=definition,
        scenarios={},
        tensors=tensors,
    )
    return _with_scenarios(bare)


def built_in_tasks() -> tuple[str, ...]:
    """Names of the tasks that come with the package."""
    return tuple(sorted(path.parent.name for path in BUILT_IN.glob("*/task.toml")))


def load_baselines(folder: Path) -> tuple[Baseline, ...]:
    """What ``BASELINES`` of the folder's ``baselines.py`` holds; TaskError where it isn't a sequence of baselines."""
    path = folder / "baselines.py"
    baselines = getattr(import_file(path), "BASELINES", None)
    if not isinstance(baselines, Sequence) or not all(isinstance(item, Baseline) for item in baselines):
        raise TaskError(f"{path}: BASELINES must be a tuple of evaluator.baseline.Baseline")
    return tuple(baselines)


def shape_of(spec: TensorSpec, symbols: Symbols) -> tuple[int, ...]:
    """The shape of a tensor in one scenario."""
    return tuple(parse(extent).integer(symbols) for extent in spec.shape)


def dtype_of(spec: TensorSpec, symbols: Symbols) -> str:
    """The element type of a tensor in one scenario: a name of ``evaluator.dtypes``."""
    return str(symbols["dtype"]) if spec.dtype == "dtype" else spec.dtype


def _module_of(arrays: Mapping[str, Any]) -> Any:
    return array_module(next(iter(arrays.values())))


def import_file(path: Path) -> ModuleType:
    """The module of a task's Python file, imported once; TaskError says what went wrong in it."""
    if path.parent.parent == BUILT_IN:
        return importlib.import_module(f"evaluator.tasks.{path.parent.name}.{path.stem}")
    if not path.is_file():
        raise TaskError(f"{path}: no such file; `askevolve task new FOLDER` writes a complete task")
    digest = hashlib.sha256(str(path).encode() + path.read_bytes()).hexdigest()[:16]
    name = f"askevolve_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise TaskError(f"{path}: {type(error).__name__}: {error}") from error
    return module


def _with_scenarios(task: Task) -> Task:
    path = task.folder / "scenarios.toml"
    content = read_toml(path)
    unknown = sorted(set(content) - {"defaults", "rows", "sets"})
    if unknown or not content.get("sets"):
        raise TaskError(f"{path}: {unknown[0] if unknown else 'sets'}: the file holds [defaults], [rows] and [[sets.NAME]]")
    sets = {}
    for name, blocks in content["sets"].items():
        try:
            scenarios = expand(blocks, content, tuple(task.definition.symbols))
            sets[name] = tuple(Scenario(name=s.name, symbols=s.symbols, region=task.region(s.symbols)) for s in scenarios)
        except (ScenarioError, ExpressionError) as error:
            raise TaskError(f"{path}: sets.{name}: {error}") from None
    return replace(task, scenarios=sets)


def _hash(folder: Path) -> str:
    """SHA-256 over the folder's files that decide a score and the rules of judging, by name and content."""
    digest = hashlib.sha256()
    own = ("task.toml", "scenarios.toml", "contract.md")
    files = [folder / name for name in own] + sorted(folder.glob("*.py"))
    for path in files + [Path(__file__).parent / name for name in _RULES]:
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
