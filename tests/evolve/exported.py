"""A hand-made run with one verified CPU kernel, and its export."""

from dataclasses import replace
from pathlib import Path

from evaluator.cpu.device import name_and_arch
from evaluator.outcome import Check, Device, Effort, Fitness, Outcome, Stage, Timing, Verdict
from evaluator.settings import HARNESS_VERSION
from evaluator.task import load_task
from population.candidate import Candidate, Language, Origin, Step
from population.novelty import candidate_of
from results.events import FinalMeasured, RunStarted, StepAsked, StepEvaluated, StepFolded
from results.store import Store

TASK = "attention_forward"
SET = "cpu_quick"


def seed() -> Candidate:
    """The blocked CPU seed."""
    return candidate_of(load_task(TASK).seeds(Language.CPP)["cpu_blocked"].read_text(), Language.CPP)


def final_of(candidate: Candidate, **changes: object) -> Outcome:
    """A final that verified the candidate on this machine, with hidden sizes, as the harness would write it."""
    task = load_task(TASK)
    name, arch = name_and_arch()
    names = [scenario.name for scenario in task.card(SET).scenarios]
    checks = tuple(
        Check(
            scenario=scenario, distribution="normal", tensor="out", passed=True,
            max_error=1e-7, max_allowed=1e-5, rms_error=1e-8, rms_allowed=1e-6,
        )
        for scenario in (*names, f"hidden1_of_{names[0]}")
    )  # fmt: skip
    timings = tuple(
        Timing(
            scenario=scenario, opponent="torch_cpu", ratio=1.1, low=1.0, high=1.2,
            candidate_us=100.0, opponent_us=110.0, blocks=8, floor_us=1.0, bound="flop",
        )
        for scenario in names
    )  # fmt: skip
    outcome = Outcome(
        candidate_id=candidate.id,
        effort=Effort.FINAL,
        verdict=Verdict.OK,
        stage=Stage.SCORE,
        message="1.1 times torch_cpu",
        device=Device(kind="cpu", name=name, arch=arch, cores=1, peak_tflops=1.0, peak_gbs=1.0),
        task_hash=task.hash,
        harness=f"{HARNESS_VERSION}-0123456789",
        wall_s=1.0,
        supported=tuple(names),
        checks=checks,
        timings=timings,
        fitness=Fitness(
            opponent="torch_cpu", geomean=1.1, low=1.0, high=1.2, scenarios=len(names), worst_scenario=names[0], worst_ratio=1.1
        ),
    )
    return replace(outcome, **changes)  # type: ignore[arg-type]


def run_with(folder: Path, final: Outcome | None) -> Path:
    """A run of one seed; ``final`` None: nobody verified it."""
    candidate = seed()
    config = {
        "run": {"name": "handmade"},
        "task": {"name": TASK, "scenarios": SET},
        "population": {"seeds": ["cpu_blocked"]},
        "budget": {"candidates": 1},
    }
    card = load_task(TASK).card(SET)
    step = Step(number=0, origin=Origin.SEED, island=0, parent_id=None, candidate_id=candidate.id)
    searched = final_of(candidate, effort=Effort.SEARCH)
    started = RunStarted(name="handmade", config=config, config_hash="c0ffee", card=card, version="0.1.0")
    with Store.create(folder, started) as store:
        store.append(
            StepAsked(step=step, candidate=candidate),
            StepEvaluated(step_number=0, outcome=searched),
            StepFolded(step_number=0, status="best", accepted=True, best_id=candidate.id),
        )
        if final is not None:
            store.append(FinalMeasured(outcome=final))
    return folder
