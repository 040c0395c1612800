"""What fuzzed candidates must not leave behind, and what a refusal must look like."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from evaluator.outcome import Fault

CANARY = "canary_7f3a_text_of_a_foreign_file"
LONGEST_MESSAGE = 1000
LONGEST_DETAIL = 4096


def canary_file(folder: Path) -> Path:
    """A file that no candidate may read; its text is no C++ and would show in a compiler's message."""
    path = folder / "private.h"
    path.write_text(f"{CANARY} {CANARY};\n")
    return path


@contextmanager
def nothing_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of its own for what runs inside; afterwards no file in it, no descriptor and no process more."""
    temporary = folder / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    me = psutil.Process()
    before = me.num_fds(), {child.pid for child in me.children(recursive=True)}
    yield temporary
    assert os.listdir(temporary) == []
    assert me.num_fds() == before[0]
    assert {child.pid for child in me.children(recursive=True)} <= before[1]


def check_fault(fault: Fault) -> None:
    """One clear message of one line, nothing of a foreign file, nothing that a terminal would obey, no more than a page."""
    assert fault.message.strip()
    assert len(fault.message) <= LONGEST_MESSAGE, fault.message
    assert fault.message.isprintable(), fault.message
    assert len(fault.detail) <= LONGEST_DETAIL
    assert all(letter.isprintable() or letter in "\n\t" for letter in fault.detail), fault.detail
    assert CANARY not in fault.message + fault.detail
    assert "root:" not in fault.message + fault.detail
