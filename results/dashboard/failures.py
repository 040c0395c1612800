"""Failures in groups: what is alike in the first line of their evidence counts as one, most frequent first."""

import re
from typing import Any

from results.dashboard.payloads import as_text, sql_text
from results.dashboard.view import Facts, Sight
from results.text import one_line

GROUPS = 200
FAILED = """
SELECT s.number, s.candidate_id, o.verdict, o.stage, o.message, s.entry_id
FROM outcomes o JOIN steps s ON s.number = o.step_number
WHERE o.verdict NOT IN ('OK', 'SLOWER') ORDER BY s.number
"""
REJECTED = f"""
SELECT s.number, s.rejection, {sql_text("$.rejected.message")}, s.entry_id
FROM steps s JOIN events e ON e.seq = s.asked_seq WHERE s.rejection IS NOT NULL ORDER BY s.number
"""
NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def failure_facts(sight: Sight) -> Facts:
    """Groups with verdict, stage, how many, the evidence with ``#`` for every number, first and last example."""
    groups: dict[tuple[str, str, str], dict[str, Any]] = {}
    for number, candidate_id, verdict, stage, message, entry in sight.reader.connection.execute(FAILED):
        _count(groups, (stage, verdict, alike(message)), number, candidate_id, message, entry)
    for number, reason, message, entry in sight.reader.connection.execute(REJECTED):
        _count(groups, ("answer", reason, alike(as_text(message))), number, None, as_text(message), entry)
    found = sorted(groups.values(), key=lambda group: (-group["steps"], group["first"]["number"]))
    return {
        "groups": [{**group, "entries": sorted(group["entries"])[:5]} for group in found[:GROUPS]],
        "total": len(found), "steps": sum(group["steps"] for group in found),
    }  # fmt: skip


def alike(message: str) -> str:
    """The first line of a message with ``#`` in place of numbers, so that the same mistake at another place reads the same."""
    return NUMBERS.sub("#", one_line(message.strip().partition("\n")[0], 200))


def _count(
    groups: dict[tuple[str, str, str], dict[str, Any]],
    key: tuple[str, str, str], number: int, candidate_id: str | None, message: str, entry: str | None,
) -> None:  # fmt: skip
    example = {"number": number, "id": candidate_id, "message": one_line(message, 600)}
    group = groups.setdefault(key, {
        "stage": key[0], "verdict": key[1], "evidence": key[2], "steps": 0, "first": example, "last": example, "entries": set(),
    })  # fmt: skip
    group["steps"] += 1
    group["last"] = example
    if entry is not None:
        group["entries"].add(entry)
