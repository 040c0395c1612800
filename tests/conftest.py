"""What all tests share: property tests have no deadline, since two busy cores make any of them slow now and then."""

import pytest
from hypothesis import settings

from evaluator.cache import BuildCache

settings.register_profile("project", deadline=None)
settings.load_profile("project")


@pytest.fixture(scope="session")
def cuda_cache(tmp_path_factory: pytest.TempPathFactory) -> BuildCache:
    """CUDA builds that tests of several modules make of the same sources."""
    return BuildCache(tmp_path_factory.mktemp("cuda_builds"))
