"""What can be wrong with a run's folder. Each text says what, where, and what to do next."""

# ruff: noqa: N818  (the names say what is the matter, which reads better where they are caught)

from collections.abc import Sequence
from pathlib import Path


class RunError(Exception):
    """Something about a run's folder that a user can act on; ``folder`` says where."""

    def __init__(self, folder: Path, what: str, next_step: str) -> None:
        super().__init__(f"{what} ({folder}). {next_step}")
        self.folder = folder
        self.what = what
        self.next_step = next_step


class RunMissing(RunError):
    """There is no run at this place, or it was never started."""


class RunExists(RunError):
    """A run of this name is already there."""


class RunNameInvalid(RunError):
    """The name can't be a folder of its own below the folder of runs."""


class RunInUse(RunError):
    """Another process writes to this run."""


class RunDamaged(RunError):
    """The run's file can't be read as a whole."""


class RunTooNew(RunError):
    """A newer version of this program wrote the run."""


class StoreFull(RunError):
    """Nothing more could be written; what was written before is safe."""


class RunUnwritable(RunError):
    """The folder or its file may not be written to."""


class IdUnknown(RunError):
    """No candidate's id begins like this."""


class IdAmbiguous(RunError):
    """Several candidates' ids begin like this; ``matches`` lists them."""

    def __init__(self, folder: Path, prefix: str, matches: Sequence[str]) -> None:
        shown = ", ".join(match[:16] for match in matches[:10]) + (", ..." if len(matches) > 10 else "")
        super().__init__(folder, f"{len(matches)} candidates begin with {prefix!r}: {shown}", "Give more digits.")
        self.matches = tuple(matches)
