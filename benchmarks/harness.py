"""What an evaluation on a GPU costs: seconds to each verdict, candidates an hour, how much of the lease kernels ran.

Run from the repository's root on a host with a GPU that is otherwise idle: ``python -m benchmarks.harness``; about seven minutes.
The kernel is the seed ``portable`` and variants of it, each with a mark that makes it a new candidate; where a verdict needs a
build, it is made ahead, as a search does. With ``--loop`` (a minute more, needs nvcc) the same kernel goes through what common
benchmarks do: a ``load_inline`` extension, ``allclose``, and a loop between events. ``--profile`` shows where the time of one
evaluation goes.
"""

import argparse
import cProfile
import itertools
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluator.backend import Backend
from evaluator.cuda.device import NoGpuError
from evaluator.harness import Harness
from evaluator.outcome import Outcome, Verdict
from evaluator.request import Request
from evaluator.screen import Screened, screen
from evaluator.settings import cuda_settings
from evaluator.task import Task, load_task
from evaluator.task_card import TaskCard
from population.candidate import Language
from population.novelty import candidate_of
from results.text import table

HOPELESS = 1000.0
"""The lower bound of an incumbent against which any kernel is hopeless."""
HOUR_S = 3600.0
PROFILED_LINES = 40
MARKS = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A variant of the kernel, the verdicts that it may get, and the target (s)."""

    name: str
    change: Callable[[str], str]
    verdicts: frozenset[Verdict]
    target_s: float
    incumbent_low: float | None = None
    ahead: bool = True


RIGHT = frozenset({Verdict.OK, Verdict.AMBIGUOUS})
CASES = (
    Case(
        name="plan error",
        change=lambda source: replaced(source, '"heads", "group"]', '"heads", "grouping"]'),
        verdicts=frozenset({Verdict.PLAN_ERROR}),
        target_s=0.3,
        ahead=False,
    ),
    Case(
        name="compile error",
        change=lambda source: source + "\nint unfinished(",
        verdicts=frozenset({Verdict.COMPILE_ERROR}),
        target_s=0.3,
        ahead=False,
    ),
    Case(
        name="wrong answer",
        change=lambda source: replaced(source, "scale * 1.44269504088896341f", "scale * 1.5f"),
        verdicts=frozenset({Verdict.WRONG}),
        target_s=1.5,
    ),
    Case(
        name="hopelessly slow",
        change=lambda source: source,
        verdicts=frozenset({Verdict.SLOWER}),
        target_s=3.0,
        incumbent_low=HOPELESS,
    ),
    Case(name="quick3 score", change=lambda source: source, verdicts=RIGHT, target_s=3.0),
    Case(
        name="quick3 score, incumbent near",
        change=lambda source: source,
        verdicts=RIGHT,
        target_s=3.0,
        incumbent_low=0.01,
    ),
)
SCORE = Case(name="26-scenario score", change=lambda source: source, verdicts=RIGHT, target_s=20.0)


def replaced(source: str, old: str, new: str) -> str:
    if source.count(old) != 1:
        raise SystemExit(
            f"the seed holds {old!r} {source.count(old)} times, once was expected: this benchmark must follow the seed"
        )
    return source.replace(old, new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A harness over one scenario set."""

    harness: Harness
    backend: Backend
    task: Task
    card: TaskCard
    source: str

    def run(self, case: Case) -> tuple[float, Outcome]:
        """Wall time (s) and outcome of one new candidate, its builds made ahead where the case says so."""
        source = f"{case.change(self.source)}\n// candidate {next(MARKS)} of {time.time_ns()}\n"
        if case.ahead:
            self._build(source)
        began = time.monotonic()
        outcome = self.harness.evaluate(Request(candidate=candidate_of(source, Language.CUDA), incumbent_low=case.incumbent_low))
        took_s = time.monotonic() - began
        if outcome.verdict not in case.verdicts:
            raise SystemExit(f"{case.name} came out as {outcome.verdict}: {outcome.message}")
        return took_s, outcome

    def screened(self, source: str) -> Screened:
        found = screen(
            source, Language.CUDA, self.card, self.backend.facts(), lambda scenario: self.task.scalars(scenario.symbols)
        )
        if not isinstance(found, Screened):
            raise SystemExit(f"the seed's plan is refused: {found.message}")
        return found

    def _build(self, source: str) -> None:
        for resolved in {tuple(sorted(each.defines.items())): each for each in self.screened(source).resolved}.values():
            self.backend.build(source, resolved)


def opened(backend: Backend, task: Task, set_name: str, source: str) -> Bench:
    harness = Harness(task, set_name, backend, cuda_settings("quick"))
    return Bench(harness=harness, backend=backend, task=task, card=task.card(set_name), source=source)


