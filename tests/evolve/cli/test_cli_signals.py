"""Signals to a running search, which is a process of its own whose evaluations take a while."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from results.folder import STOP
from tests.evolve.simulation import essence, stored

ROOT = Path(__file__).parents[3]
PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from evaluator.simulated import SimulatedEvaluator
whole = SimulatedEvaluator.evaluate
def slowly(self, request):
    time.sleep({delay_s})
    return whole(self, request)
SimulatedEvaluator.evaluate = slowly
from evolve.cli.app import main
main()
"""


@contextmanager
def running(folder: Path, delay_s: float) -> Iterator[subprocess.Popen[str]]:
    """``askevolve run`` with slow evaluations, past its first result."""
    program = PROGRAM.format(delay_s=delay_s)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, "run", "sim.toml"]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            assert "started" in process.stderr.readline()
            assert "step 0 OK" in process.stderr.readline()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "file"])
def test_the_first_request_drains_saves_and_prints_the_command_that_goes_on(ask, tmp_path: Path, made: Path, how: str) -> None:
    with running(tmp_path, delay_s=0.2) as process:
        if how == "file":
            assert ask("stop", "sim").code == 0
        else:
            process.send_signal(signal.Signals[how])
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err.splitlines()[-1].endswith("Go on: askevolve resume runs/sim")
    assert "stopped on request" in out
    assert ("ctrl-C again quits at once" in err) == (how != "file")
    assert not (tmp_path / "runs" / "sim" / STOP).exists()
    assert ask("status", "sim", "--json").document["run"]["evaluated"] < 12
    assert ask("resume", "sim", "-q").code in (0, 5)
    assert essence(stored(tmp_path / "runs" / "sim")) == essence(stored(made)), "the same end as without a stop"


def test_the_second_ctrl_c_quits_at_once_with_130_and_loses_nothing(ask, tmp_path: Path, made: Path) -> None:
    with running(tmp_path, delay_s=1.5) as process:
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert ask("list", "--json").document["runs"][0]["state"] == "interrupted"
    assert ask("resume", "sim", "-q").code in (0, 5)
    assert essence(stored(tmp_path / "runs" / "sim")) == essence(stored(made))


def test_a_reader_that_goes_away_stops_neither_a_search_nor_its_exit_code(ask, tmp_path: Path) -> None:
    with running(tmp_path, delay_s=0.0) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()
        process.wait(timeout=60)
    assert process.returncode in (0, 5)
    assert ask("status", "sim", "--json").document["run"]["stopped_by"] == "candidates"


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_terminal_gets_one_live_line_and_a_dumb_one_plain_lines(ask, tmp_path: Path, term: str) -> None:
    terminal, end = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": term, "NO_COLOR": "1", "COLUMNS": "60"}
    command = [sys.executable, "-c", PROGRAM.format(delay_s=0.1), "run", "sim.toml", "--set", "budget.candidates=4"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=end) as process:
        os.close(end)
        seen = b"".join(iter(lambda: _read(terminal), b"")).decode()
        process.wait(timeout=60)
    os.close(terminal)
    assert process.returncode in (0, 5)
    assert "step 3 OK" in seen
    assert ("under way: " in seen) == (term == "xterm")
    assert ("\x1b" in seen) == (term == "xterm")
    assert "\x1b[3" not in seen, "no colour"


def _read(terminal: int) -> bytes:
    """What the terminal shows next, nothing once the program at its other end is gone."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
