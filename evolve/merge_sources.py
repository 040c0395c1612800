"""What may be brought home: the store of a run, or what ``askevolve evaluate --json`` printed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator.outcome import Outcome
from evolve.errors import MergeRefused
from population.candidate import Candidate, short_id
from results.codec import CodecError, rebuild
from results.events import FinalMeasured, OutcomeMerged, RunStarted, StepAsked, StepEvaluated, StepMerged
from results.folder import DATABASE, find_run
from results.merge_history import History, history_of
from results.reader import Reader

SCHEMA_VERSION = 1
"""The newest version of a ``--json`` document that is understood here."""

EVALUATE = "`askevolve evaluate FILE --json` prints what is wanted"
AGAIN = "evaluate again with the version of askevolve that is installed here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What lies elsewhere. ``folder`` is the run's, None for a file; ``name`` is how the run at home calls it, without a path.

    ``outcomes`` are all that it holds, with where each stands, for messages. ``prompts`` are texts by hash.
    """

    name: str
    folder: Path | None
    history: History
    candidates: Mapping[str, Candidate]
    outcomes: Sequence[tuple[str, Outcome]]
    prompts: Mapping[str, str]


def brought_from(place: str, home: History) -> Brought:
    """What lies at ``place``, a file of JSON or a run by name or folder; ``home`` is the run that it is brought to.

    Raises MergeRefused for a file that holds no evaluation, ``results.errors.RunError`` where a run can't be read.
    """
    path = Path(place)
    return _of_file(path, home) if path.is_file() and path.name != DATABASE else _of_run(find_run(place))


def start_of(history: History) -> RunStarted:
    """The first event of a run."""
    first = history.events[0].event
    if not isinstance(first, RunStarted):
        raise TypeError("the first event of a run is its start")
    return first


def _of_run(folder: Path) -> Brought:
    with closing(Reader.open(folder)) as reader:
        history = history_of(reader.events())
        posed = history.posed(len(history.decided))
        prompts = {event.prompt_hash: reader.prompt(number) for number, event in posed.items()}
    events = [recorded.event for recorded in history.events]
    candidates = [event.candidate for event in events if isinstance(event, StepAsked | StepMerged | OutcomeMerged)]
    return Brought(
        name=start_of(history).name,
        folder=folder,
        history=history,
        candidates={candidate.id: candidate for candidate in candidates if candidate is not None},
        outcomes=tuple(_outcomes(history)),
        prompts=prompts,
    )


def _outcomes(history: History) -> Iterator[tuple[str, Outcome]]:
    for recorded in history.events:
        match recorded.event:
            case StepEvaluated(step_number=number, outcome=outcome):
                yield f"step {number}", outcome
            case FinalMeasured(outcome=outcome):
                yield f"the final of {short_id(outcome.candidate_id)}", outcome
            case OutcomeMerged(outcome=outcome, came_from=name):
                yield f"what came from {name} about {short_id(outcome.candidate_id)}", outcome


def _of_file(path: Path, home: History) -> Brought:
    """The evaluations in a file; candidates that it doesn't hold are looked for in the run."""
    wanted = start_of(home).card.scenario_set
    known = {asked.candidate.id: asked.candidate for asked in home.asked if asked.candidate is not None}
    candidates: dict[str, Candidate] = {}
    outcomes = []
    for row in _rows(path):
        if (there := row.get("scenario_set", wanted)) != wanted:
            raise MergeRefused(f"{path}: measured in scenarios {there!r}, this run's are {wanted!r}; use --scenarios {wanted}")
        outcome = _outcome(path, row)
        candidate = _candidate(path, row, outcome) or known.get(outcome.candidate_id)
        if candidate is None:
            raise MergeRefused(
                f"{path}: neither it nor the run has the source of {short_id(outcome.candidate_id)}; evaluate again with this "
                "version, whose JSON holds the source"
            )
        candidates[candidate.id] = candidate
        outcomes.append((short_id(candidate.id), outcome))
    return Brought(name=path.name, folder=None, history=History(), candidates=candidates, outcomes=outcomes, prompts={})


def _rows(path: Path) -> Sequence[Mapping[str, Any]]:
    """The evaluations of a document."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise MergeRefused(f"{path}: can't be read as JSON ({error}); {EVALUATE}") from None
    rows = document.get("evaluations", [document]) if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise MergeRefused(f"{path}: holds no evaluation; {EVALUATE}")
    version = document.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise MergeRefused(
            f"{path}: a newer version wrote it (schema {version}, known here is {SCHEMA_VERSION}); install the newer askevolve"
        )
    return rows


def _outcome(path: Path, row: Mapping[str, object]) -> Outcome:
    if row.get("outcome") is None:
        raise MergeRefused(f"{path}: it holds no outcome (without a GPU nothing is checked or timed); {EVALUATE}, where a GPU is")
    try:
        return rebuild(Outcome, row["outcome"])
    except CodecError as error:
        raise MergeRefused(f"{path}: {error}; {AGAIN}") from None


def _candidate(path: Path, row: Mapping[str, object], outcome: Outcome) -> Candidate | None:
    """The candidate that a row holds, None where it holds none."""
    if row.get("candidate") is None:
        return None
    try:
        candidate = rebuild(Candidate, row["candidate"])
    except CodecError as error:
        raise MergeRefused(f"{path}: {error}; {AGAIN}") from None
    if candidate.id != outcome.candidate_id:
        raise MergeRefused(
            f"{path}: the outcome is about {short_id(outcome.candidate_id)} and the source beside it is "
            f"{short_id(candidate.id)}; evaluate that source again"
        )
    return candidate
