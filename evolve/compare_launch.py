"""Runs the arms of a comparison: equal budgets, the same seeds, in turns, so that a machine's drift hits all of them.

Every run lies in the comparison's folder and is an ordinary run: it can be looked at, answered and resumed like any other. What
is there already says where to go on, so a second call needs nothing but the same words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from evolve import api
from evolve.compare import Named
from evolve.config import ConfigError, RunConfig, changes, overridden, validated
from evolve.parts import assemble
from evolve.stopping import GOES_ON, StopReason
from mutators.arms import Arm
from results.events import Event, StepFolded
from results.folder import holds_run, request_stop, stop_requested
from results.reader import Reader

TURN = 10
"""Steps that are folded before the next arm has its turn."""


class Ended(StrEnum):
    """Why a launch came back: all runs are over, answers are awaited, somebody stopped it, or a run can't go on here."""

    DONE = "done"
    WAITING = "waiting"
    STOPPED = "stopped"
    HINDERED = "hindered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One run of a comparison."""

    folder: Path
    config: RunConfig

    @property
    def stopped_by(self) -> str | None:
        """Why it stopped last, None where it never did."""
        if not holds_run(self.folder):
            return None
        with Reader.open(self.folder) as reader:
            return reader.info().stopped_by

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do for it."""
        return self.stopped_by is not None and self.stopped_by not in GOES_ON


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What came of a launch: why it ended, the runs that can be compared now, those in which nothing right was measured so far,
    and those that it ended with.
    """

    ended: Ended
    runs: tuple[Named, ...]
    empty: tuple[Path, ...]
    at: tuple[Path, ...] = ()


@dataclass(slots=True)
class _Turn:
    """An observer that asks its run to stop, to go on later, once so many steps are folded."""

    folder: Path
    folded: int = 0
    asked: bool = field(default=False)

    def __call__(self, event: Event) -> None:
        self.folded += isinstance(event, StepFolded)
        if self.folded >= TURN and not self.asked and not stop_requested(self.folder):
            self.asked = True
            request_stop(self.folder)


def planned(config: RunConfig, arms: Sequence[Arm], repeats: int, root: Path = Path("runs")) -> tuple[tuple[Planned, ...], ...]:
    """For each repeat its runs, one an arm. Raises ConfigError where one is there and was begun otherwise.

    Repeat k has the configuration's seed plus k - 1 in every arm. Answers that are replayed are taken from a folder of the
    run's or the arm's name where the configured one holds such.
    """
    found = tuple(tuple(_planned(config, arm, repeat, root) for arm in arms) for repeat in range(1, repeats + 1))
    for run in (run for runs in found for run in runs):
        if not holds_run(run.folder):
            continue
        with Reader.open(run.folder) as reader:
            stored, _ = api.stored_config([recorded.event for recorded in reader.events()])
        if differing := changes(stored, run.config):
            lines = "; ".join(f"{key}: {old!r} -> {new!r}" for key, (old, new) in differing.items())
            raise ConfigError(
                f"{run.folder} was begun with another configuration ({lines}); give this comparison a name of its own: "
                "--set run.name=NAME"
            )
    return found


def launch(runs: Sequence[Sequence[Planned]], told: Callable[[str], None]) -> Launched:
    """Go on with every repeat in turn until its runs are over. ``told`` hears what is under way."""
    for repeat, arms in enumerate(runs):
        for run in arms:
            if not run.is_over:
                assemble(run.config).check()
        ended, at = _repeat(arms, repeat, told)
        if ended is not Ended.DONE:
            return _launched(runs, ended, at)
    return _launched(runs, Ended.DONE, ())


def _planned(config: RunConfig, arm: Arm, repeat: int, root: Path) -> Planned:
    name = f"{arm}-{repeat}"
    folder = root / f"compare-{config.run.name}" / name
    words = [f"run.name={name}", f"run.seed={config.run.seed + repeat - 1}", f"mutation.style={arm}"]
    if config.recorded.source is not None:
        words.append(f"recorded.source={_source(config.recorded.source, (name, arm.value), root)}")
    return Planned(folder=folder, config=validated(overridden(config.mapping(), words), "the comparison's configuration"))


def _source(source: str, names: Sequence[str], root: Path) -> str:
    """Where the answers of one run lie: below the source by its name or its arm's, else in the source itself."""
    places = [place / name for place in (root / source, Path(source)) for name in names]
    return next((str(place.resolve()) for place in places if place.is_dir()), source)


def _repeat(arms: Sequence[Planned], repeat: int, told: Callable[[str], None]) -> tuple[Ended, tuple[Path, ...]]:
    """Give the arms their turns until all are over or wait; who begins changes from round to round."""
    left = [run for run in arms if not run.is_over]
    waiting: list[Path] = []
    first = repeat
    while left:
        for run in [*left[first % len(left) :], *left[: first % len(left)]]:
            turn = _Turn(run.folder)
            told(f"{run.config.run.name}: its turn")
            result = _go_on(run, turn)
            told(f"{run.config.run.name}: {_standing(result)}")
            if result.signalled or (result.stopped_by is StopReason.REQUESTED and not turn.asked):
                return Ended.STOPPED, (run.folder,)
            if result.stopped_by is StopReason.REQUESTED:
                continue
            left.remove(run)
            if result.stopped_by is StopReason.WAITING:
                waiting.append(run.folder)
            elif result.stopped_by in GOES_ON:
                return Ended.HINDERED, (run.folder,)
        first += 1
    return (Ended.WAITING, tuple(waiting)) if waiting else (Ended.DONE, ())


def _go_on(run: Planned, turn: _Turn) -> api.RunResult:
    if holds_run(run.folder):
        return api.resume(run.folder, observers=(turn,), until_idle=True, remembers=False)
    return api.run(run.config, root=run.folder.parent, observers=(turn,), until_idle=True, remembers=False)


def _standing(result: api.RunResult) -> str:
    best = result.best
    ratio = f"best {best.over_baseline.ratio:.3f}x{' (verified)' if best.verified else ''}" if best else "nothing right yet"
    return f"{result.candidates} evaluated, {ratio}, {result.stopped_by}"


def _launched(runs: Sequence[Sequence[Planned]], ended: Ended, at: tuple[Path, ...]) -> Launched:
    """The runs that have something to compare, each under its arm, and those that have not."""
    found, empty = [], []
    for run in (run for arms in runs for run in arms):
        if not holds_run(run.folder):
            continue
        with Reader.open(run.folder) as reader:
            if reader.headline() is None:
                empty.append(run.folder)
            else:
                found.append(Named(folder=run.folder, label=run.config.mutation.style))
    return Launched(ended=ended, runs=tuple(found), empty=tuple(empty), at=at)
