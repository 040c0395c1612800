"""What each event adds to the tables that readers query. The same code runs while a run is live and when tables are rebuilt."""

import math
import sqlite3

from evaluator.outcome import Outcome
from population.candidate import Candidate, Origin
from results.events import (
    Event,
    FinalMeasured,
    OutcomeMerged,
    RunStarted,
    RunStopped,
    StepAsked,
    StepEvaluated,
    StepFolded,
    StepMerged,
    StepPosed,
    TimeSpent,
)

CANDIDATE = "VALUES (?, ?, ?, ?, ?, ?, ?, COALESCE((SELECT depth + 1 FROM candidates WHERE id = ?), 0), ?)"


def project(db: sqlite3.Connection, seq: int, at: float, event: Event) -> None:
    """Add one event to the projections inside the caller's transaction.

    Raises ValueError where the event contradicts what is stored: a step posed, asked, evaluated or folded twice, or not asked.
    """
    match event:
        case RunStarted():
            _start(db, at, event)
        case StepPosed():
            _pose(db, seq, at, event)
        case StepAsked():
            _ask(db, seq, at, event)
        case StepEvaluated():
            _require_step(db, event.step_number)
            values = (event.step_number, seq, at, *_figures(event.outcome))
            _insert(db, "outcomes", values, f"step {event.step_number} already has an outcome")
        case StepFolded():
            _fold(db, event)
        case FinalMeasured():
            _insert(db, "finals", (seq, at, *_figures(event.outcome)), f"event {seq} was stored twice")
        case StepMerged():
            if event.candidate is not None:
                _merge_candidate(db, seq, event.candidate, event.asked.step.parent_id)
        case OutcomeMerged():
            _merge_outcome(db, seq, at, event)
        case TimeSpent():
            db.execute("UPDATE run SET spent_s = spent_s + ?", (event.wall_s,))
        case RunStopped():
            db.execute("UPDATE run SET stopped_by = ?", (event.reason,))


def _insert(db: sqlite3.Connection, table: str, values: tuple[object, ...], conflict: str) -> None:
    try:
        db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", tuple(map(_storable, values)))
    except sqlite3.IntegrityError:
        raise ValueError(conflict) from None