def measured(bench: Bench, case: Case, runs: int) -> list[tuple[float, Outcome]]:
    bench.run(case)  # inputs, answers and warm processes are those of a session from here on
    return [bench.run(case) for _ in range(runs)]


def row(case: Case, found: list[tuple[float, Outcome]]) -> tuple[object, ...]:
    took_s = statistics.median(seconds for seconds, _ in found)
    facts = [outcome.facts for _, outcome in found]
    lease_s = statistics.median(float(each.get("lease_s", 0.0)) for each in facts)
    busy_s = statistics.median(float(each.get("gpu_busy_s", 0.0)) for each in facts)
    shares = [f"{100 * part / whole:.0f} %" if part else None for part, whole in ((lease_s, took_s), (busy_s, lease_s or 1.0))]
    within = "yes" if took_s <= case.target_s else "no"
    return (
        case.name,
        len(found),
        f"{took_s:.2f}",
        f"{case.target_s:g}",
        within,
        f"{lease_s:.2f}",
        *shares,
        f"{HOUR_S / took_s:.0f}",
    )


TITLES = ("verdict", "runs", "median s", "target s", "within", "lease s", "lease / wall", "kernels / lease", "an hour")


def profiled(bench: Bench, case: Case) -> None:
    """Where the host's time goes; what the device does shows at the calls that wait for it."""
    profile = cProfile.Profile()
    profile.runcall(bench.run, case)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(r"evaluator|cupy|torch|recv", PROFILED_LINES)


def compared(quick: Bench, full: Bench, took_s: Mapping[str, float]) -> None:
    """Print what the loop of common benchmarks takes for the same kernel, and its ratio to ours."""
    from benchmarks.inline_loop import loop_over, missing

    if (reason := missing()) is not None:
        print(f"\nload_inline loop: not measured, {reason}")
        return
    with tempfile.TemporaryDirectory() as folder:
        loop = loop_over(quick.source, quick.screened(quick.source), Path(folder))
    ratio = loop.whole_s / took_s["quick3 score"]
    print(
        f"\nload_inline + allclose + event loop over quick3: {loop.whole_s:.1f} s a candidate, "
        f"{loop.build_s:.1f} s of it the build; {HOUR_S / loop.whole_s:.0f} an hour, {ratio:.1f} times what this harness takes"
    )
    screened = full.screened(full.source)
    builds = len({tuple(sorted(each.defines.items())) for each in screened.resolved})
    each_s = loop.run_s / len(quick.card.scenarios)
    whole_s = builds * loop.build_s + each_s * len(screened.scenarios)
    print(
        f"over the 26 scenarios by the same figures ({builds} builds): {whole_s:.0f} s, "
        f"{whole_s / took_s[SCORE.name]:.1f} times what this harness takes"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="evaluations for each verdict")
    parser.add_argument("--full-runs", type=int, default=10, help="evaluations in 26 scenarios, about 20 s each")
    parser.add_argument("--loop", action="store_true", help="the loop of common benchmarks too")
    parser.add_argument("--profile", action="store_true", help="where the time of one quick3 evaluation goes")
    parser.add_argument("--quick", action="store_true", help="leave the 26 scenarios out")
    given = parser.parse_args()
    task = load_task("attention_forward")
    source = task.seeds(Language.CUDA)["portable"].read_text()
    with tempfile.TemporaryDirectory() as folder:
        try:
            from evaluator.cuda.backend import CudaBackend

            backend = CudaBackend(Path(folder))
        except (NoGpuError, ImportError) as error:
            raise SystemExit(f"this benchmark needs a GPU and the extra askevolve[cuda]: {error}") from None
        try:
            measure(backend, task, source, given)
        finally:
            backend.close()


def measure(backend: Backend, task: Task, source: str, given: argparse.Namespace) -> None:
    quick = opened(backend, task, "quick3", source)
    rows, took_s = [], {}
    for case in CASES:
        found = measured(quick, case, given.runs)
        rows.append(row(case, found))
        took_s[case.name] = statistics.median(seconds for seconds, _ in found)
        print(f"{case.name}: {took_s[case.name]:.2f} s", file=sys.stderr)
    if given.profile:
        profiled(quick, CASES[4])
    full = opened(backend, task, "hopper_26", source)
    if not given.quick:
        found = measured(full, SCORE, given.full_runs)
        rows.append(row(SCORE, found))
        took_s[SCORE.name] = statistics.median(seconds for seconds, _ in found)
    print(f"{backend.device.name}, {quick.harness.baseline} as baseline\n")
    print("\n".join(table(TITLES, rows)))
    if given.loop and not given.quick:
        compared(quick, full, took_s)


if __name__ == "__main__":
    main()
