"""A run whose questions are asked on one machine and whose evaluations are made on another, in copies of its folder."""

import shutil
from pathlib import Path

import pytest

from evolve.api import RunResult, resume, run
from evolve.stopping import StopReason
from results.events import Event, FinalMeasured, RunNoted, RunStopped, StepAsked, StepEvaluated
from results.folder import request_stop
from results.reader import Reader
from tests.evolve.answering import Outside, answered_by, mailbox_config
from tests.evolve.simulation import SEEDS, config, essence, shuffled, stored


def carried(result: RunResult, to: Path) -> Path:
    """The run's folder, moved to another machine: nothing stays behind."""
    shutil.copytree(result.folder, to)
    shutil.rmtree(result.folder)
    return to


def home(folder: Path) -> RunResult:
    """Ask as far as one can without evaluating."""
    return resume(folder, evaluate=False)


def test_a_run_is_started_here_evaluated_there_and_goes_on_here_without_loss(tmp_path: Path) -> None:
    whole = run(config(), root=tmp_path / "whole", executor=shuffled())
    here = run(config(), root=tmp_path / "here", evaluate=False)
    assert here.stopped_by is StopReason.EVALUATION
    assert [type(event) for event in stored(here.folder)].count(StepAsked) == len(SEEDS)
    there = resume(carried(here, tmp_path / "there"), executor=shuffled(seed=1))
    assert there.stopped_by is StopReason.CANDIDATES
    assert essence(stored(there.folder)) == essence(stored(whole.folder))
    back = resume(carried(there, tmp_path / "back"), ["budget.candidates=32"], executor=shuffled(seed=2))
    longer = resume(whole.folder, ["budget.candidates=32"], executor=shuffled(seed=3))
    assert back.candidates == longer.candidates == 32
    assert essence(stored(back.folder)) == essence(stored(longer.folder))


def test_prompts_answered_here_and_evaluated_there_in_turns_give_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        answered_by(patch, Outside(tmp_path / "whole" / "sim", in_order=True))
        whole = run(mailbox_config(), root=tmp_path / "whole", executor=shuffled())
    result = run(mailbox_config(), root=tmp_path / "here", evaluate=False, until_idle=True)
    reasons = []
    for trip in range(100):
        there = resume(carried(result, tmp_path / f"there {trip}"), executor=shuffled(seed=trip), until_idle=True)
        if there.stopped_by is not StopReason.WAITING:
            break
        here = carried(there, tmp_path / f"here {trip}")
        Outside(here, trip)()
        result = resume(here, evaluate=False, until_idle=True)
        reasons.append(result.stopped_by)
    assert there.stopped_by is StopReason.CANDIDATES
    assert essence(stored(there.folder)) == essence(stored(whole.folder))
    assert StopReason.EVALUATION in reasons
    assert len(reasons) > 3
    evaluations = [event for event in stored(there.folder) if isinstance(event, StepEvaluated)]
    assert len(evaluations) == whole.candidates


def test_a_machine_that_waits_for_answers_has_evaluated_everything_that_was_answered(tmp_path: Path) -> None:
    first = run(mailbox_config(executor={"lookahead": 6}), root=tmp_path, executor=shuffled(), until_idle=True)
    outside = Outside(first.folder, in_order=True)
    for _ in range(4):
        outside()
    asked = resume(first.folder, evaluate=False, until_idle=True)
    assert len(waiting(asked.folder)) > 1
    there = resume(asked.folder, executor=shuffled(workers=1), until_idle=True)
    assert there.stopped_by is StopReason.WAITING
    assert waiting(there.folder) == set()


def test_without_evaluation_no_final_is_begun_and_the_run_is_not_over(tmp_path: Path) -> None:
    known = run(config(budget={"candidates": 6}), root=tmp_path, executor=shuffled())
    more = resume(known.folder, ["budget.candidates=8"], evaluate=False)
    assert more.stopped_by is StopReason.EVALUATION
    finals = [event for event in stored(known.folder) if isinstance(event, FinalMeasured)]
    assert len(finals) == 1
    assert stored(known.folder)[-1] == RunStopped(reason=StopReason.EVALUATION)
    done = resume(known.folder, executor=shuffled())
    assert done.stopped_by is StopReason.CANDIDATES
    assert done.best is not None
    assert done.best.verified


def test_a_final_that_is_due_waits_for_a_machine_that_evaluates(tmp_path: Path) -> None:
    goal = config(goal={"expression": "geomean(peer) >= 0.5"})
    whole = run(goal, root=tmp_path / "whole", executor=shuffled())
    assert whole.stopped_by is StopReason.GOAL

    def stop_after_the_seeds(event: Event) -> None:
        if isinstance(event, StepEvaluated) and not waiting(tmp_path / "here" / "sim"):
            request_stop(tmp_path / "here" / "sim")

    started = run(goal, root=tmp_path / "here", executor=shuffled(), observers=[stop_after_the_seeds])
    assert started.stopped_by is StopReason.REQUESTED
    due = home(started.folder)
    assert due.stopped_by is StopReason.EVALUATION
    assert not any(isinstance(event, FinalMeasured | RunNoted) for event in stored(due.folder))
    done = resume(due.folder, executor=shuffled())
    assert done.stopped_by is StopReason.GOAL
    assert essence(stored(done.folder)) == essence(stored(whole.folder))


def waiting(folder: Path) -> set[int]:
    """Steps of a run with a candidate that has no outcome, also while a driver works on it."""
    with Reader.open(folder) as reader:
        return {step.number for step in reader.steps() if step.candidate_id and not step.duplicate_of and not step.verdict}
