"""One run's steps as flat columns in memory, and as the bytes that a page decodes (docs/dashboard.md has the layout)."""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluator.outcome import NOT_REFUTING, Verdict
from population.candidate import Origin
from results import queries
from results.dashboard.codes import ABSENT, NAMES, Flag
from results.dashboard.payloads import as_text, sql_text
from results.database import translated
from results.reader import Reader

LAYOUT: tuple[tuple[str, str], ...] = (
    ("number", "i4"), ("parent", "i4"), ("depth", "i4"), ("island", "i2"), ("verdict", "u1"), ("stage", "u1"), ("status", "u1"),
    ("flags", "u1"), ("layer", "u1"), ("moment", "u1"), ("question", "i4"), ("origin", "u1"),
    ("low", "f4"), ("geomean", "f4"), ("high", "f4"), ("at", "f4"), ("cost_usd", "f4"), ("tokens", "i4"), ("answer_s", "f4"),
    ("eval_s", "f4"), ("gain", "f4"), ("predicted", "f4"), ("id", "u8"),
)  # fmt: skip
"""Names and types (little-endian) of the columns, in the order in which they travel."""

FIELDS = (
    "number", "parent_id", "candidate_id", "duplicate_of", "island", "origin", "accepted", "rejection", "status", "layer",
    "moment", "entry_id", "asked_at", "cost_usd", "tokens", "answer_s", "gain", "verdict", "stage", "low", "geomean", "high",
    "wall_s", "prediction",
)  # fmt: skip
NOTES_KEPT = 6
ROWS = """
SELECT s.number, s.parent_id, s.candidate_id, s.duplicate_of, s.island, s.origin, s.accepted, s.rejection, s.status,
    s.layer, s.moment, s.entry_id, s.asked_at, s.cost_usd, s.tokens, s.answer_s, s.gain,
    o.verdict, o.stage, o.low, o.geomean, o.high, o.wall_s, json_extract(e.payload, '$.header.prediction') AS prediction
FROM steps s LEFT JOIN outcomes o ON o.step_number = s.number LEFT JOIN events e ON e.seq = s.asked_seq
"""
CHANGED = """
SELECT DISTINCT json_extract(payload, '$.step_number') FROM events WHERE seq > ? AND kind IN ('StepEvaluated', 'StepFolded')
UNION SELECT number FROM steps WHERE number > ?
"""
NOTES = f"""
SELECT at, {sql_text("$.text")} FROM events e WHERE seq > ? AND kind = 'RunNoted' ORDER BY seq DESC LIMIT {NOTES_KEPT}
"""
FINALS = "SELECT candidate_id, verdict FROM finals WHERE seq > ? ORDER BY seq"
HEADLINE = f"SELECT COALESCE(({queries.VERIFIED}), ({queries.BEST}))"
HELD = """
SELECT COALESCE(SUM(json_extract(payload, '$.outcome.facts.lease_s')), 0.0),
    COALESCE(SUM(json_extract(payload, '$.outcome.facts.gpu_busy_s')), 0.0)
FROM events WHERE seq > ? AND kind IN ('StepEvaluated', 'FinalMeasured') AND instr(payload, '"lease_s"')
"""
Column = NDArray[Any]
BATCH = 5000


