"""Every kernel of a run in a small form: what a page without a server shows of it, its source as changes to its parent's."""

import zlib
from functools import lru_cache
from typing import Any

from results.dashboard.diffs import delta
from results.dashboard.view import Sight
from results.database import damaged
from results.schema import unpack
from results.text import one_line

KERNELS = """
SELECT c.id, c.step_number, c.parent_id, c.language, c.origin, c.depth, s.question, s.entry_id, s.hypothesis, s.gain, s.accepted,
    o.verdict, o.stage, o.message, o.low, o.geomean, o.high, x.body
FROM candidates c JOIN steps s ON s.number = c.step_number JOIN sources x ON x.id = c.id
LEFT JOIN outcomes o ON o.step_number = c.step_number ORDER BY c.step_number
"""
FIELDS = (
    "number", "parent", "language", "origin", "depth", "question", "entry_id", "hypothesis", "gain", "accepted", "verdict",
    "stage", "message", "low", "geomean", "high",
)  # fmt: skip
REMEMBERED = 512


def kernels(sight: Sight) -> dict[str, dict[str, Any]]:
    """Each kernel by the first 16 digits of its id; fields that are empty are left out.

    ``parent`` are the first 16 digits of its parent's. Where this run holds the parent, ``delta`` has the operations that
    ``results.dashboard.diffs.patched`` takes; else ``source`` is the whole text. Raises RunDamaged.
    """
    db, folder = sight.reader.connection, sight.reader.folder

    @lru_cache(REMEMBERED)
    def source(full_id: str) -> str | None:
        row = db.execute("SELECT body FROM sources WHERE id = ?", (full_id,)).fetchone()
        return None if row is None else _text(row[0])

    def _text(body: bytes) -> str:
        try:
            return unpack(body)
        except (ValueError, zlib.error) as error:
            raise damaged(folder, f"a source can't be read: {error}") from error

    found: dict[str, dict[str, Any]] = {}
    for full_id, *values, body in db.execute(KERNELS):
        facts = dict(zip(FIELDS, values, strict=True))
        parent_id, own = facts["parent"], _text(body)
        facts |= {"parent": parent_id and parent_id[:16], "message": facts["message"] and one_line(facts["message"], 400)}
        above = source(parent_id) if parent_id else None
        change = {"source": own} if above is None else {"delta": delta(above, own)}
        found[full_id[:16]] = {name: _short(value) for name, value in facts.items() if value not in (None, "")} | change
    return found


def _short(value: Any) -> Any:
    """Figures with five digits, which is more than was measured."""
    return float(f"{value:.5g}") if isinstance(value, float) else value
