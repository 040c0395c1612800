"""Commands that measure: evaluate a file, verify a candidate of a run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from evolve.cli.inspecting import Explain, Id, Json, Run, plain, resolved
from evolve.cli.output import CommandError, Exit, print_json, say, write


def evaluate(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A candidate: .cpp or .cu with its launch plan.", show_default=False)
    ],
    task: Annotated[str, typer.Option(metavar="TASK", help="A task's name or folder.")] = "attention_forward",
    scenarios: Annotated[
        str | None,
        typer.Option(metavar="SET", help="Scenario set; by default the smallest that the candidate covers.", show_default=False),
    ] = None,
    arch: Annotated[str, typer.Option(metavar="ARCH", help="Architecture that a .cu file is built for.")] = "sm_90a",
    final: Annotated[bool, typer.Option("--final", help="Everything that is examined before a number is published.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer blocks and distributions: seconds, wider intervals.")] = False,
    explain: Explain = False,
    as_json: Json = False,
) -> None:
    """Judge a kernel: is it right, and how fast?

    It is timed against the baseline in the same session. Exit code 9 unless the verdict is OK. A .cu file is screened, built
    and gated without a GPU; checking and timing it needs one.
    """
    candidate = _candidate(file)
    if candidate.language == "cu":
        _evaluate_without_gpu(candidate, task, scenarios, arch, as_json)
        return
    from evaluator.outcome import Effort
    from evaluator.task import load_task
    from evolve import measure
    from results.outcome_text import outcome_lines

    chosen = load_task(task)
    set_name = scenarios or measure.covering_set(candidate, chosen)
    card = chosen.card(set_name)
    say(f"judging {file} in {len(card.scenarios)} scenarios of {set_name}, task {chosen.name}")
    effort = Effort.FINAL if final else Effort.SEARCH
    outcome = measure.evaluate(candidate, task, set_name, effort=effort, quick=quick)
    if as_json:
        print_json({"file": str(file), "outcome": plain(outcome)})
    else:
        write(outcome_lines(outcome, explain))
    _raise_unless_ok(outcome)


def _candidate(file: Path) -> Any:
    from population.candidate import Language
    from population.novelty import candidate_of

    try:
        language = Language(file.suffix.removeprefix("."))
    except ValueError:
        raise CommandError(
            f"{file}: a candidate is a .cpp or .cu file, not {file.suffix or 'one without a suffix'}", Exit.USAGE
        ) from None
    try:
        return candidate_of(file.read_bytes().decode("utf-8", "surrogateescape"), language)
    except OSError as error:
        raise CommandError(f"{file}: can't be read ({error.strerror})", Exit.USAGE) from None


def _evaluate_without_gpu(candidate: Any, task: str, scenarios: str | None, arch: str, as_json: bool) -> None:
    """Screen, build and gate a CUDA candidate; say what a GPU would still have to show."""
    from evaluator.cache import BuildCache, default_folder
    from evaluator.cuda.offline import DEVICE_FACTS, Gated, examine
    from evaluator.outcome import Verdict
    from evaluator.task import load_task
    from evolve.measure import covering_set
    from results.outcome_text import DETAIL_LINES, detail_lines
    from results.text import count, table

    if arch not in DEVICE_FACTS:
        raise CommandError(f"--arch {arch}: known architectures are {', '.join(DEVICE_FACTS)}", Exit.USAGE)
    chosen = load_task(task)
    set_name = scenarios or covering_set(candidate, chosen)
    found = examine(candidate.source, chosen, set_name, arch, BuildCache(default_folder()))
    if not isinstance(found, Gated):
        if as_json:
            print_json({"arch": arch, "fault": plain(found)})
        else:
            write([f"{found.verdict} at {found.stage}: {found.message}", *detail_lines(found.detail, DETAIL_LINES)])
        harness = found.verdict is Verdict.HARNESS_FAULT
        raise SystemExit(Exit.ENVIRONMENT if harness else Exit.REFUTED)
    if as_json:
        print_json({"arch": arch, "scenario_set": set_name, "scenarios": list(found.scenarios), "builds": plain(found.facts)})
    else:
        write(
            [
                f"built and gated for {arch}: {count(len(found.facts), 'build')} for {count(len(found.scenarios), 'scenario')} "
                f"of {set_name}"
            ]
        )
        names = sorted({name for facts in found.facts for name in facts})
        builds = [str(number) for number in range(1, len(found.facts) + 1)]
        write(table(("fact", *(f"build {n}" for n in builds)), ((n, *(facts.get(n) for facts in found.facts)) for n in names)))
    raise CommandError(
        "CUDA candidates have no launcher in this version, so this one was neither checked nor timed", Exit.ENVIRONMENT
    )


def final(run: Run, candidate: Id = "best", explain: Explain = False, as_json: Json = False) -> None:
    """Verify a candidate of a run again.

    Fresh secrets, hidden shapes, a full race against baselines and seeds; the outcome is stored in the run. Exit code 9 unless
    the verdict is OK.
    """
    from evolve.measure import verify
    from population.candidate import short_id
    from results.folder import find_run
    from results.outcome_text import outcome_lines
    from results.reader import Reader

    folder = find_run(run)
    with Reader.open(folder) as reader:
        candidate_id = resolved(reader, candidate)
    say(f"verifying {short_id(candidate_id)}: everything is examined anew, which takes many times an evaluation of the search")
    outcome = verify(folder, candidate_id)
    if as_json:
        print_json({"candidate_id": candidate_id, "outcome": plain(outcome)})
    else:
        write(outcome_lines(outcome, explain))
    say(f"stored in {folder}")
    _raise_unless_ok(outcome)


def _raise_unless_ok(outcome: Any) -> None:
    from evaluator.outcome import Verdict

    if outcome.verdict is Verdict.HARNESS_FAULT:
        raise CommandError("the harness failed, the candidate is not to blame; `askevolve doctor` may say why", Exit.UNEXPECTED)
    if outcome.verdict is not Verdict.OK:
        raise SystemExit(Exit.REFUTED)
