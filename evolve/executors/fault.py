"""The outcome of a request that no worker could finish."""

from evaluator.outcome import Device, Fault, Outcome, Stage, Verdict
from evaluator.request import Request

ATTEMPTS = 4
"""One attempt and up to three repetitions after a worker died."""

FAULT_ATTEMPTS = 2
"""An evaluation that ends in a fault of the harness (a child was killed, say) is repeated once, by a new worker."""


def to_be_repeated(outcome: Outcome, attempts: int) -> bool:
    """Whether an outcome says too little to keep, after so many attempts (this one included)."""
    return outcome.verdict is Verdict.HARNESS_FAULT and attempts < FAULT_ATTEMPTS


def harness_fault(request: Request, reason: str) -> Outcome:
    """HARNESS_FAULT: workers died ``ATTEMPTS`` times under this request. It never blames the candidate."""
    message = f"{ATTEMPTS} workers died under this evaluation ({reason}); run `askevolve doctor` on the machine that evaluates"
    return Outcome(
        candidate_id=request.candidate.id,
        effort=request.effort,
        verdict=Verdict.HARNESS_FAULT,
        stage=Stage.SCREEN,
        message=message,
        device=Device(kind="none", name="no worker", arch="", cores=0, peak_tflops=0.0, peak_gbs=0.0),
        task_hash="",
        harness="",
        wall_s=0.0,
        fault=Fault(verdict=Verdict.HARNESS_FAULT, stage=Stage.SCREEN, message=message),
    )
