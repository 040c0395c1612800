"""Steps that wait for answers from outside: several open at once, answered in any order, whenever; the run is the same."""

import itertools
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from evaluator.simulated import SimulatedEvaluator
from evolve.answering import show_prompt, take_prompt, why_none
from evolve.api import resume, run
from evolve.desks import ThreadDesk
from evolve.executors.base import Done
from evolve.parts import Parts
from evolve.stopping import StopReason
from mutators.answerers.base import Prompt
from mutators.question import Answer, Layer
from population.candidate import Origin, hash_text
from results.events import RunNoted, StepAsked, StepFolded, StepPosed
from results.folder import request_stop
from results.mailbox import Asked, Mailbox
from results.reader import Reader
from tests.evolve.answering import Among, Outside, answered_by, mailbox_config, scripted
from tests.evolve.simulation import SEEDS, ShuffledExecutor, card, essence, shuffled, stored

LOOKAHEAD = {"lookahead": 4}


def among(folder: Path, seed: int, workers: int = 4) -> Among:
    executor = Among(SimulatedEvaluator(card(), 5), workers, seed)
    executor.outside = Outside(folder, seed)
    return executor


def driven(root: Path, monkeypatch: pytest.MonkeyPatch, outside: Outside, seed: int = 0, workers: int = 4) -> Path:
    """A whole run, answered by ``outside``."""
    answered_by(monkeypatch, outside)
    result = run(mailbox_config(executor=LOOKAHEAD), root=root, executor=among(root / "sim", seed, workers))
    assert result.stopped_by is StopReason.CANDIDATES
    return result.folder


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[str], dict[int, str]]:
    """What a run amounts to that is answered in the order of asking."""
    root = tmp_path_factory.mktemp("reference")
    with pytest.MonkeyPatch.context() as patch:
        answered_by(patch, Outside(root / "sim", in_order=True))
        return essence(stored(run(mailbox_config(executor=LOOKAHEAD), root=root, executor=shuffled(1)).folder))


