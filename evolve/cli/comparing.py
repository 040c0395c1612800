"""The command that compares: runs that are there, or arms that it launches."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evolve.cli.inspecting import Json
from evolve.cli.output import CommandError, Exit, print_json, say, write
from evolve.cli.searching import NO_OVERRIDES, Quiet, Set

if TYPE_CHECKING:
    from evolve.compare import Named
    from evolve.compare_launch import Launched
    from mutators.arms import Arm

DEFAULT_ARMS, DEFAULT_REPEATS = "question,command", 3
FIGURE, TABLE = "comparison.svg", "comparison.csv"
Repeats = Annotated[
    int | None,
    typer.Option(metavar="K", min=1, max=1000, help=f"Runs an arm. [default: {DEFAULT_REPEATS}]", show_default=False),
]


def compare(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG | RUN...",
            help="A run's TOML file, whose arms are launched; or runs that are there, each RUN or LABEL=RUN, or a comparison's "
            "folder.",
            show_default=False,
        ),
    ],
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="ARM,ARM", help=f"Launch these: question, command, tools. [default: {DEFAULT_ARMS}]", show_default=False
        ),
    ] = None,
    repeats: Repeats = None,
    overrides: Set = NO_OVERRIDES,
    levels: Annotated[
        str, typer.Option(metavar="RATIO,RATIO", help="Ratios whose answers are counted; a few round ones if not given.")
    ] = "",
    figure: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the curves.", show_default=False)] = None,
    table: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE.csv", help="Write every point of every curve.", show_default=False)
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare arms, or runs, and say what is chance.

    Launched arms have equal budgets and seeds and take turns; the same call goes on where it was stopped. See docs/compare.md.
    """
    if len(what) == 1 and what[0].endswith(".toml"):
        launched = _launched(Path(what[0]), arms or DEFAULT_ARMS, repeats or DEFAULT_REPEATS, overrides, quiet)
        folder = launched.runs[0].folder.parent if launched.runs else None
        if folder is not None:
            _report(launched.runs, levels, figure or folder / FIGURE, table or folder / TABLE, as_json)
        for run in launched.empty:
            say(f"{run} is left out: nothing right was measured in it; `askevolve status {shlex.quote(str(run))}` says why")
        _ended(launched, what[0])
        return
    if arms is not None or repeats is not None or overrides:
        raise CommandError(
            "--arms, --repeats and --set launch the arms of one CONFIG.toml; runs that are there stay as they are", Exit.USAGE
        )
    from evolve.compare import named

    _report([run for argument in what for run in named(argument)], levels, figure, table, as_json)


def _launched(config: Path, arms: str, repeats: int, overrides: Sequence[str], quiet: bool) -> "Launched":
    """Go on with the arms of a configuration."""
    from evolve.compare_launch import launch, planned
    from evolve.config import load_config
    from evolve.parts import assemble
    from mutators.arms import Arm, without_command

    chosen, called = load_config(config, overrides), _arms(arms)
    plain = without_command(assemble(chosen).mutation.bank) if Arm.COMMAND in called else ()
    if plain:
        say(f"without a command of their own, so put as the order about their layer: {', '.join(plain)}")
    if chosen.mutation.answerer == "knobs":
        say("the knobs answerer reads no text: its arms differ by chance alone, which shows how much chance does")
    return launch(planned(chosen, called, repeats), (lambda text: None) if quiet else say)


def _arms(text: str) -> "tuple[Arm, ...]":
    from mutators.arms import Arm

    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in list(Arm)]:
        raise CommandError(f"--arms {text}: there is no arm {unknown[0]!r}; write some of {', '.join(Arm)}", Exit.USAGE)
    return tuple(dict.fromkeys(Arm(name) for name in names))


def _report(runs: "Sequence[Named]", levels: str, figure: Path | None, table: Path | None, as_json: bool) -> None:
    """Print the comparison, and write what was asked for."""
    from evolve.compare import compare as compared
    from results.comparison_text import comparison_csv, comparison_lines, comparison_mapping

    comparison = compared(runs, _levels(levels))
    if as_json:
        print_json(comparison_mapping(comparison))
    else:
        write(comparison_lines(comparison))
    if figure is not None:
        from results.comparison_figure import comparison_svg

        _write(figure, comparison_svg(comparison))
    if table is not None:
        _write(table, comparison_csv(comparison))


def _levels(text: str) -> tuple[float, ...]:
    try:
        levels = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        levels = (0.0,)
    if any(not 0 < level < 1e6 for level in levels):
        raise CommandError(f"--levels {text}: write ratios such as 1.0,1.2", Exit.USAGE)
    return levels


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: can't be written ({error.strerror})", Exit.ENVIRONMENT) from None
    say(f"wrote {path}")


def _ended(launched: "Launched", config: str) -> None:
    """What to do next where not every run is over."""
    from evolve.compare_launch import Ended

    again = f"go on with the same call: askevolve compare {shlex.quote(config)} ..."
    names = [shlex.quote(str(folder)) for folder in launched.at]
    match launched.ended:
        case Ended.DONE:
            return
        case Ended.STOPPED:
            say(f"stopped; nothing is lost, {again}")
        case Ended.WAITING:
            say(f"answers are awaited in {', '.join(names)}: askevolve next {names[0]}; then {again}")
            raise SystemExit(Exit.WAITING)
        case Ended.HINDERED:
            raise CommandError(
                f"{names[0]} can't go on here; `askevolve status {names[0]}` says why. Then {again}", Exit.ENVIRONMENT
            )
