"""Commands that measure: evaluate a file, verify a candidate of a run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from evolve.cli.inspecting import Id, Json, Run, plain, resolved
from evolve.cli.output import CommandError, Exit, print_json, say, write


def evaluate(
    file: Annotated[Path, typer.Argument(help="A candidate: .cpp or .cu with its launch plan.", show_default=False)],
    task: Annotated[str, typer.Option(help="A task's name or folder.")] = "attention_forward",
    scenarios: Annotated[
        str | None, typer.Option(help="Scenario set; by default the task's first for this backend.", show_default=False)
    ] = None,
    arch: Annotated[str, typer.Option(help="Architecture that a .cu file is built for.")] = "sm_90a",
    final: Annotated[bool, typer.Option("--final", help="Everything that is examined before a number is published.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer blocks and distributions: seconds, wider intervals.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Every check with its figure, every fact.")] = False,
    as_json: Json = False,
) -> None:
    """Judge a kernel: is it right, and how fast against the baseline in the same session? Exit code 9 unless the verdict is OK.

    A .cu file is screened, built and gated without a GPU; checking and timing it needs one.
    """
    candidate = _candidate(file)
    if candidate.language == "cu":
        _evaluate_without_gpu(candidate, task, scenarios, arch, as_json)
        return
    from evaluator.outcome import Effort, Verdict
    from evolve import measure
    from results.terminal import outcome_lines

    effort = Effort.FINAL if final else Effort.SEARCH
    outcome = measure.evaluate(candidate, task, scenarios, effort=effort, quick=quick)
    if as_json:
        print_json({"file": str(file), "outcome": plain(outcome)})
    else:
        write(outcome_lines(outcome, explain))
    if outcome.verdict is Verdict.HARNESS_FAULT:
        raise CommandError("the harness failed, the candidate is not to blame; `askevolve doctor` may say why", Exit.UNEXPECTED)
    if outcome.verdict is not Verdict.OK:
        raise SystemExit(Exit.REFUTED)


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
    from evaluator.task import load_task

    if arch not in DEVICE_FACTS:
        raise CommandError(f"--arch {arch}: known architectures are {', '.join(DEVICE_FACTS)}", Exit.USAGE)
    chosen = load_task(task)
    found = examine(candidate.source, chosen, scenarios or chosen.sets()[0], arch, BuildCache(default_folder()))
    if not isinstance(found, Gated):
        if as_json:
            print_json({"fault": plain(found)})
        else:
            write(
                [
                    f"{found.verdict} at {found.stage}: {found.message}",
                    *("  | " + line for line in found.detail.splitlines()[:20]),
                ]
            )
        raise SystemExit(Exit.REFUTED)
    if as_json:
        print_json({"arch": arch, "builds": [dict(facts) for facts in found.facts], "scenarios": list(found.scenarios)})
    else:
        write([f"built and gated for {arch}: {len(found.facts)} builds for {len(found.scenarios)} scenarios"])
        for facts in found.facts:
            write(["  " + ", ".join(f"{name} {value}" for name, value in sorted(facts.items()))])
    raise CommandError("no launcher for CUDA here: correctness and speed were not examined", Exit.ENVIRONMENT)


def final(run: Run, candidate: Id = "best", as_json: Json = False) -> None:
    """Verify a candidate of a run again: fresh secrets, hidden shapes, a full race against baselines and seeds."""
    from evaluator.outcome import Verdict
    from evolve.measure import verify
    from results.folder import find_run
    from results.reader import Reader
    from results.terminal import outcome_lines

    folder = find_run(run)
    with Reader.open(folder) as reader:
        candidate_id = resolved(reader, candidate)
    outcome = verify(folder, candidate_id)
    if as_json:
        print_json({"candidate_id": candidate_id, "outcome": plain(outcome)})
    else:
        write(outcome_lines(outcome))
    if outcome.verdict is not Verdict.OK:
        raise SystemExit(Exit.REFUTED)
    say(f"verified; stored in {folder}")
