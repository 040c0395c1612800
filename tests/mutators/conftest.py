"""Fixtures of the mutators' tests."""

from collections.abc import Iterator

import pytest

from tests.mutators.chat_server import Play
from tests.mutators.chatting import Asked, Open


@pytest.fixture
def ask() -> Iterator[Open]:
    opened: list[Asked] = []

    def make(*plays: Play, **settings: object) -> Asked:
        opened.append(Asked(*plays, **settings))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
