"""Commands that prepare: init writes a run to start from, doctor says what this machine can do."""

import json
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evolve.cli.inspecting import Json
from evolve.cli.output import CommandError, Exit, print_json, say, write

if TYPE_CHECKING:
    from evaluator.task import Task
    from population.candidate import Language

CONFIG = """\
# A run of askevolve. Every key is optional unless it says otherwise; `askevolve run --dry-run` shows what would happen.

[run]
name = {name:<21} # required; the run's folder is runs/NAME
seed = 1                     # of every random choice of the search

[task]
name = {task:<21} # required: a built-in task, or a folder such as "./my_task"
scenarios = {scenarios:<16} # required: one of the task's scenario sets, see `askevolve task list TASK`
backend = {backend:<18} # or "simulated": invented outcomes in no time, to try settings

[population]
# required: kernels to start from, names of the task's seeds or files such as "./my_kernel.cpp"
seeds = [{seeds}]
islands = 2

[mutation]
answerer = "knobs"           # turns the numbers that a kernel declares; needs no network and no key
stall_after = 10             # attempts without an improvement

[evaluation]
pace = "full"                # or "quick": wider intervals in a few seconds a candidate

[executor]
kind = "ray"                 # or "inline": the same in this process; "processes": several without Ray
workers = 1
lookahead = 2                # proposals that may be open at once

[budget]
candidates = 40              # required: evaluations paid for
hours = 0.5

# [goal]
# expression = "geomean(best_peer) >= 1.0 and correct == all"
"""


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write to.")] = Path(),
    from_source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="A kernel of yours (.cu or .cpp): drafts its plan.", show_default=False),
    ] = None,
    task: Annotated[str, typer.Option(metavar="TASK", help="A task's name or folder.")] = "attention_forward",
) -> None:
    """Write run.toml to start from.

    With --from also the kernel with a plan drafted from its signature; lines to look at are marked `# check:`.
    """
    from evaluator.task import load_task
    from evolve.measure import sets_for
    from population.candidate import Language

    target = folder / "run.toml"
    if target.exists():
        raise CommandError(f"{target} is already there; choose another folder, or move it away", Exit.USAGE)
    chosen = load_task(task)
    language = Language.CPP if from_source is None else _language(from_source)
    files = {}
    if from_source is None:
        seeds = list(chosen.seeds(language)) or ["./my_kernel.cpp"]
    else:
        kernel = folder / from_source.name
        if kernel.exists():
            raise CommandError(
                f"{kernel} is already there; give another folder: askevolve init FOLDER --from {from_source}", Exit.USAGE
            )
        files[kernel] = _drafted(from_source, language, chosen)
        seeds = [f"./{kernel.name}"]
    files[target] = _config(folder, task, sets_for(chosen, language)[0], seeds, "cpu" if language is Language.CPP else "cuda")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{folder}: can't write here ({error.strerror}); choose a folder of yours", Exit.ENVIRONMENT) from None
    write(f"wrote {path}" for path in files)
    if language is Language.CUDA:
        say("this version builds and gates CUDA candidates without launching them: evaluate works, a run needs a later version")
    first = next(iter(files))
    say(f"Next: askevolve {'run' if from_source is None else 'evaluate'} {shlex.quote(str(first))}")


def _language(source: Path) -> "Language":
    from population.candidate import Language

    try:
        return Language(source.suffix.removeprefix("."))
    except ValueError:
        raise CommandError(f"{source}: must be a .cu or .cpp file", Exit.USAGE) from None


def _drafted(source: Path, language: "Language", task: "Task") -> str:
    """The kernel's text with a drafted plan; remarks on it go to stderr."""
    from evaluator.draft import draft
    from evolve.measure import sets_for

    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{source}: can't be read as UTF-8 text ({error})", Exit.USAGE) from None
    drafted = draft(text, language, task.card(sets_for(task, language)[0]))
    for remark in drafted.remarks:
        say(f"look at: {remark}")
    return drafted.text


def _config(folder: Path, task: str, set_name: str, seeds: Sequence[str], backend: str) -> str:
    """The text of run.toml. A task that is a folder is named from the file's own folder, as the configuration wants it."""
    path = os.path.relpath(task, folder) if "/" in task else task
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("._-")[:40]
    return CONFIG.format(
        name=json.dumps(name or "first"),
        task=json.dumps(path if "/" in path or path == task else f"./{path}"),
        scenarios=json.dumps(set_name),
        backend=json.dumps(backend),
        seeds=", ".join(json.dumps(seed) for seed in seeds),
    )


def doctor(
    as_json: Json = False,
    ray_address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Look at this Ray cluster too, machine by machine.", show_default=False)
    ] = None,
) -> None:
    """Say what this machine can do.

    With what to install for the rest. Exit code 4 where the main job can't run.
    """
    from dataclasses import asdict

    from evolve.doctor import examine, fit

    findings = []
    for finding in examine(ray_address):
        findings.append(finding)
        if not as_json:
            write([f"{finding.state:<8} {finding.name}: {finding.detail}"])
            write(f"{'':<8} -> {line}" for line in finding.next_step.splitlines())
    if as_json:
        print_json({"fit": fit(findings), "findings": [asdict(finding) for finding in findings]})
    if not fit(findings):
        raise CommandError("this machine can't run the main job yet; see the lines that say missing", Exit.ENVIRONMENT)
