"""What questions gave in earlier runs: one small JSON file beside the runs, an entry a run, written under a lock.

Records help a run, they never hinder it: a file that is broken, newer or locked for long reads as no records with a sentence on
why, and a run that can't write its own goes on. A run that is written again replaces its own entry, so nothing counts twice.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from mutators.question import Layer
from mutators.records import MESSAGE, Record, Records

FILE_NAME = "question_records.json"
FORMAT, VERSION = "askevolve question records", 1
LOCK_WAIT_S = 2.0
"""So long a writer waits for another one before it gives up."""

_COUNTS = {name.name: name.type for name in fields(Record)}
_WHOLE = frozenset({"asked", "answered", "accepted", "paid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question's record in one run; ``text`` is kept for what people wrote, which no bank holds."""

    key: str
    layer: Layer
    record: Record
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecords:
    """What one run's questions gave; among the runs of one folder its ``name`` says which it is."""

    name: str
    task: str
    backend: str
    asked: tuple[Asked, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The runs in a file, and what was the matter where they couldn't be read (None: nothing)."""

    runs: tuple[RunRecords, ...] = ()
    problem: str | None = None

    def records(self, backend: str) -> Records:
        """The records of all runs on a backend as one: what is a good question on a CPU may be none on a GPU."""
        return records_in(asked for run in self.runs if run.backend == backend for asked in run.asked)


@dataclass(kw_only=True)
class _Sums:
    entries: dict[str, Record] = field(default_factory=dict)
    layers: dict[Layer, Record] = field(default_factory=dict)


def records_in(asked: Iterator[Asked] | Sequence[Asked]) -> Records:
    """The records that single questions' counts add up to."""
    sums = _Sums()
    for one in asked:
        sums.entries[one.key] = sums.entries.get(one.key, Record()).joined(one.record)
        if not one.key.startswith(f"{MESSAGE}:"):  # told along with a question, which counts for the layer
            sums.layers[one.layer] = sums.layers.get(one.layer, Record()).joined(one.record)
    return Records(entries=dict(sorted(sums.entries.items())), layers=dict(sorted(sums.layers.items())))


def recall(path: Path) -> Remembered:
    """What a file of records holds; a missing one holds nothing."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Remembered()
    except (OSError, UnicodeDecodeError) as error:
        return Remembered(problem=f"{path}: can't be read ({error}); this run learns from itself alone")
    try:
        document = json.loads(text, parse_constant=_refused)
        if document["format"] != FORMAT or document["version"] > VERSION:
            what = f"{path}: of format {document['format']!r}, version {document['version']!r}, where {VERSION} is known"
            return Remembered(problem=f"{what}; update askevolve, or move the file away")
        return Remembered(runs=tuple(_run(run) for run in document["runs"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        return Remembered(problem=f"{path}: holds no records that can be read ({what}); move it away to begin anew")


def remember(path: Path, run: RunRecords, wait_s: float = LOCK_WAIT_S) -> str | None:
    """Put a run's records into the file, in place of what it held about this run; None, or why that wasn't possible."""
    try:
        with _locked(path, wait_s) as got:
            if not got:
                return f"{path}: locked by another process for {wait_s:g} s; the records of {run.name} aren't in it"
            known = recall(path)
            if known.problem is not None:
                return f"{known.problem}; the records of {run.name} aren't in it"
            others = [other for other in known.runs if other.name != run.name]
            _write(path, [*others, run])
    except OSError as error:
        return f"{path}: can't be written ({error.strerror}); the records of {run.name} aren't in it"
    return None


@contextmanager
def _locked(path: Path, wait_s: float) -> Iterator[bool]:
    """Whether this process got the right to write within the time."""
    handle = os.open(path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o644)
    try:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    yield False
                    return
                time.sleep(0.05)
            else:
                yield True
                return
    finally:
        os.close(handle)


def _write(path: Path, runs: Sequence[RunRecords]) -> None:
    document = {"format": FORMAT, "version": VERSION, "runs": [_plain_run(run) for run in runs]}
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_text(json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n", encoding="utf-8")
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _plain_run(run: RunRecords) -> dict[str, object]:
    asked = {
        one.key: {"layer": one.layer.value, **({"text": one.text} if one.text else {}), **plain(one.record)} for one in run.asked
    }
    return {"name": run.name, "task": run.task, "backend": run.backend, "asked": asked}


def plain(record: Record) -> dict[str, int | float]:
    """A record as JSON types, zeros left out."""
    return {name: value for name, value in asdict(record).items() if value}


def record_of(values: Mapping[str, Any]) -> Record:
    """A record from JSON types. ValueError for a count that is none."""
    counts = {name: values[name] for name in _COUNTS if name in values}
    for name, value in counts.items():
        kinds = int if name in _WHOLE else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or value < 0:
            raise ValueError(f"{name} = {value!r} is no count")
    return Record(**counts)


def plain_records(records: Records) -> dict[str, object]:
    """Records as JSON types, for a run's own log."""
    return {
        "entries": {key: plain(record) for key, record in records.entries.items()},
        "layers": {layer.value: plain(record) for layer, record in records.layers.items()},
    }


def records_from(values: Any) -> Records:
    """Records from JSON types, as ``plain_records`` gives them."""
    return Records(
        entries={str(key): record_of(counts) for key, counts in values["entries"].items()},
        layers={Layer(name): record_of(counts) for name, counts in values["layers"].items()},
    )


def _run(values: Mapping[str, Any]) -> RunRecords:
    names = {name: str(values[name]) for name in ("name", "task", "backend")}
    asked = tuple(
        Asked(key=key, layer=Layer(counts["layer"]), record=record_of(counts), text=str(counts.get("text", "")))
        for key, counts in values["asked"].items()
    )
    return RunRecords(asked=asked, **names)


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no number")
