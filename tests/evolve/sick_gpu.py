"""Evaluators on fake GPUs, one of which falls sick: real candidate processes on the fake driver, real marks of quarantine."""

import os
from dataclasses import dataclass
from pathlib import Path

from evaluator.cuda.lease import GpuQuarantinedError, Quarantine, lease_path
from evaluator.outcome import Device, Outcome, Stage, Verdict
from evaluator.request import Evaluator, Request
from evolve.errors import EnvironmentUnfit

DEVICE = Device(kind="cuda", name="fake", arch="sm_90a", cores=1, peak_tflops=1.0, peak_gbs=1.0)


class FakeGpuEvaluator:
    """Runs the fake kernel that a candidate's source names on the GPU called ``GPU`` in the environment."""

    def __init__(self, folder: Path) -> None:
        from evaluator.cuda import side
        from tests.evaluator.fake_cuda.play import Stage as Played

        self.gpu, self.folder = os.environ["GPU"], folder
        self.mark = Quarantine(lease_path(self.gpu, folder))
        self.mark.refuse()
        side.constant_names = lambda cubin: ()
        self.played = Played(folder)
        self.played.processes._probe = self._sickness

    def _sickness(self) -> str | None:
        try:
            (self.folder / "the next falls sick").unlink()
        except FileNotFoundError:
            return None
        self.mark.set(self.gpu, "a small kernel failed", 0.0)
        return "a small kernel failed"

    def evaluate(self, request: Request) -> Outcome:
        from tests.evaluator.fake_cuda.play import run_one

        with (self.folder / "log").open("a") as log:
            log.write(f"{self.gpu} {request.candidate.source} {request.attempt}\n")
        ran = run_one(self.played, [request.candidate.source], deadline_s=0.5)["ran"]
        return Outcome(
            candidate_id=request.candidate.id,
            effort=request.effort,
            verdict=Verdict(ran.get("verdict", "OK")),
            stage=Stage.CHECK,
            message=ran.get("message", "right"),
            device=DEVICE,
            task_hash="t",
            harness="h",
            wall_s=0.0,
        )

    def close(self) -> None:
        self.played.processes.close()
        self.played.pool.close()


@dataclass(frozen=True)
class FakeGpus:
    """Builds an evaluator as ``EvaluatorSpec`` does."""

    folder: Path

    def __call__(self) -> Evaluator:
        try:
            return FakeGpuEvaluator(self.folder)
        except GpuQuarantinedError as error:
            raise EnvironmentUnfit(str(error)) from None

    def log(self) -> list[tuple[str, str, str]]:
        """GPU, kernel and attempt of every evaluation so far."""
        return [(gpu, kernel, attempt) for gpu, kernel, attempt in map(str.split, (self.folder / "log").read_text().splitlines())]
