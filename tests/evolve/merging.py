"""Runs on two machines, for the tests of what comes home: another device, copies, files of evaluations."""

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evaluator.outcome import Device, Effort, Fault, Outcome, Stage, Verdict
from evaluator.request import Request
from evaluator.simulated import SimulatedEvaluator
from evolve.merge import Came, Refused, merge
from population.candidate import Candidate
from results.codec import plain
from results.events import Event, OutcomeMerged, RunNoted, StepAsked, StepMerged
from tests.evolve.simulation import ShuffledExecutor, card, stored

H200 = Device(
    kind="cuda", name="NVIDIA H200", arch="sm_90a", cores=132, peak_tflops=989.0, peak_gbs=4800.0, versions={"driver": "580.65"}
)
CHEAT = Fault(verdict=Verdict.TOO_FAST, stage=Stage.TIME, message="faster than physics allows")


class On:
    """A simulated evaluator on a device of choice; ``run_seed`` draws what it measures."""

    def __init__(self, device: Device = H200, run_seed: int = 5) -> None:
        self._device = device
        self._inner = SimulatedEvaluator(card(), run_seed)

    def evaluate(self, request: Request) -> Outcome:
        return replace(self._inner.evaluate(request), device=self._device)

    def close(self) -> None:
        self._inner.close()


def on(device: Device = H200, seed: int = 0, run_seed: int = 5) -> ShuffledExecutor:
    """An executor whose evaluations are made on a device."""
    return ShuffledExecutor(On(device, run_seed), 4, seed)


def judged(candidate: Candidate, device: Device = H200, effort: Effort = Effort.SEARCH, **changes: object) -> Outcome:
    """An outcome of a candidate on a device."""
    outcome = On(device).evaluate(Request(candidate=candidate, effort=effort))
    return replace(outcome, **changes)  # type: ignore[arg-type]


def document(path: Path, *judgements: tuple[Candidate, Outcome], **changes: object) -> str:
    """A file as `askevolve evaluate --json` prints it, with ``changes`` to each evaluation."""
    rows = [
        {"file": "k.cpp", "scenario_set": "five", "candidate": plain(candidate), "outcome": plain(outcome), **changes}
        for candidate, outcome in judgements
    ]
    path.write_text(json.dumps({"schema_version": 1, "evaluations": rows}))
    return str(path)


def copied(folder: Path, to: Path) -> Path:
    """A copy of a run on another machine."""
    shutil.copytree(folder, to)
    return to


def came(home: Path, *places: Path | str, dry_run: bool = False) -> list[Came]:
    """What came home, where nothing was refused."""
    told = merge(home, [str(place) for place in places], dry_run=dry_run)
    assert not [one for one in told if isinstance(one, Refused)], told
    return [one for one in told if isinstance(one, Came)]


def refused(home: Path, place: Path | str) -> str:
    """Why something didn't come home."""
    (told,) = merge(home, [str(place)])
    assert isinstance(told, Refused)
    return told.reason


def own(events: Sequence[Event]) -> list[Event]:
    """The events of a run without what stands beside."""
    return [event for event in events if not isinstance(event, StepMerged | OutcomeMerged | RunNoted)]


def new_source(candidate: Candidate, number: int) -> str:
    """A source that differs from a candidate's in a number."""
    return f"{candidate.source}\nstatic const int another_{number} = {random.Random(number).randint(0, 9)};\n"


def seeds_of(folder: Path) -> list[Candidate]:
    return [event.candidate for event in stored(folder) if isinstance(event, StepAsked) and event.candidate][:2]
