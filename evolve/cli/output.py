"""How commands speak: results on stdout, progress and errors on stderr, exit codes with names."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import TextIO

SCHEMA_VERSION = 1
"""Version of every ``--json`` document; raised when a field changes its meaning or goes."""


class Exit(IntEnum):
    """Exit codes of the command line."""

    DONE = 0
    UNEXPECTED = 1
    USAGE = 2
    CONFIG = 3
    ENVIRONMENT = 4
    NOT_BEATEN = 5
    RUN_FOLDER = 6
    BUDGET = 7
    WAITING = 8
    REFUTED = 9
    INTERRUPTED = 130


class CommandError(Exception):
    """Ends a command with one message (what, where, what to do next) and an exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document on stdout; ``schema_version`` comes first, NaN and infinity are refused."""
    _emit(sys.stdout, json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=2, allow_nan=False) + "\n")


def write(lines: Iterable[str]) -> None:
    """Lines of a result on stdout. Control characters, which a candidate may hold, are shown as escapes, never sent."""
    _emit(sys.stdout, "".join(visible(line) + "\n" for line in lines))


def write_source(source: str) -> None:
    """A candidate's source on stdout: byte for byte into a file or pipe, control characters as escapes on a terminal."""
    if sys.stdout.isatty():
        write(source.splitlines())
        return
    try:
        exact = source.encode("utf-8", "surrogateescape")  # bytes of a file that weren't UTF-8
    except UnicodeEncodeError:
        exact = source.encode("utf-8", "surrogatepass")  # half a character, as an answer in JSON may hold
    sys.stdout.flush()
    _guarded(sys.stdout, lambda: sys.stdout.buffer.write(exact))


def say(text: str) -> None:
    """Plain lines of progress or advice on stderr; a stderr that nobody reads any more is no reason to stop."""
    _emit(sys.stderr, "".join(visible(line) + "\n" for line in text.split("\n")))


def visible(line: str) -> str:
    """The line with every character that could steer a terminal or turn the text around written as an escape."""
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode("ascii") for c in line)


@contextmanager
def reported(debug: bool, translate: Callable[[Exception], CommandError | None]) -> Iterator[None]:
    """Turn known errors into one line and an exit code; ``debug`` shows the traceback as well.

    ``translate`` maps the packages' own errors to a CommandError, or gives None for an unknown one.
    """
    try:
        yield
    except Exception as error:
        known = error if isinstance(error, CommandError) else translate(error)
        if debug or known is None:
            import traceback

            say(traceback.format_exc().rstrip())
        if known is None:
            say(
                f"askevolve: unexpected {type(error).__name__}: {error}\n"
                "This is a fault of askevolve; please report it with the traceback above."
            )
            raise SystemExit(Exit.UNEXPECTED) from error
        say(f"askevolve: {known}")
        raise SystemExit(known.code) from error


def _emit(stream: TextIO, text: str) -> None:
    """Write and flush, so that stdout and stderr into one file keep their order; what the encoding lacks becomes '?'."""
    encoding = stream.encoding or "utf-8"
    _guarded(stream, lambda: stream.write(text.encode(encoding, "replace").decode(encoding)))


def _guarded(stream: TextIO, act: Callable[[], object]) -> None:
    """Write, or throw everything away from now on where the reader at the other end is gone (``askevolve ... | head``)."""
    try:
        act()
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
