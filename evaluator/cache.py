"""The build cache: compiled candidates under the hash of everything that went into them.

An entry is a folder ``KEY[:2]/KEY`` with the artefact and ``entry.json``, written elsewhere and moved into place in one step. It
is verified on every read and rebuilt when damaged. One build per key at a time, across threads and processes.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.backend import Build
from evaluator.outcome import Fault

ARTEFACT, ENTRY = "artefact", "entry.json"
IN_USE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a compiler made: the artefact's bytes (cubin or shared object) and what belongs beside it."""

    artefact: bytes
    log: str = ""
    ptx: str = ""
    facts: Mapping[str, int | float | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a collection removed and what is left."""

    removed: int
    removed_bytes: int
    kept: int
    kept_bytes: int


def default_folder() -> Path:
    """``askevolve`` in the user's cache folder: XDG_CACHE_HOME where it is an absolute path, else ~/.cache.

    Raises OSError for a user without a home.
    """
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not chosen.is_absolute():  # to be ignored, says the XDG specification
        try:
            chosen = Path.home() / ".cache"
        except RuntimeError:
            raise OSError("no folder for compiled kernels: set HOME, or XDG_CACHE_HOME to an absolute path") from None
    return chosen / "askevolve" / "builds"


def cache_key(parts: Mapping[str, object]) -> str:
    """SHA-256 of ``parts`` (JSON values: source, defines, flags, compiler version, architecture, header digest)."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class BuildCache:
    """Compiled candidates in one folder, which is made when missing. Safe to share between threads and processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def build(self, key: str, make: Callable[[], Made | Fault]) -> Build | Fault:
        """The entry of ``key``, made by ``make`` if it is missing or damaged. Faults aren't kept."""
        with self._locked(key):
            found = self._read(key)
            if found is not None:
                os.utime(self._path(key) / ENTRY)
                return found
            made = make()
            if isinstance(made, Fault):
                return made
            self._write(key, made)
            return Build(key=key, path=self._path(key) / ARTEFACT, log=made.log, ptx=made.ptx, facts=made.facts)

    def gc(self, max_bytes: int, now_s: float) -> Collected:
        """Remove the entries used longest ago until at most ``max_bytes`` are left.

        Entries used in the ten minutes before ``now_s`` (seconds since the epoch) stay.
        """
        entries = sorted((path.stat().st_mtime, path.parent) for path in self.folder.glob(f"??/*/{ENTRY}"))
        sizes = {folder: _size_bytes(folder) for _, folder in entries}
        total = sum(sizes.values())
        removed: list[Path] = []
        for used_s, folder in entries:
            if total <= max_bytes or used_s > now_s - IN_USE_S:
                break
            with self._locked(folder.name):
                self._discard(folder.name)
                self._lock_path(folder.name).unlink(missing_ok=True)
            total -= sizes[folder]
            removed.append(folder)
        return Collected(
            removed=len(removed),
            removed_bytes=sum(sizes[folder] for folder in removed),
            kept=len(entries) - len(removed),
            kept_bytes=total,
        )

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key

    def _lock_path(self, key: str) -> Path:
        return self.folder / "locks" / key

    @contextlib.contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """Hold the key's lock file; one that a collection removed while we waited is made anew."""
        path = self._lock_path(key)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        while True:
            with path.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    yield
                    return

    def _read(self, key: str) -> Build | None:
        """The entry, or None where it is missing or doesn't match its digest."""
        folder = self._path(key)
        try:
            entry = json.loads((folder / ENTRY).read_text())
            made = Made(artefact=(folder / ARTEFACT).read_bytes(), **entry["made"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if entry.get("digest") != _digest(made):
            return None
        return Build(key=key, path=folder / ARTEFACT, log=made.log, ptx=made.ptx, facts=made.facts)

    def _write(self, key: str, made: Made) -> None:
        folder = self._path(key)
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="new-") as scratch:
            new = Path(scratch) / key
            new.mkdir()
            (new / ARTEFACT).write_bytes(made.artefact)
            (new / ENTRY).write_text(json.dumps({"digest": _digest(made), "made": _beside(made)}))
            self._discard(key)
            new.rename(folder)

    def _discard(self, key: str) -> None:
        shutil.rmtree(self._path(key), ignore_errors=True)


def _beside(made: Made) -> dict[str, object]:
    return {"log": made.log, "ptx": made.ptx, "facts": dict(made.facts)}


def _digest(made: Made) -> str:
    digest = hashlib.sha256(made.artefact)
    digest.update(json.dumps(_beside(made), sort_keys=True).encode())
    return digest.hexdigest()


def _size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
