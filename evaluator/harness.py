"""The evaluator of searches, finals and ``askevolve evaluate``: one task, one scenario set, one backend."""

import os
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from evaluator.admissions import remark
from evaluator.backend import Backend
from evaluator.cascade import search
from evaluator.disturbance import Pressure
from evaluator.final import final
from evaluator.findings import Findings
from evaluator.locks import lock_path
from evaluator.outcome import Effort, Fault, Outcome, Stage, Verdict
from evaluator.peers import open_baselines
from evaluator.pool import Entropy
from evaluator.request import Request
from evaluator.session import Session, new_pool
from evaluator.settings import HarnessSettings
from evaluator.task import Task

SECRET_BYTES = 32


class Harness:
    """Implements ``evaluator.request.Evaluator``.

    Holds one session: the secret pool, the primary baseline (``baseline``, or the first of the card's that is available on this
    backend) and the result of the A/A race. Evaluations take turns. Outcomes say where the task was never admitted on this
    device, by the reports in ``admissions`` (None: nobody asks). A final on a GPU that is stopped leaves what it measured in
    ``sittings`` (None: nothing), and goes on from there; ``progress`` is told how far it is. Raises ValueError where no baseline
    is available.
    """

    def __init__(
        self,
        task: Task,
        set_name: str,
        backend: Backend,
        settings: HarnessSettings,
        clock: Callable[[], float] = time.monotonic,
        entropy: Entropy = os.urandom,
        *,
        baseline: str | None = None,
        pressure: Pressure | None = None,
        lock: Path | None = None,
        admissions: Path | None = None,
        sittings: Path | None = None,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        card = task.card(set_name)
        said = None if admissions is None else remark(admissions, task, set_name, backend.device)
        self._turn = threading.Lock()
        self._session = Session(
            task=task,
            card=card,
            backend=backend,
            settings=settings,
            baselines=open_baselines(task, card, backend, baseline),
            pool=new_pool(task, backend, settings, entropy(SECRET_BYTES)),
            clock=clock,
            entropy=entropy,
            pressure=pressure or backend.pressure,
            lock=lock or lock_path(),
            remarks=() if said is None else (said,),
            sittings=sittings,
            progress=progress,
        )

    @property
    def baseline(self) -> str:
        """Name of the baseline that fitness is measured against."""
        return self._session.primary.name

    def evaluate(self, request: Request) -> Outcome:
        """The outcome of the request; a failure of ours comes back as HARNESS_FAULT with its traceback as detail."""
        with self._turn:
            started_s = self._session.clock()
            try:
                stages = final if request.effort is Effort.FINAL else search
                return stages(self._session, request)
            except Exception as error:
                fault = Fault(
                    verdict=Verdict.HARNESS_FAULT,
                    stage=Stage.SCORE,
                    message=f"the harness failed, not the candidate: {type(error).__name__}: {error}",
                    detail=traceback.format_exc(),
                )
                return Findings(session=self._session, request=request, started_s=started_s).refused(fault)

    def close(self) -> None:
        """Stop every process that the backend keeps."""
        self._session.backend.close()
