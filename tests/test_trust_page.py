"""docs/trust.md names a test for every property, and every test and file that it names is there."""

import re
from pathlib import Path

import pytest

from evaluator.contests import OUTCLASSED_BY
from evaluator.settings import HarnessSettings
from tests.cheats.attacks import ATTACKS
from tests.nodes import exists

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "trust.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith("| ") and "::" in line]
NODES = sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", TEXT)))
PROPERTIES = 20
"""Rows of the comparison that this page answers."""


def test_every_property_has_a_test_of_its_own() -> None:
    assert len(ROWS) == PROPERTIES
    for name, how, shown_by in ROWS:
        assert name
        assert how
        assert re.findall(r"`tests/[\w/]+\.py::test_\w+`", shown_by), name


@pytest.mark.parametrize("node", NODES)
def test_a_test_that_the_page_names_is_there(node: str) -> None:
    assert exists(node)


def test_files_that_the_page_names_are_there() -> None:
    for path in re.findall(r"`((?:tests|docs|benchmarks)/[\w/.]+?)`", TEXT):
        assert (ROOT / path).exists(), path
    assert "python benchmarks/packs.py" in TEXT
    assert (ROOT / "benchmarks" / "packs.py").exists()


def test_its_figures_are_those_of_the_code() -> None:
    assert f"{len(ATTACKS)} attacks" in TEXT
    assert f"under {HarnessSettings().physics_factor:g} of the roofline" in TEXT
    assert f"{100 * (OUTCLASSED_BY - 1):.0f} % slower" in TEXT
