import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from evaluator.outcome import Verdict
from evaluator.request import Evaluator, Request
from evolve.api import run
from evolve.errors import EnvironmentUnfit
from evolve.executors.ahead import Ahead, Job
from evolve.executors.base import Executor
from evolve.executors.elsewhere import Elsewhere
from evolve.executors.inline import InlineExecutor
from evolve.executors.processes import ProcessExecutor
from tests.contracts.executor import ExecutorContract, Scripted, collect_all, request_of
from tests.evolve.simulation import SlowSimulation, config, essence, shuffled, stored


class TestInline(ExecutorContract):
    def make(self, build: Callable[[], Evaluator]) -> Executor:
        return InlineExecutor(build)

    def test_an_unfit_machine_ends_it_and_the_request_stays(self, executor: Executor, script: Scripted) -> None:
        executor.submit(1, request_of("sick"))
        with pytest.raises(EnvironmentUnfit, match="this GPU is quarantined: it hangs; run `askevolve doctor`"):
            executor.collect(0.1)
        assert [source for source, _, _ in script.log()] == ["sick", "closed"]
        with pytest.raises(EnvironmentUnfit):
            executor.collect(0.1)


class TestProcesses(ExecutorContract):
    def make(self, build: Callable[[], Evaluator]) -> Executor:
        return ProcessExecutor(build, environments=[{"PLACE": "left"}])

    @pytest.fixture
    def pair(self, script: Scripted) -> Iterator[Executor]:
        executor = ProcessExecutor(script, environments=[{"PLACE": "left"}, {"PLACE": "right"}], deadline_s=30.0)
        yield executor
        executor.close()

    def test_two_workers_run_at_the_same_time_each_in_its_own_environment(self, pair: Executor, script: Scripted) -> None:
        pair.submit(1, request_of("sleep 0.5"))
        pair.submit(2, request_of("sleep 0.4"))
        collect_all(pair, 2)
        pids = {pid for _, _, pid in script.log()}
        places = {Path(f"/proc/{pid}/environ").read_text().partition("PLACE=")[2].partition("\0")[0] for pid in pids}
        assert places == {"left", "right"}

    def test_killed_evaluator_takes_its_processes_along_and_the_request_is_repeated(
        self, executor: Executor, script: Scripted
    ) -> None:
        executor.submit(1, request_of("spawn 7461"))
        wait_for(lambda: sleepers("7461"))
        (_, _, evaluator), (first, *_) = script.log()[0], sleepers("7461")
        os.kill(evaluator, signal.SIGKILL)
        wait_for(lambda: not executor.collect(0.1) and len(script.log()) == 2 and len(sleepers("7461")) == 1)
        assert script.log()[1][1] == 1
        assert first not in sleepers("7461")

    def test_an_unfit_place_is_not_asked_again_and_its_request_goes_to_another(self, pair: Executor, script: Scripted) -> None:
        pair.submit(1, request_of("sick"))
        [done] = collect_all(pair, 1)
        assert (done.number, done.outcome.verdict, done.outcome.message) == (1, Verdict.OK, "attempt 1")
        for number in range(2, 6):
            pair.submit(number, request_of(f"kernel {number}"))
        collect_all(pair, 4)
        pids = [pid for source, attempt, pid in script.log() if source.startswith("kernel") or attempt]
        assert len(pids) == 5
        assert len(set(pids)) == 1

    def test_where_every_place_is_unfit_it_is_said(self, executor: Executor, script: Scripted) -> None:
        executor.submit(1, request_of("sick"))
        executor.submit(2, request_of("waits"))
        with pytest.raises(EnvironmentUnfit, match="this GPU is quarantined"):
            collect_all(executor, 1)
        assert {source for source, _, _ in script.log()} == {"sick", "closed"}

    def test_close_in_the_middle_of_an_evaluation_leaves_no_process(self, executor: Executor, script: Scripted) -> None:
        executor.submit(1, request_of("spawn 7462"))
        executor.submit(2, request_of("never begun"))
        wait_for(lambda: sleepers("7462"))
        executor.close()
        wait_for(lambda: not sleepers("7462") and not psutil.pid_exists(script.log()[0][2]))
        assert [source for source, _, _ in script.log()] == ["spawn 7462"]

    def test_a_request_that_kills_every_worker_is_the_harness_fault(self, executor: Executor) -> None:
        executor.submit(1, request_of("exit"))
        [done] = collect_all(executor, 1)
        assert done.outcome.verdict is Verdict.HARNESS_FAULT
        assert "status 7" in done.outcome.message

    def test_a_run_does_not_depend_on_the_number_of_workers(self, tmp_path: Path) -> None:
        reference = run(config(), root=tmp_path / "reference", executor=shuffled())
        executor = ProcessExecutor(SlowSimulation(0.02), environments=[{}] * 3)
        result = run(config(), root=tmp_path, executor=executor)
        assert essence(stored(result.folder)) == essence(stored(reference.folder))


