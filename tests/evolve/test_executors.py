import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from evaluator.outcome import Verdict
from evaluator.request import Evaluator
from evolve.api import run
from evolve.executors.base import Executor
from evolve.executors.inline import InlineExecutor
from tests.contracts.executor import ExecutorContract, Scripted, collect_all, request_of
from tests.evolve.simulation import SlowSimulation, config, essence, shuffled, stored


class TestInline(ExecutorContract):
    def make(self, build: Callable[[], Evaluator]) -> Executor:
        return InlineExecutor(build)


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
        wait_for(lambda: sleepers("7357"))
        (_, _, evaluator), (first, *_) = script.log()[0], sleepers("7357")
        os.kill(evaluator, signal.SIGKILL)
        wait_for(lambda: not executor.collect(0.1) and len(script.log()) == 2 and len(sleepers("7357")) == 1)
        assert script.log()[1][1] == 1
        assert first not in sleepers("7357")

    def test_processes_of_a_killed_actor_do_not_survive(self, executor: Executor, script: Scripted) -> None:
        executor.submit(1, request_of("spawn 7358"))
        wait_for(lambda: sleepers("7358"))
        (_, _, evaluator), (first, *_) = script.log()[0], sleepers("7358")
        os.kill(psutil.Process(evaluator).parents()[1].pid, signal.SIGKILL)  # evaluator, guard, actor
        wait_for(lambda: not psutil.pid_exists(evaluator) and not psutil.pid_exists(first))
        wait_for(lambda: not executor.collect(0.1) and len(script.log()) == 2)

    def test_close_leaves_no_process(self, executor: Executor, script: Scripted) -> None:
        executor.submit(1, request_of("spawn 7359"))
        wait_for(lambda: sleepers("7359"))
        executor.close()
        wait_for(lambda: not sleepers("7359") and not psutil.pid_exists(script.log()[0][2]))

    def test_a_request_that_kills_every_worker_is_the_harness_fault(self, executor: Executor) -> None:
        executor.submit(1, request_of("exit"))
        [done] = collect_all(executor, 1)
        assert done.outcome.verdict is Verdict.HARNESS_FAULT
        assert "status 7" in done.outcome.message

    def test_more_workers_than_cpus_is_refused_with_advice(self, script: Scripted) -> None:
        from evolve.executors.ray_executor import RayExecutor

        with pytest.raises(ValueError, match="lower workers"):
            RayExecutor(script, workers=1000)

    @pytest.mark.parametrize("workers", [1, 8])
    def test_a_run_does_not_depend_on_the_number_of_workers(self, tmp_path: Path, workers: int) -> None:
        from evolve.executors.ray_executor import RayExecutor

        reference = run(config(), root=tmp_path / "reference", executor=shuffled())
        result = run(config(), root=tmp_path, executor=RayExecutor(SlowSimulation(0.02), workers=workers))
        assert essence(stored(result.folder)) == essence(stored(reference.folder))


def sleepers(argument: str) -> list[int]:
    """Process ids of running ``sleep ARGUMENT`` commands."""
    return [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", argument]]


def wait_for(condition: Callable[[], object], deadline_s: float = 30.0) -> None:
    """Return when the condition holds; fail after the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)
