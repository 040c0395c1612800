"""Commands that measure: evaluate a file, verify a candidate of a run."""

import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from evolve.cli.inspecting import Explain, Id, Json, Run, plain, resolved
from evolve.cli.output import CommandError, Exit, print_json, say, write

PROGRESS_S = 15.0


class Form(StrEnum):
    """How an outcome is printed."""

    TEXT = "text"
    MD = "md"


# typer would name the type of FILE list[Path]; the command's text says what it is
Files = Annotated[list[Path], typer.Argument(metavar="FILE", hidden=True)]
Scenarios = Annotated[
    str | None,
    typer.Option(metavar="SET", help="Scenario set; by default the smallest that all files cover.", show_default=False),
]
Baseline = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Baseline that counts; by default the first that is here.", show_default=False),
]
Arch = Annotated[str, typer.Option(metavar="ARCH", help="Architecture that a .cu file is built for where no GPU is here.")]


def evaluate(
    files: Files,
    task: Annotated[str, typer.Option(metavar="TASK", help="A task's name or folder.")] = "attention_forward",
    scenarios: Scenarios = None,
    baseline: Baseline = None,
    arch: Arch = "sm_90a",
    final: Annotated[bool, typer.Option("--final", help="Everything that is examined before a number is published.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer blocks and distributions: seconds, wider intervals.")] = False,
    explain: Explain = False,
    form: Annotated[Form, typer.Option("--format", help="Text for a terminal, or Markdown for a page.")] = Form.TEXT,
    as_json: Json = False,
) -> None:
    """Judge kernels: is each right, and how fast?

    Each FILE is a candidate, a .cpp or .cu with its launch plan; all are of one language and timed against the baseline in one
    session. Exit code 9 unless every verdict is OK. Without a GPU a .cu file is screened, built and gated; checking and timing
    it needs one.
    """
    candidates = [_candidate(file) for file in files]
    if len({candidate.language for candidate in candidates}) > 1:
        raise CommandError("the files are of two languages; evaluate .cpp and .cu files in two calls", Exit.USAGE)
    from evaluator.task import load_task
    from evolve.evaluators import gpus_here
    from evolve.measure import covering_set

    chosen = load_task(task)
    set_name = scenarios or covering_set(candidates, chosen)
    no_gpu = gpus_here()[1] if candidates[0].language == "cu" else ""
    if no_gpu:
        _evaluate_without_gpu(files, candidates, chosen, set_name, arch, as_json, no_gpu)
        return
    from evaluator.outcome import Effort
    from evolve import measure

    effort = Effort.FINAL if final else Effort.SEARCH
    hear = _now_and_then()
    outcomes = measure.evaluate(candidates, task, set_name, effort=effort, quick=quick, baseline=baseline, progress=hear)
    about = f"in {len(chosen.card(set_name).scenarios)} scenarios of {set_name}, task {chosen.name}"
    found = []
    for file in files:
        say(f"judging {file} {about}")
        found.append(next(outcomes))
        if not as_json:
            _print(file, found[-1], explain, form, titled=len(files) > 1)
    if as_json:
        rows = [_row(set_name, *judged) for judged in zip(files, candidates, found, strict=True)]
        print_json(rows[0] if len(rows) == 1 else {"evaluations": rows})
    for outcome in sorted(found, key=lambda outcome: outcome.verdict != "HARNESS_FAULT"):
        _raise_unless_ok(outcome)


def _now_and_then() -> Callable[[str], None]:
    """Says what it hears, at most every PROGRESS_S seconds."""
    last_s = time.monotonic()

    def hear(text: str) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= PROGRESS_S:
            last_s = time.monotonic()
            say(f"  {text}")

    return hear


def _print(file: Path, outcome: Any, explain: bool, form: Form, titled: bool) -> None:
    from results.outcome_markdown import outcome_markdown
    from results.outcome_text import outcome_lines

    if form is Form.MD:
        write([*outcome_markdown(file.name, outcome), ""])
    else:
        write([*([f"{file}:"] if titled else []), *outcome_lines(outcome, explain), *([""] if titled else [])])


def _row(set_name: str, file: Path, candidate: Any, outcome: Any) -> dict[str, object]:
    """What ``--json`` says of one file: all that `askevolve merge` needs to bring it to a run."""
    return {"file": str(file), "scenario_set": set_name, "candidate": plain(candidate), "outcome": plain(outcome)}


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


def _evaluate_without_gpu(
    files: Sequence[Path], candidates: Sequence[Any], task: Any, set_name: str, arch: str, as_json: bool, no_gpu: str
) -> None:
    """Screen, build and gate CUDA candidates; say what a GPU would still have to show."""
    from evaluator.cache import BuildCache, default_folder
    from evaluator.cuda.offline import DEVICE_FACTS, Gated, examine
    from evaluator.outcome import Verdict

    if arch not in DEVICE_FACTS:
        raise CommandError(f"--arch {arch}: known architectures are {', '.join(DEVICE_FACTS)}", Exit.USAGE)
    cache = BuildCache(default_folder())
    documents, worst = [], None
    for file, candidate in zip(files, candidates, strict=True):
        found = examine(candidate.source, task, set_name, arch, cache)
        if isinstance(found, Gated):
            facts = {"scenario_set": set_name, "scenarios": list(found.scenarios), "builds": plain(found.facts)}
            documents.append({"file": str(file), "arch": arch, **facts})
        else:
            documents.append({"file": str(file), "arch": arch, "fault": plain(found)})
            harness = found.verdict is Verdict.HARNESS_FAULT
            worst = Exit.ENVIRONMENT if harness or worst is Exit.ENVIRONMENT else Exit.REFUTED
        if not as_json:
            write([*([f"{file}:"] if len(files) > 1 else []), *offline_lines(found, set_name)])
    if as_json:
        print_json(documents[0] if len(documents) == 1 else {"evaluations": documents})
    if worst is not None:
        raise SystemExit(worst)
    raise CommandError(
        f"neither checked nor timed, for want of a GPU: {no_gpu}. Run the same command on a machine that has one (docs/gpu.md)",
        Exit.ENVIRONMENT,
    )


def offline_lines(found: Any, set_name: str) -> list[str]:
    """What could be found out without a GPU: the facts of each build, or why there is none."""
    from evaluator.cuda.offline import Gated
    from results.outcome_text import DETAIL_LINES, detail_lines
    from results.text import count, table

    if not isinstance(found, Gated):
        return [f"{found.verdict} at {found.stage}: {found.message}", *detail_lines(found.detail, DETAIL_LINES)]
    names = sorted({name for facts in found.facts for name in facts})
    builds = [f"build {number}" for number in range(1, len(found.facts) + 1)]
    scenarios = count(len(found.scenarios), "scenario")
    return [
        f"built and gated for {found.arch}: {count(len(found.facts), 'build')} for {scenarios} of {set_name}",
        *table(("fact", *builds), ((name, *(facts.get(name) for facts in found.facts)) for name in names)),
    ]


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
    outcome = verify(folder, candidate_id, _now_and_then())
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
