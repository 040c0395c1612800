from pathlib import Path

import numpy as np
import pytest

from mutators.answerers.base import Prompt
from mutators.answerers.failures import Unanswered
from mutators.answerers.recorded import RecordedAnswerer, Recording, recordings_in
from mutators.question import Answer
from population.candidate import hash_text
from tests.mutators.factories import candidate, question

RNG = np.random.default_rng(0)


def prompt(step: int, text: str) -> Prompt:
    return Prompt(step_number=step, question=question(), parent=candidate(), knobs=(), children=(), lineage=(), text=text)


def recording(text: str, step: int | None = None, of: str | None = None) -> Recording:
    return Recording(answer=Answer(text=text, answerer="ann"), step=step, prompt_hash=None if of is None else hash_text(of))


RECORDINGS = (recording("one", 1, "p"), recording("two", 2, "p"), recording("three", 3, "q"), recording("four", 4))


@pytest.mark.parametrize(
    ("step", "text", "answer"),
    [
        (2, "p", "two"),  # the same prompt at the same step
        (9, "p", "one"),  # the same prompt at another
        (3, "p", "one"),  # the prompt counts before the step
        (3, "new", "three"),  # a prompt that is new at a step that isn't
        (4, "q", "three"),
        (4, "new", "four"),
    ],
)
def test_the_same_prompt_counts_before_the_same_step(step: int, text: str, answer: str) -> None:
    given = RecordedAnswerer(RECORDINGS, "somewhere").answer(prompt(step, text), RNG)
    assert given == Answer(text=answer, answerer="ann")


def test_what_was_never_answered_is_said() -> None:
    with pytest.raises(Unanswered, match=rf"somewhere holds no answer to prompt {hash_text('new')[:10]} or to step 7"):
        RecordedAnswerer(RECORDINGS, "somewhere").answer(prompt(7, "new"), RNG)


def test_a_folder_of_files_is_read_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "17.md").write_text("of step 17 →")
    (tmp_path / f"{hash_text('p')}.txt").write_text("of prompt p")
    (tmp_path / "README.md").write_text("no answer")
    (tmp_path / "18").mkdir()
    found = RecordedAnswerer(recordings_in(tmp_path), str(tmp_path))
    assert found.answer(prompt(17, "new"), RNG).text == "of step 17 →"
    assert found.answer(prompt(17, "p"), RNG).text == "of prompt p"
    with pytest.raises(Unanswered):
        found.answer(prompt(18, "new"), RNG)
