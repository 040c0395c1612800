"""Where a run lives: ``runs/NAME/`` with its store, lock and stop file. Nothing inside names a path outside."""

import os
import re
from pathlib import Path

from results.errors import RunExists, RunMissing, RunNameInvalid, RunUnwritable

DATABASE = "run.db"
MAILBOX = "answers.db"
LOCK = "writer.lock"
STOP = "STOP"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def new_run_folder(name: str, root: Path = Path("runs")) -> Path:
    """A new folder ``root/name``, made here.

    A folder without a run is used as it is. Raises RunNameInvalid, RunExists (a folder of that name holds a run), RunUnwritable.
    """
    folder = root / name
    if not NAME.fullmatch(name):
        raise RunNameInvalid(
            folder,
            f"{name!r} can't name a run",
            "Use up to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit.",
        )
    if holds_run(folder):
        raise RunExists(
            folder, f"A run named {name!r} is already there", f"Go on with `askevolve resume {name}` or choose another name."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunUnwritable(
            folder, f"The run's folder can't be made: {error.strerror}", "Choose a folder that you may write to."
        ) from None
    return folder


def find_run(name_or_path: str | Path, root: Path = Path("runs")) -> Path:
    """The folder of a run, given its name below ``root``, its folder, or its store file. Raises RunMissing."""
    given = Path(name_or_path)
    places = [given, root / given] if len(given.parts) > 1 or given.is_absolute() else [root / given, given]
    for place in places:
        folder = place.parent if place.name == DATABASE else place
        if holds_run(folder):
            return folder
    names = ", ".join(folder.name for folder in runs_in(root)[:10])
    here = f"Runs here: {names}." if names else "Start one with `askevolve run CONFIG`."
    if given.suffix == ".toml" and given.is_file():
        raise RunMissing(given, "That is a run's file and no run", f"A new run begins with `askevolve run {given}`. {here}")
    raise RunMissing(
        places[0],
        f"There is no run {str(name_or_path)!r}",
        f"{here} One that was just started is there once its task and seeds are read, some seconds later.",
    )


def runs_in(root: Path = Path("runs")) -> tuple[Path, ...]:
    """The folders below ``root`` that hold a run, by name."""
    if not root.is_dir():
        return ()
    return tuple(sorted(folder for folder in root.iterdir() if holds_run(folder)))


def holds_run(folder: Path) -> bool:
    """Whether the folder holds a store that was started (an empty file left by a crash doesn't count)."""
    try:
        return (folder / DATABASE).stat().st_size > 0
    except OSError:
        return False


def request_stop(folder: Path) -> None:
    """Ask the run's driver to drain, save and stop. Raises RunMissing, RunUnwritable."""
    if not holds_run(folder):
        raise RunMissing(folder, "There is no run to stop", "See `askevolve list`.")
    try:
        os.close(os.open(folder / STOP, os.O_CREAT | os.O_WRONLY, 0o644))
    except OSError as error:
        raise RunUnwritable(
            folder, f"The stop file can't be written: {error.strerror}", "Press ctrl-C in the run's terminal."
        ) from None


def stop_requested(folder: Path) -> bool:
    """Whether someone asked the run to stop."""
    return (folder / STOP).exists()


def clear_stop(folder: Path) -> None:
    """Forget a request to stop; a driver does so when it starts."""
    (folder / STOP).unlink(missing_ok=True)
