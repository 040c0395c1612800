"""Taking prompts, handing in answers, asking: the commands of those who answer, while a driver runs and while none does."""

import io
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from mutators.question import Answer
from results.events import StepAsked, StepPosed
from results.mailbox import LEASE_S, Mailbox
from results.reader import Reader
from tests.evolve.answering import UNUSABLE, scripted
from tests.evolve.simulation import stored

MAILBOX = ("--set", "mutation.answerer=mailbox", "-q")
FOLDER = Path("runs/sim")


@pytest.fixture
def waiting(ask):
    """A run that waits for answers: steps 2 and 3 are open."""
    assert ask("run", "sim.toml", "--until-idle", *MAILBOX).code == 8
    return ask


def usable(step: int) -> str:
    """An answer that makes a new candidate."""
    with Reader.open(FOLDER) as reader:
        [posed] = [one for one in reader.open_steps() if one.step.number == step]
        texts = [f"{reader.prompt(step)}{salt}" for salt in range(20)]
        answers = [scripted(text, reader.candidate(posed.step.parent_id or ""), posed.question).text for text in texts]
    return next(text for text in answers if text != UNUSABLE)


def test_a_prompt_is_taken_answered_and_taken_in_when_the_run_goes_on(waiting, tmp_path: Path) -> None:
    taken = waiting("next", "sim", "--as", "ann", "--json").document
    assert taken["step"] == 2
    assert taken["lease"]["holder"] == "ann"
    assert taken["prompt"].rstrip().endswith(f"It would be settled by: {taken['question']['settle']}.")
    plain = waiting("next", "sim", "--as", "ann")
    assert plain.out == taken["prompt"], "what is printed is the prompt exactly as it was posed, and the same again"
    assert "askevolve answer sim 2 FILE" in plain.err
    (tmp_path / "answer.md").write_text(usable(2))
    answered = waiting("answer", "sim", "2", "answer.md", "--as", "ann")
    assert answered.code == 0
    assert answered.out.startswith("step 2 is answered: ")
    assert waiting("answer", "sim", "2", "answer.md").code == 9, "a second answer"
    assert waiting("next", "sim", "--as", "ann", "--json").document["step"] == 3
    assert waiting("resume", "sim", "--until-idle", "-q").code == 8
    asked = [event for event in stored(FOLDER) if isinstance(event, StepAsked)]
    assert (asked[2].step.number, asked[2].answer.answerer) == (2, "ann")
    assert asked[2].candidate is not None
    assert [event.step.number for event in stored(FOLDER) if isinstance(event, StepPosed)] == [2, 3, 4]


