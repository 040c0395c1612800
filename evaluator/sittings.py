"""What a final has measured, kept on disk program by program: one that was stopped goes on in another sitting.

Each line of the file is a scenario that was checked and raced whole. It counts only for the same candidate, task, settings,
device, drivers and baselines, of which its name is a digest; the A/A race, hidden scenarios and secrets are new in each sitting.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from evaluator.cache import default_folder
from evaluator.outcome import Check, Timing
from evaluator.request import Request
from evaluator.session import Session
from evaluator.settings import harness_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one scenario of a final gave.

    ``slower`` holds, by the opponent's name, how many times as long as the primary baseline one takes that wasn't raced for it;
    ``broken`` names opponents that are raced no more; ``at`` is the time (UTC, such as ``2026-11-30 20:00``).
    """

    scenario: str
    checks: tuple[Check, ...]
    timings: tuple[Timing, ...]
    slower: dict[str, float]
    broken: tuple[str, ...]
    notes: tuple[str, ...]
    at: str


def default_sittings() -> Path:
    """``askevolve/sittings`` in the user's cache folder. Raises OSError for a user without a home."""
    return default_folder().with_name("sittings")


class Sittings:
    """The parts of one final, those of earlier sittings first; without a file it keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file = None if path is None else _opened(path)
        self.parts = {} if self._file is None else {part.scenario: part for part in _read(self._file)}

    def add(self, part: Part) -> None:
        """Keep a part, on disk before this returns; once the disk takes no more, in memory only, and the final goes on."""
        self.parts[part.scenario] = part
        if self._file is None:
            return
        line = json.dumps(asdict(part)).encode() + b"\n"
        try:
            if os.write(self._file.fileno(), line) < len(line):
                raise OSError("the line doesn't fit")
            os.fsync(self._file.fileno())
        except OSError:  # a line that is torn is cut off when the file is read again
            self.close(finished=False)
            self._file = None

    def close(self, *, finished: bool) -> None:
        """Let go of the file; a finished final needs it no more."""
        if self._file is None or self._path is None:
            return
        if finished:
            self._path.unlink(missing_ok=True)
        self._file.close()


def sittings_of(session: Session, request: Request) -> Sittings:
    """What earlier sittings of this final left in the session's folder ``sittings``; nothing where it has none."""
    if session.sittings is None:
        return Sittings(None)
    device = asdict(session.backend.device)
    about = {
        "candidate": request.candidate.id,
        "rivals": [rival.id for rival in request.rivals],
        "task": session.card.hash,
        "set": session.card.scenario_set,
        "harness": harness_id(session.settings),
        "device": {name: device[name] for name in ("kind", "name", "arch", "versions")},
        "baselines": {baseline.name: baseline.version() for baseline in session.baselines},
    }
    digest = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()
    return Sittings(session.sittings / f"{request.candidate.id[:12]}-{digest[:20]}.jsonl")


def utc_now() -> str:
    """The time as parts carry it."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M")


def earlier_note(parts: Sequence[Part], scenarios: int) -> str:
    """What an outcome says of the parts that it took over."""
    return (
        f"{len(parts)} of {scenarios} scenarios were checked and raced in an earlier sitting of this final, stopped after "
        f"{max(part.at for part in parts)} UTC, on the same device with the same drivers and baselines"
    )


def _opened(path: Path) -> IO[bytes] | None:
    """The file, ours alone; None where another final is at it or the folder can't be written."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return None
        return file
    return None


def _read(file: IO[bytes]) -> list[Part]:
    """The whole lines; a torn end is cut off, so that what is added next stands on a line of its own."""
    file.seek(0)
    parts = []
    good_bytes = 0
    for line in file:
        part = _part(line) if line.endswith(b"\n") else None
        if part is None:
            break
        parts.append(part)
        good_bytes += len(line)
    file.truncate(good_bytes)
    return parts


def _part(line: bytes) -> Part | None:
    try:
        fields: dict[str, Any] = json.loads(line)
        fields["checks"] = tuple(Check(**each) for each in fields["checks"])
        fields["timings"] = tuple(Timing(**each) for each in fields["timings"])
        return Part(**fields | {name: tuple(fields[name]) for name in ("broken", "notes")})
    except (ValueError, TypeError, KeyError):
        return None
