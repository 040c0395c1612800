"""A made-up search of any length, written as rows at once: 100,000 steps take seconds where events one by one take minutes."""

import json
import math
import random
from pathlib import Path
from typing import Any

from evaluator.outcome import Verdict
from mutators.question import Layer, Moment, Rejection
from population.candidate import hash_text
from results import schema
from results.codec import plain
from results.database import connect_writer, transaction
from results.folder import DATABASE
from results.store import Store
from tests.results.makers import asked, evaluated, final, folded, started

ISLANDS = 4
SEEDS = 2
KNOBS = 24
ENTRIES = 60
SECONDS = 3.0
"""Between two steps."""
FATES = (
    ("right", 0.62), (Verdict.COMPILE_ERROR, 0.14), (Verdict.WRONG, 0.08), (Verdict.LAUNCH_ERROR, 0.03), (Verdict.TIMEOUT, 0.02),
    (Verdict.NONFINITE, 0.02), (Verdict.GATE_VIOLATION, 0.02), ("duplicate", 0.03), ("rejected", 0.04),
)  # fmt: skip
MESSAGES = {
    Verdict.COMPILE_ERROR: 'kernel.cu({}): error: identifier "tile_{}" is undefined',
    Verdict.WRONG: "out differs from the reference by {} in s1, allowed are {}",
}
FIGURES = ("opponent", "scenarios", "low", "geomean", "high", "worst_scenario", "worst_ratio")
LAYERS, MOMENTS, REASONS = list(Layer), list(Moment), list(Rejection)


def write_many(folder: Path, steps: int, seed: int = 0) -> None:
    """A run of so many steps in ``folder``: a search that gets better, fails in many ways, and is verified at its end."""
    Store.create(folder, started(name=folder.name), clock=lambda: 1e9).close()
    search = Search(random.Random(seed))
    db = connect_writer(folder / DATABASE)
    try:
        with transaction(db):
            for number in range(steps):
                search.step(number)
                if number % 2000 == 1999 or number == steps - 1:
                    search.flush(db)
            if search.best is not None:
                search.verify(db)
    finally:
        db.close()