@pytest.mark.usefixtures("ray_session")
class TestRay(ExecutorContract):
    def make(self, build: Callable[[], Evaluator]) -> Executor:
        from evolve.executors.ray_executor import RayExecutor

        return RayExecutor(build, workers=2)

    def test_two_workers_run_at_the_same_time(self, executor: Executor, script: Scripted) -> None:
        executor.submit(1, request_of("sleep 0.5"))
        executor.submit(2, request_of("sleep 0.4"))
        collect_all(executor, 2)
        assert len({pid for _, _, pid in script.log()}) == 2

    def test_killed_evaluator_takes_its_processes_along_and_the_request_is_repeated(
        self, executor: Executor, script: Scripted
    ) -> None:
        executor.submit(1, request_of("spawn 7357"))
        wait_for(lambda: executor.collect(0.1) or sleepers("7357"))
        (_, _, evaluator), (first, *_) = script.log()[0], sleepers("7357")
        os.kill(evaluator, signal.SIGKILL)
        wait_for(lambda: not executor.collect(0.1) and len(script.log()) == 2 and len(sleepers("7357")) == 1)
        assert script.log()[1][1] == 1
        assert first not in sleepers("7357")

    def test_processes_of_a_killed_actor_do_not_survive(self, executor: Executor, script: Scripted) -> None:
        executor.submit(1, request_of("spawn 7358"))
        wait_for(lambda: executor.collect(0.1) or sleepers("7358"))
        (_, _, evaluator), (first, *_) = script.log()[0], sleepers("7358")
        os.kill(psutil.Process(evaluator).parents()[1].pid, signal.SIGKILL)  # evaluator, guard, actor
        wait_for(lambda: not psutil.pid_exists(evaluator) and not psutil.pid_exists(first))
        wait_for(lambda: not executor.collect(0.1) and len(script.log()) == 2)

    def test_close_leaves_no_process(self, executor: Executor, script: Scripted) -> None:
        executor.submit(1, request_of("spawn 7359"))
        wait_for(lambda: executor.collect(0.1) or sleepers("7359"))
        executor.close()
        wait_for(lambda: not sleepers("7359") and not psutil.pid_exists(script.log()[0][2]))

    def test_a_request_that_kills_every_worker_is_the_harness_fault(self, executor: Executor) -> None:
        executor.submit(1, request_of("exit"))
        [done] = collect_all(executor, 1)
        assert done.outcome.verdict is Verdict.HARNESS_FAULT
        assert "status 7" in done.outcome.message

    def test_an_unfit_actor_is_not_asked_again(self, executor: Executor, script: Scripted) -> None:
        executor.submit(1, request_of("sick"))
        [done] = collect_all(executor, 1)
        assert (done.outcome.verdict, done.outcome.message) == (Verdict.OK, "attempt 1")
        executor.submit(2, request_of("sick "))
        with pytest.raises(EnvironmentUnfit, match=r"^this GPU is quarantined"):
            collect_all(executor, 1)
        assert [source for source, _, _ in script.log() if source != "closed"] == ["sick", "sick", "sick "]

    def test_more_workers_than_cpus_is_refused_with_advice(self, script: Scripted) -> None:
        from evolve.executors.ray_executor import RayExecutor

        with pytest.raises(ValueError, match="lower workers"):
            RayExecutor(script, workers=1000)

    def test_more_workers_than_gpus_is_refused_with_advice(self, script: Scripted) -> None:
        from evolve.executors.ray_executor import RayExecutor

        with pytest.raises(ValueError, match="workers = 4, but Ray has 0 GPUs; lower workers"):
            RayExecutor(script, workers=4, gpus=True)

    def test_jobs_ahead_are_done_as_tasks(self, script: Scripted, tmp_path: Path) -> None:
        from evolve.executors.ray_executor import RayExecutor

        executor = RayExecutor(script, workers=1, ahead=touching(tmp_path))
        executor.submit(1, request_of("good"))
        wait_for(lambda: {path.name for path in tmp_path.glob("job *")} == {"job 0 good", "job 1 good"})
        collect_all(executor, 1)
        executor.close()

    @pytest.mark.parametrize("workers", [1, 8])
    def test_a_run_does_not_depend_on_the_number_of_workers(self, tmp_path: Path, workers: int) -> None:
        from evolve.executors.ray_executor import RayExecutor

        reference = run(config(), root=tmp_path / "reference", executor=shuffled())
        result = run(config(), root=tmp_path, executor=RayExecutor(SlowSimulation(0.02), workers=workers))
        assert essence(stored(result.folder)) == essence(stored(reference.folder))


