"""The harness of the attention pack, one for each of its modules: its baseline processes would show in other tests."""

from collections.abc import Iterator

import pytest

from tests.cheats.attention_session import Watched, open_watched


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A harness that is warm, with eyes on what evaluations leave behind."""
    with pytest.MonkeyPatch.context() as patch:
        opened = open_watched(tmp_path_factory.mktemp("attention"), patch)
        yield opened
        opened.harness.close()
