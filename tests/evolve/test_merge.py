"""What was measured elsewhere comes home: as the run's own where it is, beside it where it isn't, or not at all."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.outcome import Effort, Verdict
from evolve.api import RunResult, resume, run, stored_config
from evolve.merge import merge
from evolve.merge_plan import How
from evolve.stopping import StopReason
from mutators.question import Answer, Layer
from population.candidate import Candidate
from population.novelty import candidate_of
from results.errors import RunInUse
from results.events import FinalMeasured, OutcomeMerged, RunNoted, StepAsked, StepEvaluated, StepMerged
from results.mailbox import Asked, Mailbox
from results.reader import Reader
from results.store import Store
from tests.evolve.answering import Outside, answered_by, mailbox_config
from tests.evolve.merging import CHEAT, H200, came, copied, document, judged, new_source, on, own, seeds_of
from tests.evolve.simulation import config, essence, stored

A100 = replace(H200, name="NVIDIA A100", arch="sm_80", cores=108)


pytestmark = pytest.mark.usefixtures("tiny_task_read_once")


@pytest.fixture
def tmp_path(quick_folder: Path) -> Path:
    return quick_folder


@pytest.fixture
def measured(tmp_path: Path) -> RunResult:
    """A run that has outcomes, a best and its final, all on one device."""
    return run(config(budget={"candidates": 8}), root=tmp_path / "home", executor=on(A100))


def foreign(folder: Path, number: int = 0) -> Candidate:
    seed = seeds_of(folder)[0]
    return candidate_of(new_source(seed, number), seed.language)


def beside(folder: Path) -> list[OutcomeMerged]:
    return [event for event in stored(folder) if isinstance(event, OutcomeMerged)]


def test_a_run_goes_on_with_what_its_copy_did_elsewhere_and_stays_the_run_of_one_machine(
    begun: RunResult, tmp_path: Path
) -> None:
    whole = run(config(budget={"candidates": 12}), root=tmp_path / "whole", executor=on(seed=1))
    there = resume(copied(begun.folder, tmp_path / "there"), executor=on())
    before = stored(begun.folder)
    (told,) = came(begun.folder, there.folder, dry_run=True)
    assert stored(begun.folder) == before
    (done,) = came(begun.folder, there.folder)
    assert told.outcomes == done.outcomes
    assert (done.how, len(done.outcomes)) == (How.GOES_ON, 13)
    assert stored(begun.folder)[: len(before)] == before
    assert essence(stored(begun.folder)) == essence(stored(whole.folder))
    again = stored(begun.folder)
    assert came(begun.folder, there.folder)[0].how is How.NOTHING
    assert stored(begun.folder) == again
    longer = [resume(folder, ["budget.candidates=16"], executor=on(seed=2)) for folder in (begun.folder, whole.folder)]
    assert essence(stored(begun.folder)) == essence(stored(whole.folder))
    assert longer[0].best == longer[1].best


def test_prompts_are_answered_at_home_while_the_gpu_evaluates_round_after_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = mailbox_config(budget={"candidates": 10}, executor={"lookahead": 4})
    with monkeypatch.context() as patch:
        answered_by(patch, Outside(tmp_path / "whole" / "sim", in_order=True))
        whole = run(wanted, root=tmp_path / "whole", executor=on())
    home = run(wanted, root=tmp_path / "home", evaluate=False, until_idle=True).folder
    overtaken, in_a_round = 0, []
    for trip in range(100):
        copy = copied(home, tmp_path / f"there {trip}")
        answer = Outside(home, trip)
        answer()
        if answer.answered:
            resume(home, evaluate=False, until_idle=True)
            overtaken += 1
        there = resume(copy, executor=on(seed=trip), until_idle=True)
        (done,) = came(home, copy)
        in_a_round.append(len(done.outcomes))
        if there.stopped_by is StopReason.CANDIDATES:
            break
    assert essence(stored(home)) == essence(stored(whole.folder))
    assert overtaken > 2, "home must have gone on while its copy was away"
    assert max(in_a_round) > 1
    assert not beside(home)


def test_a_run_goes_on_on_its_own_kind_of_device_only(measured: RunResult) -> None:
    before = stored(measured.folder)
    done = resume(measured.folder, ["budget.candidates=14"], executor=on(H200))
    added = stored(measured.folder)[len(before) :]
    assert done.stopped_by is StopReason.ENVIRONMENT
    assert not [event for event in added if isinstance(event, StepEvaluated | FinalMeasured)]
    assert any("measured on NVIDIA A100" in event.text for event in added if isinstance(event, RunNoted))
    assert resume(measured.folder, executor=on(A100)).stopped_by is StopReason.CANDIDATES


def test_outcomes_of_another_device_stand_beside_and_change_nothing_of_the_search(
    measured: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evolve.loop.measured_alike", lambda yardstick, outcome: yardstick)  # as logs of earlier versions are
    alone = copied(measured.folder, tmp_path / "alone")
    asked = len([event for event in stored(measured.folder) if isinstance(event, StepAsked)])
    there = resume(copied(measured.folder, tmp_path / "there"), ["budget.candidates=14"], executor=on(H200))
    (done,) = came(measured.folder, there.folder)
    assert done.how is How.BESIDE
    assert {place for place, _ in done.outcomes} == {"beside"}
    assert all(not event.comparable and event.outcome.device == H200 for event in beside(measured.folder))
    steps = [event for event in stored(measured.folder) if isinstance(event, StepMerged)]
    assert [event.asked.step.number for event in steps] == list(range(asked, asked + len(steps)))
    assert all(event.asked.question and event.asked.answer for event in steps)
    assert came(measured.folder, there.folder)[0].how is How.NOTHING
    both = [resume(folder, ["budget.candidates=12"], executor=on(A100)) for folder in (measured.folder, alone)]
    assert essence(own(stored(measured.folder))) == essence(own(stored(alone)))
    assert both[0].best == both[1].best
    assert both[0].spent["candidates"] == 12
    with Reader.open(measured.folder) as reader:
        twice = [row.id for row in reader.candidates() if row.verdict and reader.elsewhere(row.id)]
        assert twice, "the search found the same candidates on both devices"
        outcome = reader.outcome(twice[0])
        assert outcome is not None
        assert (outcome.device.name, reader.elsewhere(twice[0])[0].outcome.device.name) == ("NVIDIA A100", "NVIDIA H200")
        assert reader.row(twice[0]).geomean == outcome.fitness.geomean if outcome.fitness else True
        only = steps[-1].candidate
        assert only is None or reader.candidate(only.id).source == only.source


def test_a_waiting_step_takes_the_outcome_that_its_copy_has_though_both_went_their_own_way(tmp_path: Path) -> None:
    wanted = mailbox_config(executor={"lookahead": 4})
    home = run(wanted, root=tmp_path, executor=on(A100), until_idle=True).folder
    for _ in range(3):
        Outside(home, in_order=True)()
    resume(home, evaluate=False, until_idle=True)
    copy = copied(home, tmp_path / "there")
    with Reader.open(home) as reader:
        waiting = {row.number for row in reader.steps() if row.candidate_id and not row.verdict and not row.duplicate_of}
    assert waiting
    resume(copy, executor=on(A100), until_idle=True)
    final = judged(seeds_of(home)[0], A100, Effort.FINAL)
    with Store.open(home) as store:  # something at home that the copy knows nothing of
        store.append(FinalMeasured(outcome=final))
    (done,) = came(home, copy)
    assert done.how is How.BESIDE
    assert {place for place, _ in done.outcomes} == {f"step {number}" for number in waiting}
    assert came(home, copy)[0].how is How.NOTHING
    assert resume(home, executor=on(A100), until_idle=True).stopped_by is StopReason.WAITING


def test_files_of_evaluations_settle_what_waits_and_bring_new_candidates_beside(begun: RunResult, tmp_path: Path) -> None:
    one, two = seeds_of(begun.folder)
    new = foreign(begun.folder)
    place = document(tmp_path / "gpu.json", (one, judged(one)), (two, judged(two)), (new, judged(new)))
    (done,) = came(begun.folder, place)
    assert [where for where, _ in done.outcomes] == ["step 0", "step 1", "beside"]
    assert came(begun.folder, place)[0].how is How.NOTHING
    assert beside(begun.folder)[0].comparable, "measured on the device that is the run's own by now"
    with Reader.open(begun.folder) as reader:
        row = reader.row(new.id)
        assert (row.step_number, row.island, row.verdict, row.origin) == (None, None, None, "merged")
        assert reader.candidate(new.id) == new
        assert new.id not in {row.id for row in reader.candidates()}
        assert (reader.info().candidates, reader.info().elsewhere) == (2, 1)
    result = resume(begun.folder, executor=on(H200))
    assert result.best is not None
    assert result.best.id != new.id, "only a final would make it the best"


def test_a_file_never_settles_a_step_on_another_device_or_with_a_word_that_says_nothing(
    measured: RunResult, tmp_path: Path
) -> None:
    resume(measured.folder, ["budget.candidates=13"], evaluate=False)
    with Reader.open(measured.folder) as reader:
        waiting = [reader.candidate(row.id) for row in reader.candidates() if row.verdict is None]
    assert len(waiting) > 1
    slow = replace(judged(waiting[0], A100), verdict=Verdict.SLOWER, fitness=None)
    other = judged(waiting[1], A100)
    assert other.fitness is not None
    opponent = replace(other, fitness=replace(other.fitness, opponent="somebody"))
    place = document(
        tmp_path / "gpu.json", (waiting[0], judged(waiting[0])), (waiting[0], slow), (waiting[1], opponent), (waiting[1], other)
    )
    (done,) = came(measured.folder, place)
    assert [where for where, _ in done.outcomes][:3] == ["beside"] * 3
    assert done.outcomes[3][0].startswith("step ")


def test_a_merged_result_becomes_best_by_a_final_alone_and_by_that_of_another_device_only_where_the_own_has_none(
    begun: RunResult, tmp_path: Path
) -> None:
    one, two = seeds_of(begun.folder)
    new = foreign(begun.folder)
    fast = judged(new, H200, Effort.FINAL)
    assert fast.fitness is not None
    fast = replace(fast, fitness=replace(fast.fitness, low=9.0, geomean=9.5, high=9.9))
    came(begun.folder, document(tmp_path / "a.json", (one, judged(one, A100)), (two, judged(two, A100))))
    resume(begun.folder, evaluate=False)
    came(begun.folder, document(tmp_path / "b.json", (new, judged(new))))
    assert (verified(begun.folder), headline(begun.folder) == new.id) == (None, False)
    came(begun.folder, document(tmp_path / "c.json", (new, fast)))
    assert verified(begun.folder) == headline(begun.folder) == new.id
    own_final = judged(two, A100, Effort.FINAL)
    (done,) = came(begun.folder, document(tmp_path / "d.json", (two, own_final)))
    assert done.outcomes[0][0] == "final"
    assert verified(begun.folder) == headline(begun.folder) == two.id, "figures of two devices aren't held against each other"
    came(begun.folder, document(tmp_path / "e.json", (new, replace(fast, device=A100))))
    assert verified(begun.folder) == headline(begun.folder) == new.id, "a final on the run's own device compares"


def verified(folder: Path) -> str | None:
    """The run's verified best as its driver sees it."""
    result = resume(folder, evaluate=False)
    return result.best.id if result.best and result.best.verified else None


