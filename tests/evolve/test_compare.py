"""Comparisons over simulated runs: launched in turns, stopped, gone on with, and compared."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from evolve import compare_launch
from evolve.api import run
from evolve.compare import compare, named, readded_share
from evolve.compare_launch import Ended, Launched, launch, planned
from evolve.config import ConfigError
from mutators.arms import Arm
from results.comparison import NotComparableError
from results.events import Event, StepAsked, StepPosed
from results.folder import request_stop
from results.reader import Reader
from tests.evolve.simulation import config, essence, stored
from tests.results.makers import asked

SMALL = config(budget={"candidates": 8})
BOTH = (Arm.QUESTION, Arm.COMMAND)


@dataclass(frozen=True)
class Made:
    """All arms, two repeats: the first launched alone, then both; what was told at each launch."""

    root: Path
    first: Launched
    launched: Launched
    told: tuple[list[str], list[str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    root, told = tmp_path_factory.mktemp("compared"), ([], [])
    first = launch(planned(SMALL, tuple(Arm), 1, root), told[0].append)
    return Made(root, first, launch(planned(SMALL, tuple(Arm), 2, root), told[1].append), told)


def test_arms_have_equal_budgets_and_share_the_seed_of_a_repeat(tmp_path: Path) -> None:
    runs = planned(SMALL, BOTH, 2, tmp_path)
    assert [one.folder.name for arms in runs for one in arms] == ["question-1", "command-1", "question-2", "command-2"]
    assert [[one.config.run.seed for one in arms] for arms in runs] == [[5, 5], [6, 6]]
    assert [one.config.mutation.style for one in runs[0]] == ["question", "command"]
    assert {one.config.budget.candidates for arms in runs for one in arms} == {8}


def test_arms_take_turns_and_what_turns_cut_into_is_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_launch, "TURN", 4)
    told: list[str] = []
    launched = launch(planned(SMALL, BOTH, 1, tmp_path), told.append)
    assert launched.ended is Ended.DONE
    turns = [line.split(":")[0] for line in told if line.endswith("its turn")]
    assert turns[:4] == ["question-1", "command-1", "command-1", "question-1"]
    for one in launched.runs:
        whole = run(
            SMALL.model_copy(update={"mutation": SMALL.mutation.model_copy(update={"style": one.label})}),
            root=tmp_path / f"whole-{one.label}",
        )
        cut, uncut = (essence(stored(folder)) for folder in (one.folder, whole.folder))
        assert cut[2] == uncut[2]
        assert cut[1] == uncut[1]


def test_the_arms_of_an_answerer_that_reads_no_text_come_out_equal(made: Made) -> None:
    comparison = compare(made.launched.runs)
    assert [arm.name for arm in comparison.arms] == ["question", "command", "tools"]
    for contest in comparison.contests:
        assert contest.leader is None
        assert contest.best is not None
        assert (contest.best.mean, contest.best.pairs) == (0.0, 2)
    assert comparison.cautions == ()
    assert comparison.arms[0].readded_share is not None


def test_the_form_of_what_is_put_is_all_that_differs(made: Made) -> None:
    question, command, tools = ([one for one in stored(run.folder) if isinstance(one, StepPosed)] for run in made.first.runs)
    assert len(question) == len(command) == len(tools) > 0
    for first, second, third in zip(question, command, tools, strict=True):
        assert first.question.text.endswith("?")
        assert "?" not in second.question.text
        assert third.question.text.startswith("Make this kernel faster")
        assert replace(second.question, text=first.question.text) == first.question
        assert replace(third.question, text="", settle="") == replace(first.question, text="", settle="")
    with Reader.open(made.first.runs[2].folder) as reader:
        prompt = reader.prompt(tools[0].step.number)
    assert question[0].question.text not in prompt
    assert question[0].question.settle not in prompt


def test_more_repeats_go_on_from_those_that_are_there(made: Made) -> None:
    first, second = ({line.split(":")[0] for line in told} for told in made.told)
    assert first == {"question-1", "command-1", "tools-1"}
    assert second == {"question-2", "command-2", "tools-2"}
    assert len(made.launched.runs) == 6
    told: list[str] = []
    assert launch(planned(SMALL, BOTH, 2, made.root), told.append).ended is Ended.DONE
    assert told == []


def test_a_launch_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_launch, "TURN", 4)
    runs = planned(SMALL, BOTH, 1, tmp_path)
    first = runs[0][1].folder

    def stop_once(text: str) -> None:
        if text == "command-1: its turn" and not (first / "run.db").exists():
            monkeypatch.setattr(compare_launch, "stop_requested", lambda folder: request_stop(folder) or True)

    stopped = launch(runs, stop_once)
    assert (stopped.ended, stopped.at) == (Ended.STOPPED, (first,))
    monkeypatch.undo()
    before = len(stored(first))
    launched = launch(planned(SMALL, BOTH, 1, tmp_path), lambda text: None)
    assert launched.ended is Ended.DONE
    assert len(stored(first)) > before
    told: list[str] = []
    assert launch(planned(SMALL, BOTH, 1, tmp_path), told.append).ended is Ended.DONE
    assert told == []


def test_another_configuration_under_the_same_name_is_refused(made: Made) -> None:
    with pytest.raises(ConfigError, match=r"budget\.candidates: 8 -> 15.*run\.name"):
        planned(config(budget={"candidates": 15}), BOTH, 1, made.root)


def test_answers_from_outside_are_awaited_in_all_arms_at_once(tmp_path: Path) -> None:
    waiting = config(mutation={"answerer": "mailbox"})
    launched = launch(planned(waiting, BOTH, 2, tmp_path), lambda text: None)
    assert launched.ended is Ended.WAITING
    assert [folder.name for folder in launched.at] == ["question-1", "command-1"]
    assert len(launched.runs) == 2


def test_recorded_answers_of_an_earlier_comparison_are_replayed_run_by_run(made: Made, tmp_path: Path) -> None:
    table = config(
        mutation={"answerer": "recorded"}, recorded={"source": str(made.root / "compare-sim")}, budget={"candidates": 8}
    )
    replayed = launch(planned(table, BOTH, 1, tmp_path), lambda text: None)
    assert replayed.ended is Ended.DONE
    for old, new in zip(made.first.runs, replayed.runs, strict=False):
        assert essence(stored(old.folder))[2] == essence(stored(new.folder))[2]


def test_recorded_answers_may_lie_in_a_folder_an_arm(tmp_path: Path) -> None:
    for name in ("answers/question", "answers/command-2"):
        (tmp_path / name).mkdir(parents=True)
    table = config(mutation={"answerer": "recorded"}, recorded={"source": str(tmp_path / "answers")})
    sources = [[one.config.recorded.source for one in arms] for arms in planned(table, BOTH, 2, tmp_path)]
    answers = tmp_path / "answers"
    assert sources[0] == [str(answers / "question"), str(answers)]
    assert sources[1] == [str(answers / "question"), str(answers / "command-2")]


def test_a_failing_answerer_ends_the_launch_and_names_the_run(tmp_path: Path) -> None:
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "2.md").write_text("nothing")
    table = config(mutation={"answerer": "recorded"}, recorded={"source": str(tmp_path / "answers")})
    launched = launch(planned(table, BOTH, 1, tmp_path), lambda text: None)
    assert launched.ended is Ended.HINDERED
    assert [folder.name for folder in launched.at] == ["question-1"]


def test_a_run_in_which_nothing_is_right_is_named_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "broken.cpp").write_text("no plan at all")
    table = config(population={"seeds": (str(tmp_path / "broken.cpp"),), "islands": 1})
    launched = launch(planned(table, BOTH[:1], 1, tmp_path), lambda text: None)
    assert (launched.ended, launched.runs) == (Ended.DONE, ())
    assert [folder.name for folder in launched.empty] == ["question-1"]


def test_runs_of_one_style_are_arms_by_their_names_unless_labelled(made: Made) -> None:
    root = made.root / "compare-sim"
    assert [arm.name for arm in compare([*named("question-1", root), *named("question-2", root)]).arms] == [
        "question-1",
        "question-2",
    ]
    labelled = compare([*named("x=question-1", root), *named("x=question-2", root), *named("x=question-2", root)])
    assert [(arm.name, len(arm.runs)) for arm in labelled.arms] == [("x", 2)]
    assert len(named("compare-sim", made.root)) == len(named(str(root))) == 6
    assert [one.label for one in named("mine=compare-sim", made.root)] == ["mine"] * 6


def test_runs_of_different_scenario_sets_are_refused(made: Made, tmp_path: Path) -> None:
    other = run(SMALL, ["task.scenarios=three", "budget.candidates=2"], root=tmp_path).folder
    with pytest.raises(NotComparableError, match=r"scenario set: five \(5\) in question-1; three \(3\) in sim"):
        compare([*named("question-1", made.root / "compare-sim"), *named(str(other))])


def test_readded_lines_are_those_that_the_lineage_had_deleted() -> None:
    parent, child = "int alpha;\nint beta;\n", "int alpha;\nint gamma;\n"
    again = "int alpha;\nint beta;\nint delta;\n"
    events: list[Event] = [asked(0, parent), asked(1, child, parent), asked(2, again, child)]
    assert all(isinstance(event, StepAsked) for event in events)
    assert readded_share(events) == pytest.approx(1 / 3)  # gamma, beta and delta were added, beta for the second time
    assert readded_share(events[:1]) is None
