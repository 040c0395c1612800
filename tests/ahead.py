"""Building on all cores, before a module's first test, what its tests would build one by one."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

Build = Callable[[Any], object]


def build_ahead(request: pytest.FixtureRequest, builds: Mapping[str, Build], parameter: str = "name") -> None:
    """Call ``builds[TEST]`` with the parameter of each test of the requesting module that will run; a cache keeps the results."""
    chosen = [
        (builds[item.originalname], item.callspec.params[parameter])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and item.originalname in builds
    ]
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as workers:
        for future in [workers.submit(build, value) for build, value in chosen]:
            future.result()
