"""Answers of every shape: each gives the right edit or the right named rejection (E01 to E08); tests/mutators/answers."""

import re
from pathlib import Path

import pytest

from mutators.edits import Applied, apply
from mutators.headers import header_of
from mutators.question import Rejected, Rejection
from tests.mutators.corpus import Case, cases

PAGE = Path(__file__).parents[2] / "docs" / "answers.md"
CASES = cases()
EDITS = [case for case in CASES if case.rejected is None]
REJECTIONS = [case for case in CASES if case.rejected is not None]


@pytest.mark.parametrize("case", EDITS, ids=[case.name for case in EDITS])
def test_form_is_forgiven(case: Case) -> None:
    result = apply(case.parent, case.answer)
    assert isinstance(result, Applied), result
    assert result.source == case.child
    assert result.header.hypothesis == case.hypothesis
    assert result.header.prediction == pytest.approx(case.prediction)
    assert result.header.claim is case.claim
    assert header_of(case.answer) == result.header


@pytest.mark.parametrize("case", REJECTIONS, ids=[case.name for case in REJECTIONS])
def test_content_is_exact(case: Case) -> None:
    result = apply(case.parent, case.answer)
    assert isinstance(result, Rejected), result
    assert result.reason is case.rejected, result.message
    assert case.says in result.message
    assert 20 < len(result.message) < 1500


def test_the_page_documents_every_rejection_once() -> None:
    rows = re.findall(r"^\| `(\w+)` \| \w.* \|$", PAGE.read_text(encoding="utf-8").partition("## Rejections")[2], re.MULTILINE)
    assert sorted(rows) == sorted(reason.value for reason in Rejection)


def test_the_corpus_is_whole() -> None:
    """At least 120 shapes, no name twice, and every rejection occurs."""
    assert len(CASES) >= 120
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.rejected for case in REJECTIONS} == set(Rejection)