def headline(folder: Path) -> str | None:
    with Reader.open(folder) as reader:
        best = reader.headline()
    return best.id if best else None


@pytest.mark.parametrize("effort", list(Effort))
def test_a_cheat_that_was_caught_elsewhere_is_quarantined_at_home(measured: RunResult, tmp_path: Path, effort: Effort) -> None:
    assert measured.best is not None
    with Reader.open(measured.folder) as reader:
        best = reader.candidate(measured.best.id)
    caught = replace(judged(best, H200, effort), verdict=Verdict.TOO_FAST, fault=CHEAT, fitness=None, timings=())
    came(measured.folder, document(tmp_path / "cheat.json", (best, caught)))
    result = resume(measured.folder, ["budget.candidates=12"], executor=on(A100))
    assert result.best is not None
    assert best.id not in {result.best.id, headline(measured.folder)}


def test_a_mistake_on_another_device_refutes_nothing_at_home(measured: RunResult, tmp_path: Path) -> None:
    assert measured.best is not None
    with Reader.open(measured.folder) as reader:
        best = reader.candidate(measured.best.id)
    wrong = replace(judged(best, H200, Effort.FINAL), verdict=Verdict.WRONG, fitness=None)
    came(measured.folder, document(tmp_path / "wrong.json", (best, wrong)))
    assert headline(measured.folder) == best.id
    came(measured.folder, document(tmp_path / "here.json", (best, replace(wrong, device=A100))))
    assert headline(measured.folder) != best.id