def test_the_order_of_answers_changes_nothing(reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out_of_order = 0
    for seed, workers in enumerate([1, 2, 8, 8]):
        root = tmp_path / str(seed)
        outside = Outside(root / "sim", seed)
        folder = driven(root, monkeypatch, outside, seed, workers)
        assert essence(stored(folder)) == reference
        out_of_order += outside.answered != sorted(outside.answered)
    assert out_of_order


def test_steps_are_posed_ahead_and_see_what_they_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folded, posed, most, open_steps = -1, 0, 0, set()
    for event in stored(driven(tmp_path, monkeypatch, Outside(tmp_path / "sim", 3))):
        if isinstance(event, StepPosed):
            posed = event.step.number
            open_steps.add(posed)
            assert folded == max(posed - LOOKAHEAD["lookahead"], len(SEEDS) - 1)
        if isinstance(event, StepAsked) and event.step.origin is not Origin.SEED:
            assert event.step.number == min(open_steps), "answers are taken in in the order of asking"
            open_steps.remove(event.step.number)
        if isinstance(event, StepFolded):
            folded = event.step_number
        most = max(most, len(open_steps))
    assert most == LOOKAHEAD["lookahead"]
    assert not open_steps, "every prompt was answered, since the budget paid for each"


def test_in_sessions_days_apart_the_run_is_the_same(reference, tmp_path: Path) -> None:
    outside = Outside(tmp_path / "sim", 7)
    result = run(mailbox_config(executor=LOOKAHEAD), root=tmp_path, executor=shuffled(), until_idle=True)
    sessions = 0
    while result.stopped_by is StopReason.WAITING:
        with Reader.open(result.folder) as reader:
            assert 0 < reader.info().open_steps <= LOOKAHEAD["lookahead"]
            assert reader.info().stopped_by == "waiting"
        outside()
        result = resume(result.folder, executor=shuffled(seed=sessions), until_idle=True)
        sessions += 1
    assert sessions > 5
    assert result.stopped_by is StopReason.CANDIDATES
    assert essence(stored(result.folder)) == reference


def test_the_budget_is_exact_though_prompts_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for candidates in (3, 5, 9):
        root = tmp_path / str(candidates)
        answered_by(monkeypatch, Outside(root / "sim", candidates))
        config = mailbox_config(executor={"lookahead": 6}, budget={"candidates": candidates})
        result = run(config, root=root, executor=among(root / "sim", candidates))
        assert result.candidates == candidates
        with Reader.open(result.folder) as reader:
            assert reader.open_steps() == ()


class Threaded:
    """The scripted answers from threads, each after a while of its own, the first two together; how many were at work at once.
    A second turn fails.
    """

    name = "script"

    def __init__(self, fail_at: int | None = None) -> None:
        self.most, self.closed, self._now, self._lock = 0, False, 0, threading.Lock()
        self.calls = itertools.count()
        self._both = threading.Barrier(2)
        self.fail_at = fail_at

    def answer(self, prompt: Prompt, rng: np.random.Generator) -> Answer:
        if "## Your first answer" in prompt.text:
            raise ConnectionError("the server doesn't take a longer prompt")
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            call = next(self.calls)
        if call < 2:
            self._both.wait(60)
        time.sleep(0.002 * (int(hash_text(prompt.text)[:2], 16) % 5))
        with self._lock:
            self._now -= 1
        if call == self.fail_at:
            raise ConnectionError("the server hung up")
        return scripted(prompt.text, prompt.parent, prompt.question)

    def close(self) -> None:
        self.closed = True


def test_answers_from_threads_give_the_same_run(reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answerer = Threaded()
    monkeypatch.setattr(Parts, "desk", lambda parts, mailbox, *_: ThreadDesk(answerer, mailbox, 3))
    result = run(mailbox_config(executor=LOOKAHEAD), root=tmp_path, executor=shuffled())
    assert essence(stored(result.folder)) == reference
    assert 1 < answerer.most <= 3
    assert answerer.closed
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("answerer")]


def test_an_answerer_that_fails_in_its_thread_pauses_the_run_and_keeps_what_others_said(
    reference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answerer = Threaded(fail_at=2)
    monkeypatch.setattr(Parts, "desk", lambda parts, mailbox, *_: ThreadDesk(answerer, mailbox, 2))
    result = run(mailbox_config(executor=LOOKAHEAD), root=tmp_path, executor=shuffled())
    assert result.stopped_by is StopReason.ANSWERER
    notes = [event.text for event in stored(result.folder) if isinstance(event, RunNoted)]
    assert any("the answerer script failed at step" in note and "the server hung up" in note for note in notes)
    made = next(answerer.calls) - 1
    assert len(Mailbox(result.folder).answered()) == made, "every answer that was made is kept, but for the failed one"
    again = resume(result.folder, executor=shuffled())
    assert again.stopped_by is StopReason.CANDIDATES
    assert essence(stored(result.folder)) == reference
    posed = sum(isinstance(event, StepPosed) for event in stored(result.folder))
    assert next(answerer.calls) - 2 == posed, "no prompt was answered twice, but for the failed one"


def test_a_run_that_waits_stops_when_it_is_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered_by(monkeypatch, lambda timeout_s: request_stop(tmp_path / "sim"))  # type: ignore[arg-type]
    result = run(mailbox_config(), root=tmp_path, executor=shuffled())
    assert result.stopped_by is StopReason.REQUESTED
    with Reader.open(result.folder) as reader:
        assert reader.info().open_steps == 3


def asked(text: str, **changes: object) -> Asked:
    values = {"text": text, "layer": Layer.MEMORY, "message": False, "parent_id": None, "person": "ann", **changes}
    return Asked(**values)  # type: ignore[arg-type]


def test_what_people_ask_is_put_next_and_once_and_recorded_as_theirs(tmp_path: Path) -> None:
    first = run(mailbox_config(), root=tmp_path, executor=shuffled(), until_idle=True)
    seed_id = next(event.step.candidate_id for event in stored(first.folder) if isinstance(event, StepAsked))
    box, outside = Mailbox(first.folder), Outside(first.folder, in_order=True)
    box.ask(asked("What would be left if loads were free?", parent_id=seed_id))
    box.ask(asked("The machine has two memory channels.", message=True))
    box.ask(asked("What would be left if loads were free?", parent_id=seed_id))
    box.ask(asked("And this of a kernel nobody has?", parent_id="f" * 64))
    result = first
    while result.stopped_by is StopReason.WAITING:
        outside()
        result = resume(result.folder, executor=shuffled(), until_idle=True)
    posed = [event for event in stored(first.folder) if isinstance(event, StepPosed)]
    human = [event for event in posed if event.step.origin is Origin.HUMAN]
    assert [event.question.entry_id for event in human] == ["human", "human"]
    assert [event.step.number for event in human] == [5, 6], "the first three steps were open already"
    assert [event.step.parent_id for event in human] == [seed_id, seed_id]
    with Reader.open(first.folder) as reader:
        assert "What would be left if loads were free?" in reader.prompt(5).rpartition("## Question")[2]
        assert {row.key: row.asked for row in reader.questions()}["human"] == 2


def test_what_people_only_tell_goes_along_with_a_question_and_costs_no_step(tmp_path: Path) -> None:
    """A run that was told something asks the same questions in as many steps; the message is in one prompt, and has a record."""
    heard, text = {}, "The machine has two memory channels."
    for told in (False, True):
        result = run(mailbox_config(), root=tmp_path / str(told), executor=shuffled(), until_idle=True)
        for _ in range(2 * told):
            Mailbox(result.folder).ask(asked(text, message=True))
        Mailbox(result.folder).ask(asked("Which of them is busy?", message=False))
        outside = Outside(result.folder, in_order=True)
        for _ in range(3):
            outside()
            result = resume(result.folder, executor=shuffled(), until_idle=True)
        heard[told] = [event for event in stored(result.folder) if isinstance(event, StepPosed)]
    assert [event.question.told for event in heard[True]] == [(), (), (), (text, text), (), ()]
    assert [event.question.text for event in heard[True]][3] == "Which of them is busy?"
    assert [event.question.id for event in heard[True]][:5] == [event.question.id for event in heard[False]][:5]
    with Reader.open(tmp_path / "True" / "sim") as reader:
        before, _, question = reader.prompt(5).rpartition("## Question")
        assert text in before
        assert text not in question
        assert text not in reader.prompt(6)


def test_what_is_told_about_a_kernel_has_the_next_question_put_to_it(tmp_path: Path) -> None:
    first = run(mailbox_config(), root=tmp_path, executor=shuffled(), until_idle=True)
    seeds = [event.step.candidate_id for event in stored(first.folder) if isinstance(event, StepAsked)]
    outside = Outside(first.folder, in_order=True)
    for seed_id in seeds:
        Mailbox(first.folder).ask(asked(f"This is {seed_id}.", message=True, parent_id=seed_id))
    for _ in seeds:
        outside()
        resume(first.folder, executor=shuffled(), until_idle=True)
    posed = [event for event in stored(first.folder) if isinstance(event, StepPosed)][3:]
    assert [(event.step.parent_id, event.question.told) for event in posed] == [(one, (f"This is {one}.",)) for one in seeds]
    assert {event.step.origin for event in posed} == {Origin.QUESTION}


class Clock:
    """Seconds that pass when somebody lets them."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_waiting_for_a_person_spends_no_hours_and_evaluating_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, outside = Clock(), Outside(tmp_path / "sim", 3)
    monkeypatch.setattr("evolve.api.time", clock)

    def a_day_later(timeout_s: float) -> None:
        clock.now += 86_400
        outside()

    class AnHourEach(ShuffledExecutor):
        def collect(self, timeout_s: float) -> Sequence[Done]:
            done = super().collect(timeout_s)
            clock.now += 3600 * len(done)
            return done

    def hourly() -> AnHourEach:
        return AnHourEach(SimulatedEvaluator(card(), 5), 1, 0)

    answered_by(monkeypatch, a_day_later)  # type: ignore[arg-type]
    patient = run(mailbox_config(budget={"candidates": 9, "hours": 20.0}), root=tmp_path, executor=hourly())
    assert patient.stopped_by is StopReason.CANDIDATES
    assert patient.spent["hours"] == pytest.approx(10.0), "nine evaluations and a final"
    busy = run(mailbox_config(run={"name": "busy"}, budget={"hours": 1.5}), root=tmp_path, executor=hourly(), until_idle=True)
    assert busy.stopped_by is StopReason.HOURS


def test_nobody_is_handed_a_prompt_of_a_run_that_is_over_or_about_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, folder = Clock(), tmp_path / "sim"
    monkeypatch.setattr("evolve.api.time", clock)
    handed: list[tuple[object, str]] = []

    class Long(ShuffledExecutor):
        """Evaluating the first answer takes two hours; during the final somebody asks for a prompt."""

        def collect(self, timeout_s: float) -> Sequence[Done]:
            done = super().collect(timeout_s)
            clock.now += 7200 * sum(one.number >= len(SEEDS) for one in done)
            handed.extend((take_prompt(folder, "ann"), why_none(folder)) for one in done if one.number < 0)
            return done

    answered_by(monkeypatch, Outside(folder, 1, in_order=True))
    executor = Long(SimulatedEvaluator(card(), 5), 1, 0)
    result = run(mailbox_config(budget={"hours": 1.0}), root=tmp_path, executor=executor)
    assert result.stopped_by is StopReason.HOURS
    assert [prompt for prompt, _ in handed] == [None]
    assert "about to end (hours)" in handed[0][1]
    with Reader.open(folder) as reader:
        still_open = [one.step.number for one in reader.open_steps()]
    assert still_open
    assert take_prompt(folder, "ann") is None
    assert "the run is over (hours)" in why_none(folder)
    assert "--set budget.hours=N" in why_none(folder)
    assert show_prompt(folder, still_open[0]).step == still_open[0], "looking is free"
    resume(folder, ["budget.hours=9.0"], executor=shuffled(), until_idle=True)
    assert take_prompt(folder, "ann") is not None
