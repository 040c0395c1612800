"""Tests that need a GPU are skipped with a reason where CuPy or a GPU that works is missing."""

import functools
import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@functools.cache
def missing() -> str | None:
    """What is missing here, in one sentence; None where a GPU can be used."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy isn't installed: pip install 'askevolve[cuda]'"
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no GPU works here: {error}"
    return None if count else "this host has no GPU"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what was selected; without a GPU nothing is imported that would need one."""
    here = [item for item in items if FOLDER in item.path.parents and item.get_closest_marker("gpu")]
    if here and (reason := missing()):
        for item in here:
            item.add_marker(pytest.mark.skip(reason=reason))
