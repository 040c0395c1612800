"""Commands that prepare: init writes a run to start from, doctor says what this machine can do."""

from pathlib import Path
from typing import Annotated

import typer

from evolve.cli.inspecting import Json
from evolve.cli.output import CommandError, Exit, print_json, say, write

CONFIG = """\
# A run of askevolve. Every key is optional unless it says otherwise; `askevolve run --dry-run` shows what would happen.

[run]
name = "{name}"             # required; the run's folder is runs/NAME
seed = 1                    # of every random choice of the search

[task]
name = "{task}"             # required: a built-in task, or a folder such as "./my_task"
scenarios = "{scenarios}"   # required: one of the task's scenario sets, see `askevolve task list`
backend = "{backend}"       # cpu or cuda

[population]
seeds = [{seeds}]           # required: kernels to start from, names of the task's seeds or files
islands = 2

[mutation]
answerer = "knobs"          # turns the numbers that a kernel declares; needs no network and no key
stall_after = 10            # attempts without an improvement

[executor]
kind = "ray"                # or "inline": the same in this process
workers = 1
lookahead = 2               # proposals that may be open at once

[budget]
candidates = 40             # required: evaluations paid for
hours = 0.5

# [goal]
# expression = "geomean(best_peer) >= 1.0 and correct == all"
"""


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.")] = Path(),
    from_source: Annotated[
        Path | None, typer.Option("--from", help="A kernel of yours (.cu or .cpp): drafts its plan.", show_default=False)
    ] = None,
    task: Annotated[str, typer.Option(help="The task that the kernel computes.")] = "attention_forward",
) -> None:
    """Write run.toml to start from; with --from also the kernel with a drafted plan."""
    target = folder / "run.toml"
    if target.exists():
        raise CommandError(f"{target} is already there; choose another folder, or move it away", Exit.USAGE)
    values = {"name": folder.resolve().name or "first", "task": task, "scenarios": "cpu_quick", "backend": "cpu"}
    seeds = ["cpu_plain", "cpu_blocked"]
    written: list[Path] = []
    if from_source is not None:
        kernel, language = _drafted(from_source, folder, task)
        seeds = [f"./{kernel.name}"]
        written.append(kernel)
        if language == "cu":
            values |= {"scenarios": "quick3", "backend": "cuda"}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target.write_text(CONFIG.format(**values, seeds=", ".join(f'"{seed}"' for seed in seeds)), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{folder}: can't write here ({error.strerror}); choose a folder of yours", Exit.ENVIRONMENT) from None
    for path in [*written, target]:
        write([f"wrote {path}"])
    say(f"Next: askevolve run {target}")


def _drafted(source: Path, folder: Path, task: str) -> tuple[Path, str]:
    """Write the kernel with a drafted plan into the folder; its path and language."""
    from evaluator.draft import draft

    from evaluator.task import load_task
    from population.candidate import Language

    try:
        language = Language(source.suffix.removeprefix("."))
        text = source.read_text(encoding="utf-8")
    except ValueError:
        raise CommandError(f"{source}: must be a .cu or .cpp file in UTF-8", Exit.USAGE) from None
    except OSError as error:
        raise CommandError(f"{source}: can't be read ({error.strerror})", Exit.USAGE) from None
    chosen = load_task(task)
    drafted = draft(text, language, chosen.card(chosen.sets()[0]))
    target = folder / source.name
    if target.exists():
        raise CommandError(f"{target} is already there; give another folder: askevolve init DIR --from {source}", Exit.USAGE)
    folder.mkdir(parents=True, exist_ok=True)
    target.write_text(drafted.text, encoding="utf-8")
    for remark in drafted.remarks:
        say(f"look at: {remark}")
    return target, language.value


def doctor(as_json: Json = False) -> None:
    """Say what this machine can do, and what to install for the rest. Exit code 4 where the main job can't run."""
    from dataclasses import asdict

    from evolve.doctor import examine, fit
    from results.terminal import table

    findings = list(examine())
    if as_json:
        print_json({"fit": fit(findings), "findings": [asdict(finding) for finding in findings]})
    else:
        write(table(("", "state", "found", "next"), ((f.name, f.state, f.detail, f.next_step) for f in findings)))
    if not fit(findings):
        raise CommandError("this machine can't run the main job yet; see the lines that say missing", Exit.ENVIRONMENT)