class Search:
    """Makes steps in order and keeps the rows that events and their projections would give."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.seq = 1
        self.best: int | None = None
        self.ids: dict[int, str] = {}
        self.knobs: dict[int, tuple[int, ...]] = {}
        self.score: dict[int, float] = {}
        self.depth: dict[int, int] = {}
        self.living: list[int] = []
        self.recent: list[int] = []
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.asked = plain(asked(1, "child", "seed"))
        self.answerless = plain(asked(1, None, "seed", rejected=Rejection.NO_CODE))
        self.seeding = plain(asked(0, "seed"))
        for one in (self.asked, self.seeding):
            one["candidate"].pop("source")
        self.right = plain(evaluated(0, "seed", 1.0))
        self.failed = plain(evaluated(0, "seed", verdict=Verdict.WRONG))

    def step(self, number: int) -> None:
        """One step: asked, evaluated where it made a candidate, folded."""
        if number < SEEDS:
            self._propose(number, None, "right")
            return
        newest = self.living[-40:]
        parent = max(self.chance.sample(newest, min(3, len(newest))), key=lambda one: self.score[one])
        fates, weights = zip(*FATES, strict=True)
        self._propose(number, parent, self.chance.choices(fates, weights)[0])

    def _propose(self, number: int, parent: int | None, fate: str) -> None:
        known = self.chance.choice(self.recent[-50:]) if fate == "duplicate" else None
        candidate_id = self.ids[known] if known is not None else None
        if fate not in ("duplicate", "rejected"):
            knobs = list(self.knobs[parent]) if parent is not None else [0] * KNOBS
            knobs[self.chance.randrange(KNOBS)] = self.chance.randrange(64)
            self.knobs[number] = tuple(knobs)
            self.recent.append(number)
            source = source_of(number, knobs)
            candidate_id = self.ids[number] = hash_text(source)
            self.depth[number] = self.depth[parent] + 1 if parent is not None else 0
            self._row("sources", candidate_id, schema.pack(source))
        at = 1e9 + SECONDS * number
        self._ask(number, parent, candidate_id, known, fate, at)
        status, accepted, gain = "duplicate" if known is not None else "not_added", False, 0.0
        if known is None and candidate_id is not None:
            status, accepted, gain = self._evaluate(number, parent, fate, at + 2)
        best_id = self.ids[self.best] if self.best is not None else None
        word = {"status": status, "accepted": accepted, "best_id": best_id}
        self._event("StepFolded", at + 2.5, plain(folded(number, None)) | word)
        step = self.rows["steps"][-1]
        self.rows["steps"][-1] = (*step[:-3], status, int(accepted), gain)

    def _ask(self, number: int, parent: int | None, candidate_id: str | None, known: int | None, fate: str, at: float) -> None:
        """The event and rows of a step whose answer was taken in."""
        parent_id = self.ids[parent] if parent is not None else None
        kind = self.seeding if parent is None else self.answerless if candidate_id is None else self.asked
        event = json.loads(json.dumps(kind))
        edge = {"number": number, "island": number % ISLANDS, "parent_id": parent_id, "candidate_id": candidate_id}
        event["step"] |= edge
        new = known is None and candidate_id is not None
        if new:
            event["candidate"] |= {"id": candidate_id, "normal_id": hash_text(f"normal {candidate_id}")}
        elif candidate_id is not None:
            event["candidate"], event["duplicate_of"] = None, candidate_id
        question = event["question"]
        if question is not None:
            entry = self.chance.randrange(ENTRIES)
            text = f"Question {entry}: {self.chance.randrange(255)} registers at step {number}: what would half a tile cost?"
            question |= {
                "entry_id": f"entry_{entry}", "layer": LAYERS[entry % len(LAYERS)].value, "text": text, "id": hash_text(text),
                "moment": self.chance.choice(MOMENTS).value,
            }  # fmt: skip
            event["header"]["prediction"]["all"] = round(self.chance.uniform(0.95, 1.3), 3)
            event["header"]["hypothesis"] = f"Half the width leaves room for {number % 7} more warps on each multiprocessor."
        if event["rejected"] is not None:
            event["rejected"]["reason"] = self.chance.choice(REASONS).value
        seq = self._event("StepAsked", at, event, candidate_id if new else None)
        origin, usage = event["step"]["origin"], event["answer"]["usage"] if event["answer"] else None
        put = [question[name] for name in ("id", "entry_id", "layer", "moment", "text")] if question else [None] * 5
        cost = [usage["prompt_tokens"] + usage["answer_tokens"], usage["cost_usd"], usage["wall_s"]] if usage else [0, 0.0, 0.0]
        said = [event["header"]["hypothesis"], event["header"]["claim"]] if event["header"] else [None, None]
        step_id = hash_text("\n".join([str(number), origin, str(number % ISLANDS), parent_id or "", candidate_id or ""]))
        self._row(
            "steps", number, step_id, seq, at, origin, number % ISLANDS, parent_id, candidate_id, event["duplicate_of"], *put,
            event["answer"] and event["answer"]["answerer"], *cost, *said, event["rejected"] and event["rejected"]["reason"],
            None, None, None,
        )  # fmt: skip
        if new:
            normal_id, depth = event["candidate"]["normal_id"], self.depth[number]
            self._row("candidates", candidate_id, normal_id, "cpp", number, origin, number % ISLANDS, parent_id, depth, seq)

    def _evaluate(self, number: int, parent: int | None, fate: str, at: float) -> tuple[str, bool, float]:
        """The event and row of an outcome; the archive's word, whether it is accepted, and its gain."""
        event = json.loads(json.dumps(self.right if fate == "right" else self.failed))
        found = event["outcome"]
        found |= {"candidate_id": self.ids[number], "wall_s": 2.0}
        event["step_number"] = number
        status, accepted, gain = "not_added", False, 0.0
        figures: tuple[Any, ...] = (None,) * 7
        if fate == "right":
            above = self.score[parent] if parent is not None else 0.8
            score = above * math.exp(self.chance.gauss(-0.004, 0.012)) if parent is not None else above + number / 100
            self.score[number] = score
            fit = found["fitness"]
            fit |= {"geomean": score, "low": score * 0.998, "high": score * 1.002, "worst_ratio": score * 0.9}
            found["timings"] = [
                {**found["timings"][0], "scenario": f"s{k}", "ratio": score * (1 + (k - 1) / 20), "low": score} for k in range(3)
            ]
            figures = tuple(fit[name] for name in FIGURES)
            accepted = parent is not None and score * 0.998 > above
            gain = math.log(score / above) if accepted else 0.0
            best = self.best is None or score > self.score[self.best]
            if best:
                self.best = number
            if accepted or best:
                self.living.append(number)
            status = "best" if best else "added" if accepted else "not_added"
        else:
            text = MESSAGES.get(Verdict(fate), "it ended after {} ms in block {}").format(number % 400, number % 7)
            found |= {"verdict": fate, "message": text}
            found["fault"] |= {"verdict": fate, "message": text}
        seq = self._event("StepEvaluated", at, event)
        head = (found["candidate_id"], found["verdict"], found["stage"], found["message"], found["wall_s"])
        self._row("outcomes", number, seq, at, *head, *figures, found["noise_floor_pct"])
        return status, accepted, gain

    def _event(self, kind: str, at: float, payload: dict[str, Any], candidate_id: str | None = None) -> int:
        self.seq += 1
        self._row("events", self.seq, at, kind, json.dumps(payload, separators=(",", ":")), candidate_id)
        return self.seq

    def _row(self, table: str, *values: Any) -> None:
        self.rows.setdefault(table, []).append(values)

    def flush(self, db: Any) -> None:
        """Write what was made since the last time."""
        for table, rows in self.rows.items():
            db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        self.rows = {}
        db.execute("UPDATE run SET best_id = ?", (self.ids[self.best] if self.best is not None else None,))

    def verify(self, db: Any) -> None:
        """A final of the best, and the end of the run."""
        assert self.best is not None
        event = plain(final("best", self.score[self.best]))
        event["outcome"]["candidate_id"] = self.ids[self.best]
        found, fit, at = event["outcome"], event["outcome"]["fitness"], 1e9 + SECONDS * len(self.ids)
        seq = self._event("FinalMeasured", at, event)
        head = (found["candidate_id"], found["verdict"], found["stage"], found["message"], found["wall_s"])
        self._row("finals", seq, at, *head, *(fit[name] for name in FIGURES), found["noise_floor_pct"])
        self._event("RunStopped", at, {"reason": "candidates"})
        self.flush(db)
        db.execute("UPDATE run SET stopped_by = 'candidates'")


def source_of(number: int, knobs: Any) -> str:
    """A source as long as a small kernel; its knobs say what was changed."""
    lines = [f"// step {number}", "#include <cstddef>", *(f"constexpr int knob_{k} = {value};" for k, value in enumerate(knobs))]
    body = [f"    for (int i = {k}; i < knob_{k}; ++i) out[i] += q[i] * knob_{(k + 1) % KNOBS};" for k in range(KNOBS)]
    return "\n".join([*lines, 'extern "C" void kernel(const float* q, float* out) {', *body, "}", ""])
