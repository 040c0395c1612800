"""Fixtures of the tests of the store."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def clock() -> Callable[[], float]:
    ticks = itertools.count(1_000_000)
    return lambda: float(next(ticks))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "first"
