"""The command ``askevolve``. Only light imports here and in the command modules: ``--help`` loads no numpy, torch or Ray."""

import os
import sys

import typer

from evolve.cli import (
    answering,
    banking,
    comparing,
    dashboard,
    exporting,
    housekeeping,
    inspecting,
    mcp,
    measuring,
    merging,
    searching,
    setup,
    tasks,
)
from evolve.cli.errors import translate
from evolve.cli.output import Exit, reported, say

ABSENT = {"help": False}  # a group's flag that isn't given would make typer load pydantic to convert its None

app = typer.Typer(
    name="askevolve",
    help="Evolve attention kernels by asking questions: launch a search, inspect it, hand over what it found.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={
        "default_map": {**ABSENT, "install_completion": False, "show_completion": False, "task": ABSENT, "bank": ABSENT}
    },
    epilog="Exit codes: 0 done, 1 fault of ours, 2 usage, 3 configuration, 4 environment, 5 finished but the baseline was not "
    "beaten, 6 run folder, 7 budget, 8 waiting for answers or prompts, 9 a verdict other than OK, a task not admitted, or an "
    "answer, a merge or an export refused, 130 interrupted twice. "
    "ASKEVOLVE_DEBUG=1 shows the traceback of an error.",
)
for command in (setup.init, setup.doctor, searching.run, searching.resume, searching.stop, inspecting.status, inspecting.show,
                inspecting.diff, inspecting.lineage, inspecting.trace, answering.answer, answering.ask, measuring.evaluate,
                measuring.final, exporting.export, comparing.compare, merging.merge, dashboard.dashboard, dashboard.report,
                mcp.mcp, housekeeping.gc):  # fmt: skip
    app.command()(command)
app.command("list")(inspecting.list_runs)
app.command("next")(answering.next_prompt)
app.add_typer(tasks.app, name="task")
app.add_typer(banking.app, name="bank")


def main() -> None:
    """Run the command line; known errors end with one line and their exit code, others with a traceback."""
    debug = os.environ.get("ASKEVOLVE_DEBUG", "") not in {"", "0"}
    try:
        with reported(debug, translate):
            app(prog_name="askevolve")
    except KeyboardInterrupt:
        say("interrupted; nothing stored is lost. Go on with a run: askevolve resume NAME")
        sys.exit(Exit.INTERRUPTED)