def test_another_run_of_the_same_task_stands_beside_with_its_questions(measured: RunResult, tmp_path: Path) -> None:
    other = run(config(run={"name": "other", "seed": 9}, budget={"candidates": 8}), root=tmp_path, executor=on(A100, run_seed=9))
    (done,) = came(measured.folder, other.folder)
    assert done.how is How.BESIDE
    assert done.name == "other"
    assert all(event.comparable for event in beside(measured.folder))
    with Reader.open(measured.folder) as reader:
        made = [reader.made_by(event.candidate.id) for event in beside(measured.folder)]
    assert any(asked is not None and asked.question is not None for asked in made)
    events = stored(measured.folder)
    assert came(measured.folder, other.folder)[0].how is How.NOTHING
    assert stored(measured.folder) == events
    assert came(tmp_path / "other", measured.folder)[0].how is How.BESIDE, "and the other way round"


def test_a_run_on_which_a_driver_works_is_refused_with_what_to_do(begun: RunResult, tmp_path: Path) -> None:
    there = copied(begun.folder, tmp_path / "there")
    resume(there, ["budget.candidates=4"], executor=on())
    with Store.open(begun.folder):
        with pytest.raises(RunInUse, match="askevolve stop"):
            merge(begun.folder, [str(there)])
        assert came(begun.folder, there, dry_run=True)[0].how is How.GOES_ON
    with Store.open(there):  # the other's driver disturbs nobody: what is stored by now comes
        assert came(begun.folder, there)[0].how is How.GOES_ON