def test_two_who_answer_get_different_prompts_until_a_lease_runs_out(waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [waiting("next", "sim", "--as", name, "--json").document["step"] for name in ("ann", "bob", "ann", "bob")]
    assert steps == [2, 3, 2, 3]
    third = waiting("next", "sim", "--as", "cem")
    assert third.code == 8
    assert "step 2 by ann, step 3 by bob" in third.err
    assert waiting("next", "sim", "3", "--as", "cem").out == waiting("next", "sim", "--as", "bob").out, "looking takes nothing"
    later = Mailbox(FOLDER, clock=lambda: __import__("time").time() + LEASE_S + 1)
    lease = later.lease([2, 3], "cem")
    assert lease is not None
    assert lease.step == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (UNUSABLE, "no_code"),
        ('+++\nhypothesis = "h"\n+++\nno edit', "no_code"),
        ('+++\nhypothesis = "h"\n+++\n<<<<<<< SEARCH\nnowhere\n=======\nx\n>>>>>>> REPLACE\n', "no_match"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said_and_it_can_be_mended(waiting, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "answer.md").write_text(text)
    ran = waiting("answer", "sim", "2", "answer.md")
    assert (ran.code, ran.out) == (9, "")
    assert f"not kept: {says}: " in ran.err
    assert "--force" in ran.err
    assert waiting("answer", "sim", "2", "answer.md", "--json").document["rejection"] == says
    assert not Mailbox(FOLDER).answered()
    forced = waiting("answer", "sim", "2", "answer.md", "--force", "--json").document
    assert (forced["kept"], forced["rejection"]) == (True, says)
    (tmp_path / "answer.md").write_text(usable(2))
    assert waiting("answer", "sim", "2", "answer.md").code == 9, "insisting was final"
    waiting("resume", "sim", "--until-idle", "-q")
    [taken] = [event for event in stored(FOLDER) if isinstance(event, StepAsked) and event.step.number == 2]
    assert taken.rejected is not None
    assert taken.rejected.reason == says


def test_a_plan_that_cannot_be_valid_is_said_before_it_costs_a_step(waiting, tmp_path: Path) -> None:
    with Reader.open(FOLDER) as reader:
        [posed] = [one for one in reader.open_steps() if one.step.number == 2]
        source = reader.candidate(posed.step.parent_id or "").source
    broken = source.replace("[[launch]]", "[[launches]]", 1)
    (tmp_path / "answer.md").write_text(f'+++\nhypothesis = "h"\n+++\n```cpp\n{broken}\n```\n')
    ran = waiting("answer", "sim", "2", "answer.md")
    assert (ran.code, ran.out) == (9, "")
    assert "not kept: PLAN_ERROR: " in ran.err
    assert ".. " not in ran.err
    assert "--force" in ran.err
    assert not Mailbox(FOLDER).answered()
    assert waiting("answer", "sim", "2", "answer.md", "--force").code == 0


def test_status_tells_of_answers_that_wait_and_of_steps_that_are_done(waiting, tmp_path: Path) -> None:
    (tmp_path / "answer.md").write_text(usable(2))
    assert waiting("answer", "sim", "2", "answer.md").code == 0
    said = waiting("status", "sim").out
    assert "1 prompt open: askevolve next sim" in said
    assert "1 answer to be taken in by the run's driver" in said
    assert "askevolve resume sim" in said
    waiting("resume", "sim", "--until-idle", "-q")
    again = waiting("answer", "sim", "2", "answer.md")
    assert again.code == 9
    assert "step 2 has its answer, which was taken in" in again.err
    assert "step 99 isn't open" in waiting("answer", "sim", "99", "answer.md").err


def test_a_claim_without_an_edit_is_an_answer(waiting, tmp_path: Path) -> None:
    (tmp_path / "answer.md").write_text('+++\nhypothesis = "loads alone take this long"\nclaim = "ceiling"\n+++\n')
    ran = waiting("answer", "sim", "2", "answer.md")
    assert ran.code == 0
    assert "it makes no candidate (claim_only" in ran.out


def test_a_kernel_that_is_known_is_refused_unless_insisted_on(waiting, tmp_path: Path) -> None:
    (tmp_path / "answer.md").write_text(usable(2))
    waiting("answer", "sim", "2", "answer.md")
    waiting("resume", "sim", "--until-idle", "-q")
    with Reader.open(FOLDER) as reader:
        source = reader.candidate(reader.steps()[2].candidate_id or "").source
    (tmp_path / "same.md").write_text(f'+++\nhypothesis = "the same again"\n+++\n```cpp\n{source}\n```\n')
    ran = waiting("answer", "sim", "4", "same.md")
    assert ran.code == 9
    assert "which the run has already" in ran.err or "no_change" in ran.err
    assert waiting("answer", "sim", "4", "same.md", "--force").code == 0


def test_an_answer_comes_by_standard_input_and_files_that_can_not_be_read_are_named(
    waiting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(usable(3).encode())))
    assert waiting("answer", "sim", "3", "-").code == 0
    assert waiting("answer", "sim", "2", "nowhere.md").code == 2
    (tmp_path / "bytes.md").write_bytes(b"+++\xff")
    assert "is no UTF-8 text" in waiting("answer", "sim", "2", "bytes.md").err
    not_open = waiting("answer", "sim", "9", "bytes.md")
    assert not_open.code == 2
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"x")))
    assert "step 9 isn't open; open are: 2, 3" in waiting("answer", "sim", "9", "-").err


def test_a_running_driver_takes_answers_in(ask, tmp_path: Path) -> None:
    """The driver waits in this process; answers are handed in beside it, as another process would."""
    from evolve import api
    from evolve.config import load_config

    config = load_config(tmp_path / "sim.toml", ["mutation.answerer=mailbox", "budget.candidates=5"])
    results: list[api.RunResult] = []
    driver = threading.Thread(target=lambda: results.append(api.run(config)), daemon=True)
    driver.start()
    answered = 0
    while driver.is_alive():
        ran = ask("next", "sim", "--json") if FOLDER.joinpath("run.db").exists() else None
        if ran is None or ran.code:
            continue
        step = ran.document["step"]
        (tmp_path / "answer.md").write_text(usable(step))
        answered += ask("answer", "sim", step, "answer.md", "--force").code == 0
    assert results[0].candidates == 5
    assert answered == sum(isinstance(event, StepPosed) for event in stored(FOLDER))
    over = ask("next", "sim")
    assert over.code == 8
    assert "the run is over (candidates)" in over.err


def test_a_person_asks_and_tells(waiting) -> None:
    seed = stored(FOLDER)[1].step.candidate_id  # type: ignore[union-attr]
    assert waiting("ask", "sim", "What if loads were free?", "--parent", seed[:10], "--layer", "memory").code == 0
    assert waiting("ask", "sim", "There are two channels.", "--message", "--json").document["asked"]["message"] is True
    for step in (2, 3):
        Mailbox(FOLDER).put(step, Answer(text=UNUSABLE, answerer="x"))
    waiting("resume", "sim", "--until-idle", "-q")
    prompt = waiting("next", "sim", "--json").document
    assert (prompt["question"]["entry_id"], prompt["question"]["layer"], prompt["parent_id"]) == ("human", "memory", seed)
    assert prompt["question"]["text"] == "What if loads were free?"


def test_questions_that_can_not_be_put_are_refused(waiting) -> None:
    assert waiting("ask", "sim", "  ").code == 9
    assert "one of algorithm" in waiting("ask", "sim", "Why?", "--layer", "magic").err
    assert waiting("ask", "sim", "Why?", "--parent", "ffff").code == 2
    assert waiting("ask", "nosuch", "Why?").code == 6