@dataclass(frozen=True)
class Touch:
    """A job that leaves a file, or fails where its path can't be written."""

    path: Path

    def __call__(self) -> None:
        self.path.touch()


def touching(folder: Path) -> Ahead:
    """Two jobs for each request, the first of which fails for the source ``bad``."""

    def jobs(request: Request) -> Sequence[Job]:
        source = request.candidate.source
        first = folder / "nowhere" / "job" if source == "bad" else folder / f"job 0 {source}"
        return Touch(first), Touch(folder / f"job 1 {source}")

    return Ahead(jobs=jobs, workers=2)


@pytest.mark.parametrize("kind", ["inline", "processes"])
def test_jobs_ahead_are_done_while_evaluations_wait_and_their_failure_changes_nothing(kind: str, tmp_path: Path) -> None:
    script, ahead = Scripted(tmp_path), touching(tmp_path)
    executor: Executor = InlineExecutor(script, ahead)
    if kind == "processes":
        executor = ProcessExecutor(script, environments=[{}], ahead=ahead)
    executor.submit(1, request_of("bad"))
    executor.submit(2, request_of("good"))
    wait_for(lambda: {path.name for path in tmp_path.glob("job *")} == {"job 1 bad", "job 0 good", "job 1 good"})
    assert [done.outcome.verdict for done in collect_all(executor, 2)] == [Verdict.OK] * 2
    executor.close()


def test_elsewhere_evaluates_nothing_and_has_done_all_jobs_when_it_is_closed(tmp_path: Path) -> None:
    executor = Elsewhere(touching(tmp_path))
    executor.submit(1, request_of("good"))
    assert list(executor.collect(60.0)) == []
    executor.close()
    assert {path.name for path in tmp_path.glob("job *")} == {"job 0 good", "job 1 good"}
    executor.close()


def sleepers(argument: str) -> list[int]:
    """Process ids of running ``sleep ARGUMENT`` commands."""
    return [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", argument]]


def wait_for(condition: Callable[[], object], deadline_s: float = 30.0) -> None:
    """Return when the condition holds; fail after the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)