class Columns:
    """A cache of one run's steps, one row a step in the order of asking; ``refresh`` reads what is new since the last time.

    ``seq`` is the last event seen and ``rows`` the number of steps. ``questions`` and ``statuses`` are the words behind the
    codes that a run brings itself. ``best`` is the row of the candidate to show first, None before there is one. ``held_s`` sums
    the seconds for which evaluations had a GPU to themselves, ``busy_s`` those in which kernels ran. ``rejections``
    counts the answers that were refused, by reason. ``notes`` are the last notes of the driver, newest first, with their times
    (seconds since 1970).
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.seq = 0
        self.rows = 0
        self.questions: dict[str, int] = {}
        self.statuses: dict[str, int] = {}
        self.row_of: dict[str, int] = {}
        self.best: int | None = None
        self.held_s = self.busy_s = 0.0
        self.rejections: Counter[str] = Counter()
        self.notes: tuple[tuple[float, str], ...] = ()
        self._path: frozenset[int] = frozenset()
        self._started_at = 0.0
        self._data: dict[str, Column] = {name: np.zeros(0, np.dtype(kind).newbyteorder("<")) for name, kind in LAYOUT}
        self._changed: NDArray[np.int64] = np.zeros(0, np.int64)

    def __getitem__(self, name: str) -> Column:
        """The column of this name, (rows,); a view that is valid until the next ``refresh``."""
        return self._data[name][: self.rows]

    def refresh(self, reader: Reader) -> int:
        """The last sequence number, after everything stored since the last call was read. Raises RunDamaged, RunInUse."""
        db = reader.connection
        with translated(reader.folder):
            db.execute("BEGIN")
            try:
                self._read(db)
            finally:
                db.execute("COMMIT")
        return self.seq

    def _read(self, db: sqlite3.Connection) -> None:
        last, started = db.execute("SELECT (SELECT MAX(seq) FROM events), started_at FROM run").fetchone()
        if last < self.seq or started != self._started_at:  # another run lies there now
            self._clear()
            self._started_at = started
        if last == self.seq:
            return
        since, self.seq = self.seq, last
        if since == 0:
            cursor = db.execute(f"{ROWS} ORDER BY s.number")
            while rows := cursor.fetchmany(BATCH):
                self._take(rows)
        else:
            numbers = [number for (number,) in db.execute(CHANGED, (since, int(self["number"][-1]) if self.rows else -1))]
            wanted = f"{ROWS} WHERE s.number IN (SELECT value FROM json_each(?)) ORDER BY s.number"
            self._take(db.execute(wanted, (json.dumps(numbers),)).fetchall() if numbers else [])
        self._judge(db.execute(FINALS, (since,)))
        held_s, busy_s = db.execute(HELD, (since,)).fetchone()
        self.held_s, self.busy_s = self.held_s + held_s, self.busy_s + busy_s
        said = [(at, as_text(text)) for at, text in db.execute(NOTES, (since,))]
        self.notes = (*said, *self.notes)[:NOTES_KEPT]
        self._mark(db.execute(HEADLINE).fetchone()[0])

    def _take(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write these steps, known ones into their rows and new ones behind the last."""
        if not rows:
            return
        took = dict(zip(FIELDS, zip(*rows, strict=True), strict=True))
        number = np.array(took["number"], np.int64)
        known = self["number"]
        places = np.searchsorted(known, number)
        fresh = number > (known[-1] if self.rows else -1)
        places[fresh] = self.rows + np.arange(fresh.sum())
        self._grow(self.rows + int(fresh.sum()))
        for place, one, other in zip(places.tolist(), took["candidate_id"], took["duplicate_of"], strict=True):
            if one is not None and other is None:
                self.row_of.setdefault(one, place)
        parents = np.array([self.row_of.get(one, -1) if one is not None else -1 for one in took["parent_id"]])
        values = {
            **_values(took, self._started_at), "parent": np.where(parents < places, parents, -1),
            "status": np.array([_grown(self.statuses, one, ABSENT) for one in took["status"]]),
            "question": np.array([_grown(self.questions, one, -1) for one in took["entry_id"]]),
        }  # fmt: skip
        values["flags"] |= self._data["flags"][places] & int(Flag.BEST_PATH | Flag.FINAL_OK | Flag.FINAL_REFUTED)
        for name, value in values.items():
            self._data[name][places] = value
        self._changed[places] = self.seq
        self.rejections.update(word for word, new in zip(took["rejection"], fresh, strict=True) if new and word is not None)
        self._descend(places[fresh].tolist())

    def _descend(self, places: Iterable[int]) -> None:
        """Fill in the depth of new rows; a parent stands before its children."""
        depth, parent = self._data["depth"], self._data["parent"]
        for place in places:
            above = parent[place]
            depth[place] = depth[above] + 1 if 0 <= above < place else 0

    def _grow(self, rows: int) -> None:
        self.rows = rows
        room = len(self._changed)
        if rows > room:
            more = max(rows - room, room // 2, 256)
            self._data = {name: np.concatenate([column, np.zeros(more, column.dtype)]) for name, column in self._data.items()}
            self._changed = np.concatenate([self._changed, np.zeros(more, np.int64)])

    def _judge(self, finals: Iterable[tuple[str, str]]) -> None:
        """Set the flags of the last final of each candidate."""
        for candidate_id, verdict in finals:
            row = self.row_of.get(candidate_id)
            if row is not None:
                said = Flag.FINAL_OK if verdict == Verdict.OK else Flag.FINAL_REFUTED if verdict not in NOT_REFUTING else 0
                self._data["flags"][row] = self._data["flags"][row] & ~(Flag.FINAL_OK | Flag.FINAL_REFUTED) & 255 | said
                self._changed[row] = self.seq

    def _mark(self, best_id: str | None) -> None:
        """Flag the way from a seed to the best, and rows that left it as changed."""
        self.best = self.row_of.get(best_id) if best_id is not None else None
        path = frozenset(self.ancestry(self.best)) if self.best is not None else frozenset()
        for row in path ^ self._path:
            self._data["flags"][row] ^= Flag.BEST_PATH
            self._changed[row] = self.seq
        self._path = path

    def ancestry(self, row: int) -> list[int]:
        """The rows from this one to its seed, this one first."""
        line, parent = [row], self._data["parent"]
        while 0 <= (above := int(parent[line[-1]])) < line[-1]:
            line.append(above)
        return line

    def still(self) -> "Columns":
        """A copy that later refreshes don't change."""
        found = copy(self)
        found._data = {name: column[: self.rows].copy() for name, column in self._data.items()}
        found.questions, found.statuses, found.row_of = dict(self.questions), dict(self.statuses), dict(self.row_of)
        found.rejections = self.rejections.copy()
        return found

    def names(self) -> dict[str, list[str]]:
        """The words behind the codes of each coded column."""
        return {**NAMES, "questions": list(self.questions), "statuses": list(self.statuses)}

    def wire(self, since: int = 0) -> bytes:
        """The rows that are new or changed after event ``since``, as one header line of JSON and the columns' bytes.

        Header and columns are padded to multiples of 8 bytes each, so that a page can lay typed arrays over them.
        """
        chosen = slice(0, self.rows) if since <= 0 else np.flatnonzero(self._changed[: self.rows] > since)
        parts = [self._data[name][chosen] for name, _ in LAYOUT]
        header = {
            "seq": self.seq, "rows": len(parts[0]), "total": self.rows, "names": self.names(),
            "columns": [list(one) for one in LAYOUT],
        }  # fmt: skip
        line = json.dumps(header, separators=(",", ":")).encode()
        return b"".join([line + b" " * (-(len(line) + 1) % 8) + b"\n", *(_padded(part.tobytes()) for part in parts)])


def _values(took: Mapping[str, tuple[Any, ...]], started_at: float) -> dict[str, Column]:
    """The columns that follow from the fields of the steps alone, (rows,) each."""
    floats = {name: np.array(took[name], float) for name in ("low", "geomean", "high", "cost_usd", "answer_s", "gain")}
    origin = np.array(took["origin"])
    flags = (np.array(took["accepted"], float) == 1) * int(Flag.ACCEPTED)
    flags += (origin == Origin.SEED) * int(Flag.SEED) + (origin == Origin.SWEEP) * int(Flag.SWEEP)
    flags += np.array([one is not None for one in took["duplicate_of"]]) * int(Flag.DUPLICATE)
    flags += np.array([one is not None for one in took["rejection"]]) * int(Flag.REJECTED)
    return {
        **floats, "number": np.array(took["number"]), "island": np.array(took["island"]), "flags": flags,
        "verdict": _codes(took["verdict"], NAMES["verdicts"]), "stage": _codes(took["stage"], NAMES["stages"]),
        "layer": _codes(took["layer"], NAMES["layers"]), "moment": _codes(took["moment"], NAMES["moments"]),
        "origin": _codes(took["origin"], NAMES["origins"]), "at": np.array(took["asked_at"], float) - started_at,
        "tokens": np.minimum(took["tokens"], 2**31 - 1), "eval_s": np.array(took["wall_s"], float),
        "predicted": np.array([_predicted(one) for one in took["prediction"]]),
        "id": np.frombuffer(b"".join(map(_first_bytes, took["candidate_id"], took["duplicate_of"])), "<u8"),
    }  # fmt: skip


def _codes(words: Sequence[str | None], names: Sequence[str]) -> Column:
    code: dict[str | None, int] = {name: place for place, name in enumerate(names)}
    return np.array([code.get(word, ABSENT) for word in words])


def _grown(codes: dict[str, int], word: str | None, absent: int) -> int:
    return absent if word is None else codes.setdefault(word, len(codes))


def _predicted(text: str | None) -> float:
    """The predicted ratio to the parent over all scenarios, or the geometric mean of those by region; NaN where there is none."""
    said = json.loads(text) if text else {}
    values = [said["all"]] if "all" in said else [value for value in said.values() if value > 0]
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values and min(values) > 0 else math.nan


def _first_bytes(candidate_id: str | None, duplicate_of: str | None) -> bytes:
    found = duplicate_of or candidate_id
    return bytes(8) if found is None else bytes.fromhex(found[:16])


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
