"""A GPU that falls sick under a candidate: killed, probed, quarantined, asked again elsewhere, nobody blamed."""

import os
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from evaluator.cuda.lease import Quarantine, lease_path
from evaluator.outcome import Verdict
from evolve import evaluators, parts
from evolve.api import resume, run
from evolve.errors import EnvironmentUnfit
from evolve.executors.inline import InlineExecutor
from evolve.executors.processes import ProcessExecutor
from evolve.parts import assemble
from evolve.stopping import StopReason
from results.events import RunNoted, RunStopped
from results.folder import holds_run
from tests.contracts.executor import collect_all, request_of
from tests.evolve.sick_gpu import FakeGpus
from tests.evolve.simulation import SlowSimulation, config, essence, shuffled, stored
from tests.evolve.test_builds import GPU, cuda

ROOT = Path(__file__).parents[2]
FAKE = ROOT / "tests" / "evaluator" / "fake_cuda"


@pytest.fixture(autouse=True)
def _own_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def places(*names: str) -> list[dict[str, str]]:
    return [{"GPU": name, "PYTHONPATH": f"{FAKE}{os.pathsep}{ROOT}"} for name in names]


def test_the_evaluation_goes_to_another_gpu_and_the_sick_one_is_not_asked_again(tmp_path: Path) -> None:
    gpus = FakeGpus(tmp_path)
    (tmp_path / "the next falls sick").touch()
    executor = ProcessExecutor(gpus, environments=places("left", "right"))
    executor.submit(1, request_of("scale"))
    collect_all(executor, 1)
    executor.submit(2, request_of("trap"))
    outcomes = {done.number: done.outcome for done in collect_all(executor, 1)}
    [mark] = tmp_path.glob("*.quarantine")
    [sick] = [gpu for gpu in ("left", "right") if gpu in mark.name]
    healthy = {"left": "right", "right": "left"}[sick]
    assert outcomes[2].verdict is Verdict.CRASH, "on a GPU that works the trap is its own"
    for number, kernel in enumerate(("scale", "hang", "scale", "trap", "scale"), 3):
        executor.submit(number, request_of(kernel))
    outcomes |= {done.number: done.outcome for done in collect_all(executor, 5)}
    verdicts = [outcomes[number].verdict for number in range(3, 8)]
    assert verdicts == [Verdict.OK, Verdict.TIMEOUT, Verdict.OK, Verdict.CRASH, Verdict.OK]
    log = gpus.log()
    assert (sick, "trap", "0") in log
    assert [gpu for gpu, _, _ in log[log.index((sick, "trap", "0")) + 1 :]] == [healthy] * 6
    assert (healthy, "trap", "1") in log
    executor.close()
    assert not [each for each in psutil.process_iter(["cmdline"]) if "evaluator.cuda.zygote" in (each.info["cmdline"] or ())]


def test_where_the_last_gpu_falls_sick_the_request_stays_and_the_reason_is_said(tmp_path: Path) -> None:
    gpus = FakeGpus(tmp_path)
    (tmp_path / "the next falls sick").touch()
    executor = ProcessExecutor(gpus, environments=places("left"))
    executor.submit(1, request_of("hang"))
    with pytest.raises(
        EnvironmentUnfit, match=r"this GPU is quarantined: a small kernel failed \(since .*`askevolve doctor` lifts"
    ):
        collect_all(executor, 1)
    executor.close()
    assert gpus.log() == [("left", "hang", "0")]


class Falling:
    """A simulated evaluator whose GPU is quarantined after so many ``good`` evaluations."""

    def __init__(self, good: int) -> None:
        self.good = good

    def __call__(self):  # type: ignore[no-untyped-def]
        evaluator = SlowSimulation(0.0)()
        inner = evaluator.evaluate

        def evaluate(request):  # type: ignore[no-untyped-def]
            self.good -= 1
            if self.good < 0:
                raise EnvironmentUnfit("this GPU is quarantined: it hangs")
            return inner(request)

        evaluator.evaluate = evaluate  # type: ignore[method-assign]
        return evaluator


def test_an_inline_run_stops_with_the_reason_and_goes_on_afterwards(tmp_path: Path) -> None:
    reference = run(config(), root=tmp_path / "reference", executor=shuffled())
    stopped = run(config(), root=tmp_path, executor=InlineExecutor(Falling(7)))
    assert stopped.stopped_by is StopReason.ENVIRONMENT
    *_, note, last = [event for event in stored(stopped.folder) if isinstance(event, RunNoted | RunStopped)]
    assert isinstance(note, RunNoted)
    assert note.text == "this GPU is quarantined: it hangs"
    assert last == RunStopped(reason="environment")
    assert resume(stopped.folder, executor=shuffled()).stopped_by is StopReason.CANDIDATES
    assert essence(stored(stopped.folder)) == essence(stored(reference.folder))


def quarantine(uuid: str) -> None:
    Quarantine(lease_path(uuid)).set(uuid, "it hangs", 0.0)


@pytest.mark.parametrize("kind", ["inline", "processes", "ray"])
def test_a_run_whose_gpu_is_quarantined_does_not_begin(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluators, "find_gpus", lambda: (GPU,))
    quarantine("GPU-1")
    with pytest.raises(
        EnvironmentUnfit, match=r"some GPU \(GPU-1\): this GPU is quarantined: it hangs .*`askevolve doctor` lifts"
    ):
        run(cuda(tmp_path, kind=kind), root=tmp_path / "runs")
    assert not holds_run(tmp_path / "runs" / "sim")


def test_the_other_gpus_are_taken_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, object]] = []
    monkeypatch.setattr(evaluators, "find_gpus", lambda: (GPU, replace(GPU, uuid="GPU-2"), replace(GPU, uuid="GPU-3")))
    monkeypatch.setattr(parts, "ProcessExecutor", lambda spec, **terms: made.append(terms))
    quarantine("GPU-1")
    assemble(cuda(tmp_path, kind="processes", workers=2)).executor()
    assert made[0]["environments"] == [{"CUDA_VISIBLE_DEVICES": "GPU-2"}, {"CUDA_VISIBLE_DEVICES": "GPU-3"}]
    advice = r"CUDA_VISIBLE_DEVICES=GPU-2,GPU-3 shows only the others"
    with pytest.raises(EnvironmentUnfit, match=rf"{advice} and \[executor\] workers = 2 asks for no more"):
        assemble(cuda(tmp_path, kind="processes", workers=3)).executor()
    with pytest.raises(EnvironmentUnfit, match=rf"{advice}$"):
        assemble(cuda(tmp_path)).executor()
