"""The dashboard as a command: it serves, says where, stops at once, and writes reports."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from results.mailbox import Mailbox
from results.reader import Reader
from results.store import Store
from tests.results.makers import fill, started

ROOT = Path(__file__).parents[3]
STARTS_WITHIN_S = 60


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with Store.create(tmp_path / "runs" / "first", started()) as store:
        fill(store)
    return tmp_path / "runs" / "first"


@contextmanager
def serving(place: Path, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A server of its own process and the address it prints."""
    command = [sys.executable, "-c", "from evolve.cli.app import main; main()", "dashboard", str(place), *options]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            yield server, found[0]
        finally:
            server.kill()


def got(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=30) as answer:
        found: bytes = answer.read()
    return found


def test_it_stops_with_an_open_page(run: Path) -> None:
    with serving(run) as (server, address), urllib.request.urlopen(f"{address}data/events", timeout=30) as stream:
        assert b"1.450" in got(address)
        assert stream.readline().startswith(b"id: ")
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=30) == 0


def test_a_visitor_asks_a_run(run: Path) -> None:
    with serving(run.parent, "--ask") as (_, address):
        page, _, token = address.partition("?token=")
        headers = {"authorization": f"Bearer {token}", "origin": page.rstrip("/")}
        request = urllib.request.Request(f"{page}run/first/ask", b"text=Why%3F&layer=memory", headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.url == f"{page}run/first/questions?said=kept"
            assert b"in the mailbox" in answer.read()
    (asked,) = Mailbox(run).asked()
    assert (asked.text, asked.layer, asked.person) == ("Why?", "memory", "dashboard")


def test_a_report_is_written_and_nothing_overwritten(ask, run: Path, tmp_path: Path) -> None:
    done = ask("report", str(run), str(tmp_path / "out"))
    assert done.code == 0
    assert (tmp_path / "out" / "index.html").is_file()
    again = ask("report", str(run), str(tmp_path / "out"))
    assert again.code == 2
    assert "nothing is overwritten" in again.err


def test_a_port_that_is_taken_is_said(ask, run: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = ask("dashboard", str(run), "--port", str(taken.getsockname()[1]))
    assert done.code == 4
    assert "--port" in done.err


def test_a_run_that_is_not_there(ask, tmp_path: Path) -> None:
    assert ask("dashboard", str(tmp_path / "none")).code == 6
    assert ask("report", "none", str(tmp_path / "out")).code == 6


def test_the_goal_and_the_budgets_of_a_real_configuration(tmp_path: Path) -> None:
    from evolve.config import load_config
    from evolve.outlook import outlook
    from results.dashboard.columns import Columns

    config = load_config(ROOT / "examples" / "cpu_quick.toml", ["goal.expression=geomean(torch) >= 1.4 and correct == all"])
    with Store.create(tmp_path / "first", started(config=config.mapping(), config_hash=config.hash)) as store:
        fill(store)
    columns = Columns()
    with Reader.open(tmp_path / "first") as reader:
        columns.refresh(reader)
        found = outlook(reader, columns)
    assert [(one.text, one.met) for one in found.conditions] == [("geomean(torch) >= 1.4", True), ("correct == all", True)]
    assert found.goal_ratio == 1.4
    assert found.workers == config.executor.workers
    budgets = {one.name: one for one in found.budgets}
    assert (budgets["Evaluations"].spent, budgets["Evaluations"].limit) == (5, config.budget.candidates)
    assert budgets["Money"].spent == 1.25
