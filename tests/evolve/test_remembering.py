"""A run learns from the runs beside it, by a snapshot in its own log."""

from pathlib import Path

import pytest

from evolve.api import run
from evolve.config import RunConfig
from evolve.remembering import keep, noted_earlier
from evolve.rules import Rules
from evolve.state import RECORDS_FACT, State
from mutators.question import Layer
from mutators.record_file import FILE_NAME, Asked, RunRecords, recall, remember
from mutators.records import Record, records_of
from results.events import RunNoted
from tests.evolve.simulation import card, config, stored
from tests.mutators.factories import attempt, change, question

EARLIER = RunRecords(
    name="earlier",
    task="attention_forward",
    backend="cpu",
    asked=(Asked(key="free-loads", layer=Layer.MEMORY, record=Record(asked=4, paid=2, accepted=2, gain=0.2, best=0.15)),),
)


def on(backend: str) -> RunConfig:
    return config(task={"backend": backend})


def state() -> State:
    return State(card(), Rules(islands=2, capacity=6))


def test_a_new_run_notes_what_earlier_ones_gave(tmp_path: Path) -> None:
    assert noted_earlier(tmp_path, on("cpu")) == ()
    assert remember(tmp_path / FILE_NAME, EARLIER) is None
    (note,) = noted_earlier(tmp_path, on("cpu"))
    assert "4 questions in 1 earlier runs" in note.text
    live = state()
    live.apply(note)
    assert live.prior == recall(tmp_path / FILE_NAME).records("cpu")
    assert live.prior.entries["free-loads"].paid == 2


def test_other_backends_and_made_up_gains_do_not_count(tmp_path: Path) -> None:
    assert remember(tmp_path / FILE_NAME, EARLIER) is None
    assert noted_earlier(tmp_path, on("cuda")) == ()
    assert noted_earlier(tmp_path, on("simulated")) == ()
    live = state()
    live.records = records_of([attempt(0, accepted=True, change=change(1.1))])
    assert keep(tmp_path, on("simulated"), live) is None
    assert [one.name for one in recall(tmp_path / FILE_NAME).runs] == ["earlier"]


def test_a_broken_file_is_noted_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{")
    (note,) = noted_earlier(tmp_path, on("cpu"))
    assert FILE_NAME in note.text
    assert RECORDS_FACT not in note.facts
    live = state()
    live.apply(note)
    live.asked = [_asked(0, question())]
    live.records = records_of([attempt(0)])
    assert "aren't in it" in str(keep(tmp_path, on("cpu"), live))


def test_what_a_run_asked_is_kept_with_the_texts_of_people(tmp_path: Path) -> None:
    person = question("human", Layer.PLAN, text="And if the grid were one block?")
    live = state()
    live.asked = [_asked(0, question()), _asked(1, person)]
    live.records = records_of([attempt(0, accepted=True, change=change(1.1)), attempt(1, question=person)])
    assert keep(tmp_path, on("cpu"), live) is None
    (kept,) = recall(tmp_path / FILE_NAME).runs
    assert (kept.name, kept.backend, kept.task) == ("sim", "cpu", "tiny")
    texts = {one.key.split(":")[0]: one.text for one in kept.asked}
    assert texts == {"free-loads": "", "human": person.text}


def test_a_simulated_run_leaves_nothing_beside_it(tmp_path: Path) -> None:
    result = run(config(budget={"candidates": 4}), root=tmp_path)
    assert not (tmp_path / FILE_NAME).exists()
    assert not [event for event in stored(result.folder) if isinstance(event, RunNoted) and RECORDS_FACT in event.facts]


def _asked(number: int, put: object) -> object:
    from population.candidate import Origin, Step
    from results.events import StepAsked

    step = Step(number=number, origin=Origin.QUESTION, island=0, parent_id="p", candidate_id=None)
    return StepAsked(step=step, question=put)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_a_note_of_the_log_is_all_that_a_resumed_run_needs(tmp_path: Path, seed: int) -> None:
    import numpy as np

    from mutators.bank import load_bank
    from mutators.question import Moment
    from mutators.questions import choose

    assert remember(tmp_path / FILE_NAME, EARLIER) is None
    (note,) = noted_earlier(tmp_path, on("cpu"))
    later = state()
    later.apply(note)
    assert remember(tmp_path / FILE_NAME, RunRecords(name="other", task="t", backend="cpu", asked=EARLIER.asked)) is None
    again = state()
    again.apply(note)
    chosen = [
        choose(load_bank(), Moment.ROUTINE, {}, each.records, (), "cpu", np.random.default_rng(seed), prior=each.prior).id
        for each in (later, again)
    ]
    assert chosen[0] == chosen[1]
