"""How commands speak: results on stdout, progress and errors on stderr, exit codes with names."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

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


def stdout() -> "Console":
    """The console for results; plain text where stdout is no terminal."""
    from rich.console import Console

    return Console(soft_wrap=True, highlight=False, markup=False)


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document on stdout; ``schema_version`` comes first, NaN and infinity are refused."""
    json.dump({"schema_version": SCHEMA_VERSION, **document}, sys.stdout, indent=2, allow_nan=False, ensure_ascii=True)
    sys.stdout.write("\n")


def say(line: str) -> None:
    """One plain line of progress or advice on stderr."""
    sys.stderr.write(line.encode("utf-8", "replace").decode("utf-8") + "\n")
    sys.stderr.flush()


@contextmanager
def reported(debug: bool, translate: Callable[[Exception], CommandError | None]) -> Iterator[None]:
    """Turn known errors into one line and an exit code; ``debug`` shows the traceback as well.

    ``translate`` maps the packages' own errors to a CommandError, or gives None for an unknown one.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        known = error if isinstance(error, CommandError) else translate(error)
        if debug or known is None:
            import traceback

            traceback.print_exc()
        if known is None:
            say(
                f"askevolve: unexpected {type(error).__name__}: {error}\nThis is a fault of askevolve; the traceback above helps."
            )
            raise SystemExit(Exit.UNEXPECTED) from error
        say(f"askevolve: {known}")
        raise SystemExit(known.code) from error


def write(lines: Iterable[str]) -> None:
    """Lines of a result on stdout; what the terminal's encoding lacks becomes a question mark."""
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        sys.stdout.write(line.encode(encoding, "replace").decode(encoding, "replace") + "\n")
