"""Unusual but right kernels are never called wrong."""

from pathlib import Path

import pytest

from evaluator.outcome import Effort
from tests.cheats.attention_session import FOLDER, RIGHT, SHAPES, Watched, read_source

KERNELS = sorted((FOLDER / "honest").glob("*.cpp"))


def claimed(path: Path) -> set[str]:
    return {"full"} if path.stem == "narrow_domain" else set(SHAPES)


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_right_kernel_is_called_right(watched: Watched, path: Path) -> None:
    outcome = watched.evaluate(read_source(path))
    assert outcome.verdict in RIGHT, outcome.message
    assert set(outcome.supported) == claimed(path)
    assert {check.scenario for check in outcome.checks} == claimed(path)
    assert all(check.passed for check in outcome.checks)


@pytest.mark.slow
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_right_kernel_passes_a_final(watched: Watched, path: Path) -> None:
    outcome = watched.evaluate(read_source(path), Effort.FINAL)
    assert outcome.verdict in RIGHT, outcome.message


def test_there_are_enough_kernels() -> None:
    assert len(KERNELS) >= 8