def _storable(value: object) -> object:
    """The value, lone surrogates escaped: the file's text is UTF-8, and the exact text is in the event."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _require_step(db: sqlite3.Connection, number: int) -> tuple[str | None, str | None]:
    row: tuple[str | None, str | None] | None = db.execute(
        "SELECT candidate_id, parent_id FROM steps WHERE number = ?", (number,)
    ).fetchone()
    if row is None:
        raise ValueError(f"step {number} was never asked")
    return row


def _start(db: sqlite3.Connection, at: float, event: RunStarted) -> None:
    card = event.card
    values = (
        *(1, event.name, event.config_hash, event.version),
        *(card.name, card.hash, card.scenario_set, len(card.scenarios)),
        *(at, 0.0, None, None),
    )
    _insert(db, "run", values, "the run was already started")


def _pose(db: sqlite3.Connection, seq: int, at: float, event: StepPosed) -> None:
    number = event.step.number
    if db.execute("SELECT 1 FROM steps WHERE number = ?", (number,)).fetchone() is not None:
        raise ValueError(f"step {number} was already asked")
    _insert(db, "posed", (number, seq, at, event.prompt_hash), f"step {number} was already posed")
    _goes_on(db)


def _ask(db: sqlite3.Connection, seq: int, at: float, event: StepAsked) -> None:
    step, question, answer, candidate = event.step, event.question, event.answer, event.candidate
    usage = answer.usage if answer else None
    values = (
        *(step.number, step.id, seq, at, step.origin, step.island, step.parent_id, step.candidate_id, event.duplicate_of),
        *((question.id, question.entry_id, question.layer, question.moment, question.text) if question else (None,) * 5),
        answer.answerer if answer else None,
        *((usage.prompt_tokens + usage.answer_tokens, usage.cost_usd, usage.wall_s) if usage else (0, 0.0, 0.0)),
        *((event.header.hypothesis, event.header.claim) if event.header else (None, None)),
        event.rejected.reason if event.rejected else None,
        *(None, None, None),
    )
    _insert(db, "steps", values, f"step {step.number} was already asked")
    if candidate is not None:
        edge = (step.number, step.origin, step.island, step.parent_id)
        db.execute(
            f"INSERT INTO candidates {CANDIDATE} ON CONFLICT (id) DO UPDATE SET step_number = excluded.step_number, "
            "origin = excluded.origin, island = excluded.island, parent_id = excluded.parent_id, depth = excluded.depth, "
            "seq = excluded.seq WHERE step_number IS NULL",
            (candidate.id, candidate.normal_id, candidate.language, *edge, step.parent_id, seq),
        )
    _goes_on(db)


def _merge_candidate(db: sqlite3.Connection, seq: int, candidate: Candidate, parent_id: str | None) -> None:
    edge = (None, Origin.MERGED, None, parent_id)
    values = (candidate.id, candidate.normal_id, candidate.language, *edge, parent_id, seq)
    db.execute(f"INSERT OR IGNORE INTO candidates {CANDIDATE}", values)


def _merge_outcome(db: sqlite3.Connection, seq: int, at: float, event: OutcomeMerged) -> None:
    _merge_candidate(db, seq, event.candidate, None)
    outcome, device = event.outcome, event.outcome.device
    place = (outcome.effort, device.name, device.arch, device.versions.get("driver"), event.came_from)
    cheats = outcome.fault is not None and bool(outcome.fault.cheats)
    values = (seq, at, *_figures(outcome), *place, event.comparable, cheats)
    _insert(db, "elsewhere", values, f"event {seq} was stored twice")


def _goes_on(db: sqlite3.Connection) -> None:
    db.execute("UPDATE run SET stopped_by = NULL WHERE stopped_by IS NOT NULL")


def _fold(db: sqlite3.Connection, event: StepFolded) -> None:
    candidate_id, parent_id = _require_step(db, event.step_number)
    changed = db.execute(
        "UPDATE steps SET status = ?, accepted = ?, gain = ? WHERE number = ? AND status IS NULL",
        (event.status, event.accepted, _gain(db, candidate_id, parent_id) if event.accepted else 0.0, event.step_number),
    )
    if changed.rowcount != 1:
        raise ValueError(f"step {event.step_number} was already folded")
    db.execute("UPDATE run SET best_id = ?", (event.best_id,))


def _gain(db: sqlite3.Connection, candidate_id: str | None, parent_id: str | None) -> float:
    """Natural logarithm of the candidate's geometric mean over its parent's, at least 0; 0 where one has none."""
    query = "SELECT geomean, opponent FROM outcomes WHERE candidate_id = ? AND geomean IS NOT NULL ORDER BY seq DESC LIMIT 1"
    child = db.execute(query, (candidate_id,)).fetchone()
    parent = db.execute(query, (parent_id,)).fetchone()
    if child is None or parent is None or child[1] != parent[1] or child[0] <= 0 or parent[0] <= 0:
        return 0.0
    return max(0.0, math.log(child[0] / parent[0]))


def _figures(outcome: Outcome) -> tuple[object, ...]:
    fitness = outcome.fitness
    scores: tuple[object, ...] = (None,) * 7
    if fitness is not None:
        bounds = (fitness.low, fitness.geomean, fitness.high)
        scores = (fitness.opponent, fitness.scenarios, *bounds, fitness.worst_scenario, fitness.worst_ratio)
    head = (outcome.candidate_id, outcome.verdict, outcome.stage, outcome.message, outcome.wall_s)
    return (*head, *scores, outcome.noise_floor_pct)
