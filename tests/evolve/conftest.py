"""Fixtures of the search's tests."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One Ray for all tests that need it: it takes seconds to start."""
    import ray

    ray.init(
        "local", num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="ERROR", object_store_memory=80 * 2**20
    )
    yield
    ray.shutdown()