def test_a_copy_whose_tail_is_half_written_gives_what_is_whole(begun: RunResult, tmp_path: Path) -> None:
    there, torn = copied(begun.folder, tmp_path / "there"), tmp_path / "torn"
    with Store.open(there) as store:
        for number, seed in enumerate(seeds_of(begun.folder)):
            store.append(StepEvaluated(step_number=number, outcome=judged(seed)))
        torn.mkdir()
        shutil.copyfile(there / "run.db", torn / "run.db")
        log = (there / "run.db-wal").read_bytes()
        (torn / "run.db-wal").write_bytes(log[: len(log) - 100])
    assert [where for where, _ in came(begun.folder, torn)[0].outcomes] == ["step 0"]
    assert [where for where, _ in came(begun.folder, there)[0].outcomes] == ["step 1"]


def test_answers_and_questions_of_people_travel_too(tmp_path: Path) -> None:
    home = run(mailbox_config(), root=tmp_path, executor=on(), until_idle=True).folder
    copy = copied(home, tmp_path / "there")
    with Reader.open(home) as reader:
        first, second = (posed.step.number for posed in reader.open_steps()[:2])
    Mailbox(home).put(second, Answer(text="from home", answerer="home"))
    for number in (first, second):
        Mailbox(copy).put(number, Answer(text="from there", answerer="there"))
    question = Asked(text="Is it the cache?", layer=Layer.MEASUREMENT, message=False, parent_id=None, person="Ada")
    Mailbox(home).ask(question)
    for _ in range(2):
        Mailbox(copy).ask(question)
    assert came(home, copy, dry_run=True)[0].answers == 2
    assert Mailbox(home).answered() == {second}
    assert came(home, copy)[0].answers == 2
    assert [Mailbox(home).answer(number).text for number in (first, second)] == ["from there", "from home"]  # type: ignore[union-attr]
    assert Mailbox(home).asked() == (question, question)
    assert came(home, copy)[0].answers == 0


def test_a_configuration_that_was_changed_at_home_meanwhile_stays(begun: RunResult, tmp_path: Path) -> None:
    copy = copied(begun.folder, tmp_path / "there")
    resume(copy, ["budget.candidates=4", "executor.lookahead=2"], executor=on())
    resume(begun.folder, ["budget.candidates=9"], evaluate=False)
    (done,) = came(begun.folder, copy)
    assert done.how is How.GOES_ON
    assert stored_config(stored(begun.folder))[0].budget.candidates == 9


def test_two_copies_that_are_merged_into_each_other_come_to_rest(begun: RunResult, tmp_path: Path) -> None:
    there = resume(copied(begun.folder, tmp_path / "there"), ["budget.candidates=4"], executor=on()).folder
    assert came(begun.folder, there)[0].how is How.GOES_ON
    assert [came(one, other)[0].how for one, other in ((there, begun.folder), (begun.folder, there))] == [How.NOTHING] * 2


def test_another_driver_is_no_other_device(begun: RunResult, tmp_path: Path) -> None:
    there = resume(copied(begun.folder, tmp_path / "there"), ["budget.candidates=4"], executor=on())
    newer = replace(H200, versions={"driver": "590.1"})
    came(begun.folder, there.folder)
    further = resume(copied(begun.folder, tmp_path / "further"), ["budget.candidates=6"], executor=on(newer))
    assert came(begun.folder, further.folder)[0].how is How.GOES_ON
