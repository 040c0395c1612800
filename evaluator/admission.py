"""Whether a task may be used: honest kernels pass with room, and known mistakes fail, in small scenarios of every region."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluator.arrays import array_module, module_for
from evaluator.backend import Array
from evaluator.baseline import Baseline
from evaluator.compare import Comparison, compare
from evaluator.dtypes import element_type
from evaluator.task import Arrays, Task, dtype_of, load_baselines, shape_of
from evaluator.task_card import Scenario

ROOM = 0.8
"""The largest share of the tolerance that an honest kernel may use on ordinary inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRow:
    """One question asked of the task.

    ``answer`` names the outputs that were judged, ``must`` what has to become of them ("pass" or "fail"; "be there" for a
    missing baseline), ``ok`` whether it did. ``share`` is the largest used part of the tolerance over outputs
    (above 1: refused; None: NaN, infinity or shape). ``detail`` explains a row that didn't pass, or says how a mistake was found.
    """

    scenario: str
    distribution: str
    answer: str
    must: str
    ok: bool
    share: float | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What the admission of one scenario set found."""

    task: str
    set_name: str
    passed: bool
    rows: tuple[AdmissionRow, ...]

    @property
    def problems(self) -> tuple[AdmissionRow, ...]:
        """The rows that didn't pass."""
        return tuple(row for row in self.rows if not row.ok)


def admit(task: Task, set_name: str, backend_kind: str, baselines: Sequence[Baseline] | None = None, seed: int = 0) -> Admission:
    """The admission of a task's scenario set: a row for each check, passed only if all did.

    In the cheapest scenario of each region: every baseline of ``backend_kind`` ("cpu" or "cuda") that is available passes on all
    distributions, and on the first with room; plain maths passes through the task's exact transform; every wrong answer fails
    on the first distribution. At least one baseline must be there; ``baselines`` are the folder's own by default. The arrays are
    those of the backend where any of its baselines is available (cupy for "cuda"). Raises TaskError where the folder itself is
    faulty, ImportError where cupy is missing.
    """
    rng = np.random.default_rng(seed)
    candidates = load_baselines(task.folder) if baselines is None else baselines
    baselines = [baseline for baseline in candidates if baseline.backend == backend_kind]
    usable = [baseline for baseline in baselines if baseline.available() is None]
    xp = module_for(backend_kind if usable else "cpu")
    rows: list[AdmissionRow] = []
    for scenario in representatives(task, set_name):
        able = [b for b in usable if b.supports(scenario.symbols)]
        if not able:
            missing = "; ".join(
                f"{b.name}: {b.available() or 'not this scenario'}" for b in baselines if b.backend == backend_kind
            )
            rows.append(_row(scenario, "-", "baseline", "be there", False, None, missing or f"no {backend_kind} baseline"))
        for distribution in task.distributions:
            rows += _examine(task, scenario, distribution, able, rng, xp)
    return Admission(task=task.name, set_name=set_name, passed=all(row.ok for row in rows), rows=tuple(rows))


def representatives(task: Task, set_name: str) -> tuple[Scenario, ...]:
    """The scenario with the least work of each region, in the order of the card."""
    cheapest: dict[str, Scenario] = {}
    for scenario in task.card(set_name).scenarios:
        other = cheapest.get(scenario.region)
        if other is None or task.work(scenario.symbols).flop < task.work(other.symbols).flop:
            cheapest[scenario.region] = scenario
    return tuple(cheapest.values())


def _examine(
    task: Task, scenario: Scenario, distribution: str, baselines: Sequence[Baseline], rng: np.random.Generator, xp: Any
) -> list[AdmissionRow]:
    symbols, ordinary = scenario.symbols, distribution == task.distributions[0]
    inputs = task.inputs(symbols, distribution, rng, xp)
    expected = task.reference(symbols, inputs)
    tolerances = task.tolerances(symbols, inputs, expected)
    rows = []

    def judge(answer: str, outputs: Arrays, must: str) -> None:
        found = {name: compare(expected[name], outputs[name], tolerances[name]) for name in outputs}
        right = all(comparison.passed for comparison in found.values())
        share = _share(found)
        detail = "; ".join(f"{name}: {c.message}" for name, c in found.items() if not c.passed)
        if must == "pass" and right and ordinary and share is not None and share > ROOM:
            right, detail = False, f"uses {share:.2f} of the tolerance, and {ROOM} is the most an honest kernel should use"
        ok = right == (must == "pass")
        if must == "fail" and not ok:
            detail = "the tolerance lets this mistake pass: change the inputs of the distribution or the tolerance floor"
        rows.append(_row(scenario, distribution, answer, must, ok, share, detail))

    for baseline in baselines:
        judge(f"baseline {baseline.name}", run_baseline(task, baseline, symbols, inputs), "pass")
    transform = task.transform(symbols, rng)
    judge("plain maths through the transform", transform.undo(task.plain(symbols, transform.apply(inputs))), "pass")
    if ordinary:
        for name, outputs in task.wrong_answers(symbols, inputs, expected).items():
            judge(name, outputs, "fail")
    return rows


def run_baseline(task: Task, baseline: Baseline, symbols: Mapping[str, int | str], inputs: Arrays) -> dict[str, Array]:
    """The outputs of one call of a baseline in this process, where its inputs live, without those that it leaves out."""
    xp = array_module(next(iter(inputs.values())))
    shapes = {spec.name: (shape_of(spec, symbols), dtype_of(spec, symbols)) for spec in task.outputs}
    outputs: dict[str, Array] = {
        name: xp.zeros(shape, dtype=element_type(dtype).storage) for name, (shape, dtype) in shapes.items()
    }
    bound = baseline.bind(symbols, inputs, outputs)
    bound.call()
    bound.store()
    return {name: array for name, array in outputs.items() if name not in baseline.leaves_out}


def _share(found: Mapping[str, Comparison]) -> float | None:
    """The largest part of a tolerance that is used; None where an error isn't finite."""
    shares = []
    for comparison in found.values():
        if comparison.max_error is None or comparison.rms_error is None:
            return None
        shares.append(comparison.max_error / max(comparison.max_allowed, np.finfo(np.float64).tiny))
        shares.append(comparison.rms_error / max(comparison.rms_allowed, np.finfo(np.float64).tiny))
    return max(shares, default=None)


def _row(
    scenario: Scenario, distribution: str, answer: str, must: str, ok: bool, share: float | None, detail: str
) -> AdmissionRow:
    return AdmissionRow(
        scenario=scenario.name,
        distribution=distribution,
        answer=answer,
        must=must,
        ok=ok,
        share=share,
        detail=detail,
    )
