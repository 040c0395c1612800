"""docs/verdicts.md documents every verdict and every rejection, each once, each with its three lines."""

import re
from enum import StrEnum
from pathlib import Path

import pytest

from evaluator.outcome import Verdict
from evaluator.settings import full_settings, quick_settings
from mutators.question import Rejection

TEXT = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()


def entries(title: str) -> dict[str, str]:
    part = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    body = next(section for section in part if section.startswith(title))
    found = re.split(r"^### ", body, flags=re.MULTILINE)[1:]
    names = [entry.partition("\n")[0] for entry in found]
    assert len(names) == len(set(names))
    return {entry.partition("\n")[0]: entry.partition("\n")[2] for entry in found}


@pytest.mark.parametrize(("title", "kinds"), [("Verdicts", Verdict), ("Rejections", Rejection)])
def test_every_member_is_documented_in_the_order_of_the_enum(title: str, kinds: type[StrEnum]) -> None:
    found = entries(title)
    assert list(found) == [kind.value for kind in kinds]
    for text in found.values():
        assert re.findall(r"^- (\w+(?: \w+)?):", text, flags=re.MULTILINE) == ["Means", "Shown by", "Do"]


def test_the_limits_in_the_text_are_those_of_the_settings() -> None:
    found, full, quick = entries("Verdicts"), full_settings(), quick_settings()
    assert f"({full.hopeless_share:g}; no" in found["SLOWER"]
    assert f"({100 * full.ambiguous_half_width:g} %; {100 * quick.ambiguous_half_width:g} % in quick runs)" in found["AMBIGUOUS"]
    assert f"{full.physics_factor:g} of the time" in found["TOO_FAST"]
    assert f"{full.least_deadline_s:g} s, or {full.deadline_floors:g} times" in found["TIMEOUT"]
