"""Compares runs that are there: finds them, tells their arms, reads their traces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mutators.attempts import Attempt, attempt_of
from mutators.moments import readded
from results.comparison import Comparison, NotComparableError, comparison_of
from results.comparison_trace import Trace, trace_of
from results.events import Event, StepAsked
from results.folder import find_run, runs_in
from results.reader import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A run's folder and the label it was given, None for none."""

    folder: Path
    label: str | None = None


def named(argument: str, root: Path = Path("runs")) -> tuple[Named, ...]:
    """The runs that ``RUN`` or ``LABEL=RUN`` stands for: one run, or all of a comparison's folder. Raises RunMissing."""
    label, equals, place = argument.partition("=")
    if not equals or "/" in label or any(runs_in(folder) for folder in (root / argument, Path(argument))):
        label, place = "", argument
    elif not label.strip() or not place.strip():
        raise NotComparableError(f"{argument!r}: write LABEL=RUN with both, or RUN alone")
    for folder in (root / place, Path(place)):
        if inside := runs_in(folder):
            return tuple(Named(folder=run, label=label or None) for run in inside)
    return (Named(folder=find_run(place, root), label=label or None),)


def compare(runs: Sequence[Named], levels: Sequence[float] = ()) -> Comparison:
    """The comparison of runs, grouped by label, else by style, and where all are of one style by name.

    Raises NotComparableError where their numbers have no common scale, and ``results.errors.RunError`` about a folder.
    """
    folders = list({one.folder.resolve(): one for one in runs}.values())
    if twice := next(
        (one for one in runs if any(one.folder == other.folder and one.label != other.label for other in runs)), None
    ):
        raise NotComparableError(f"{twice.folder} is given twice under two labels; it can stand in one arm only")
    names = [one.folder.name for one in folders]
    shown = [one.folder.name if names.count(one.folder.name) == 1 else str(one.folder) for one in folders]
    traces = [_trace(one, name) for one, name in zip(folders, shown, strict=True)]
    if all(one.label is None for one in folders) and len({trace.style for trace in traces}) == 1:
        traces = [replace(trace, arm=trace.name) for trace in traces]
    return comparison_of(traces, levels)


def readded_share(events: Sequence[Event]) -> float | None:
    """The share of the lines that answers added which their lineage had deleted before; None where nothing was added."""
    attempts = list(_attempts(events))
    added = sum(len(attempt.added) for attempt in attempts)
    again = sum(found.lines for attempt in attempts if (found := readded(attempt, attempts)) is not None)
    return again / added if added else None


def _trace(one: Named, name: str) -> Trace:
    with Reader.open(one.folder) as reader:
        events = [recorded.event for recorded in reader.events()]
        return trace_of(reader, one.label, name=name, readded_share=readded_share(events))


def _attempts(events: Sequence[Event]) -> Iterator[Attempt]:
    """What each step changed in the source, in the order of asking; nothing else of an attempt is filled in."""
    sources: dict[str, str] = {}
    for event in events:
        if not isinstance(event, StepAsked):
            continue
        if event.candidate is not None:
            sources[event.candidate.id] = event.candidate.source
        yield attempt_of(
            step=event.step,
            accepted=False,
            question=event.question,
            answer=None,
            header=None,
            rejected=event.rejected,
            outcome=None,
            parent_outcome=None,
            source=event.candidate.source if event.candidate else None,
            parent_source=sources.get(event.step.parent_id or ""),
        )
