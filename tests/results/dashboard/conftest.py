"""Runs to look at, each kind written once, and a client that talks to the dashboard as a browser of this machine would."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from results.dashboard.app import make_app
from tests.results.dashboard.many import write_many
from tests.results.dashboard.runs import KINDS


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a run of a kind, written at the first use."""
    root = tmp_path_factory.mktemp("kinds")

    def folder(kind: str) -> Path:
        place = root / kind
        if not place.exists():
            write_many(place, 120) if kind == "thousand" else KINDS[kind](place)
        return place

    return folder


@pytest.fixture
def browse() -> Iterator[Callable[..., TestClient]]:
    """A client of the dashboard of a folder."""
    clients: list[TestClient] = []

    def client(folder: Path, base_url: str = "http://127.0.0.1:8000", **options: object) -> TestClient:
        clients.append(TestClient(make_app(folder, **options), base_url=base_url, follow_redirects=False))  # type: ignore[arg-type]
        return clients[-1]

    yield client
    for one in clients:
        one.close()
