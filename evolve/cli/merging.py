"""The command that brings home what was measured elsewhere: merge."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from evolve.cli.inspecting import Json, Run, plain
from evolve.cli.output import Exit, print_json, say, write

# typer would name the type of OTHER list[str]; the command's text says what it is
Others = Annotated[list[str], typer.Argument(metavar="OTHER", hidden=True)]


def merge(
    run: Run,
    others: Others,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would come home, and change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Bring home what was measured elsewhere.

    Each OTHER is a copy of RUN that went on on another machine, another run of the same task and scenarios, or a file of what
    `askevolve evaluate --json` printed; it is only read. What RUN's steps wait for becomes theirs, all else stands beside its own
    outcomes with the device that it was measured on. Of each OTHER all comes or nothing; merging again changes nothing. Exit code
    9 where task, scenarios, harness or a candidate's hash differ.
    """
    from evolve.merge import Refused
    from evolve.merge import merge as bring_home
    from results.folder import find_run

    folder = find_run(run)
    told = bring_home(folder, others, dry_run=dry_run)
    came = [one for one in told if not isinstance(one, Refused)]
    refused = [one for one in told if isinstance(one, Refused)]
    if as_json:
        print_json(
            {
                "run": str(folder), "dry_run": dry_run, "merged": [_document(one) for one in came],
                "refused": [{"other": one.place, "reason": one.reason} for one in refused],
            }
        )  # fmt: skip
    else:
        for one in came:
            write(merge_lines(one, dry_run))
    for failed in refused:
        say(f"askevolve: not merged: {failed.reason}")
    if refused:
        raise SystemExit(Exit.RUN_FOLDER if all(one.damaged for one in refused) else Exit.REFUTED)


def _document(came: Any) -> dict[str, object]:
    from results.codec import plain as to_plain

    return {
        "other": came.place, "name": came.name, "how": came.how.value, "events": kinds(came.events), "mail": came.answers,
        "outcomes": [
            {
                "candidate_id": outcome.candidate_id, "effort": outcome.effort.value, "verdict": outcome.verdict.value,
                "fitness": plain(outcome.fitness), "device": to_plain(outcome.device), "as": place,
            }
            for place, outcome in came.outcomes
        ],
    }  # fmt: skip


def kinds(events: Sequence[Any]) -> dict[str, int]:
    """How many events of each kind."""
    from collections import Counter

    return dict(Counter(type(recorded.event).__name__ for recorded in events))


def merge_lines(came: Any, dry_run: bool) -> list[str]:
    """What came home from one place: in a line, then each outcome with its device and what became of it."""
    from evolve.merge_plan import How
    from population.candidate import short_id
    from results.outcome_text import device_text
    from results.text import count, table

    if came.how is How.NOTHING:
        return [f"{came.place}: nothing new{_mail(came.answers)}"]
    found = kinds(came.events)
    steps = count(found.get("StepAsked", 0) + found.get("StepMerged", 0), "step")
    became = "the run goes on with its events"
    if came.how is How.BESIDE:
        became = f"{found.get('OutcomeMerged', 0)} beside the run's own"
    word = "would come" if dry_run else "came"
    head = f"{came.place}: {steps} and {count(len(came.outcomes), 'outcome')} {word} home, {became}{_mail(came.answers)}"
    rows = [
        (
            short_id(outcome.candidate_id),
            outcome.effort,
            outcome.verdict,
            *_ratio(outcome.fitness),
            device_text(outcome.device),
            place,
        )
        for place, outcome in came.outcomes
    ]
    titles = ("candidate", "effort", "verdict", "ratio", "interval", "measured on", "as")
    return [head, *table(titles, rows)] if rows else [head]


def _mail(answers: int) -> str:
    return f"; {answers} answers or questions from its mailbox" if answers else ""


def _ratio(fitness: Any) -> tuple[str, str]:
    from results.text import interval

    return ("", "") if fitness is None else (f"{fitness.geomean:.3f}x", interval(fitness.low, fitness.high))
