"""Every plan in docs/candidate.md reads and works out."""

import re
from pathlib import Path

import pytest

from evaluator.screen import Screened, screen
from population.candidate import Language
from tests.evaluator.plan_cards import CPU, HOPPER, attention_card, scalars_of
from tests.evaluator.test_plan_errors import CUDA_PLAN, message_of

PAGE = (Path(__file__).parents[2] / "docs" / "candidate.md").read_text()
BLOCKS = re.findall(r"```(cpp|cuda)\n(/\* plan\n.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("language", "source"), BLOCKS)
def test_documented_plan(language: str, source: str) -> None:
    kind, facts = (Language.CUDA, HOPPER) if language == "cuda" else (Language.CPP, CPU)
    found = screen(source, kind, attention_card(), facts, scalars_of)
    assert isinstance(found, Screened), found


def test_the_page_shows_both_kinds_of_plan() -> None:
    assert {language for language, _ in BLOCKS} == {"cpp", "cuda"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"d"', '"2 * BLOK_M"'),
        ('"2 * ceil_div(sq, 2 * BLOCK_M)"', '"sq // (d - 64)"'),
        ('"STAGES * BLOCK_M * d * 2"', '"d * 2048"'),
    ],
)
def test_documented_messages(old: str, new: str) -> None:
    assert message_of(CUDA_PLAN, Language.CUDA, old, new) in PAGE.splitlines()
