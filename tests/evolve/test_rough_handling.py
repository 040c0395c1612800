"""What people do to runs that were merged, compared or asked in ways that nobody thought of."""

import xml.dom.minidom
from pathlib import Path

import pytest

from evolve.answering import MOST_OF_A_QUESTION, AnswerRefused, ask_run
from evolve.api import run
from evolve.compare import compare, named
from evolve.merge import Refused, merge
from mutators.question import Layer
from results.comparison import NotComparableError
from results.comparison_figure import comparison_svg
from tests.evolve.simulation import config, shuffled


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(config(), root=tmp_path_factory.mktemp("rough"), executor=shuffled()).folder


def test_a_run_is_compared_once(folder: Path) -> None:
    with pytest.raises(NotComparableError, match="given twice"):
        compare([*named(f"a={folder.name}", folder.parent), *named(f"b={folder.name}", folder.parent)])


@pytest.mark.parametrize("argument", ["=sim", "a=", " =sim"])
def test_a_label_and_its_run_are_both_named(argument: str, folder: Path) -> None:
    with pytest.raises(NotComparableError, match="LABEL=RUN"):
        named(argument, folder.parent)


def test_control_characters_leave_a_figure_well_formed(folder: Path) -> None:
    found = compare(named(f"a\x1b[31m<b>&={folder.name}", folder.parent))
    assert "a [31m" in xml.dom.minidom.parseString(comparison_svg(found)).toxml()


@pytest.mark.parametrize("text", ["x" * (MOST_OF_A_QUESTION + 1), "half a character \udcff"])
def test_a_question_is_text_of_some_length(text: str, folder: Path) -> None:
    with pytest.raises(AnswerRefused, match="UTF-8 text of at most"):
        ask_run(folder, text, person="me", layer=Layer.MEMORY)


def test_nested_brackets_are_no_evaluation(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    [found] = merge(folder, [str(tmp_path / "deep.json")])
    assert isinstance(found, Refused)
    assert "can't be read as JSON" in found.reason
