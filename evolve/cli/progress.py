"""Progress of a search on stderr: a plain line for each result and, on a terminal, one live line about what is under way."""

import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from evaluator.outcome import Outcome, Verdict
from evolve.cli.output import say, visible
from population.candidate import short_id
from results.events import WHY_STOPPED, Event, FinalMeasured, RunNoted, StepAsked, StepEvaluated, StepFolded, StepPosed
from results.outcome_text import TOO_NOISY, fitness_line
from results.text import one_line, ratio

if TYPE_CHECKING:
    from rich.status import Status


SEED = "seed"
"""Stands for the question where a step planted a seed; where it turned a knob, that stands there."""

REFRESH_HZ = 2.0
"""How often the live line is drawn: rarely, since timing shares the machine."""


class Progress:
    """An observer that says what happens; it can't change the search. As a context manager it keeps the live line.

    ``total`` is the budget of candidates; ``evaluated``, ``best_id`` and ``waiting`` (number and question of
    each step asked but not evaluated) say where a resumed run stands. ``outside``: answers come from outside, so that every
    prompt is worth a line.
    """

    def __init__(
        self,
        total: int,
        evaluated: int = 0,
        best_id: str | None = None,
        waiting: Mapping[int, str] | None = None,
        outside: bool = False,
    ) -> None:
        self._total = total
        self._evaluated = evaluated
        self._best_id = best_id
        self._outside = outside
        self._best = ""
        self._figures: dict[str, str] = {}
        self._open: dict[int, str] = dict(waiting or {})
        self._started_s = time.monotonic()
        self._live: Status | None = None

    def __enter__(self) -> Self:
        if not self._evaluated:
            self._line("started; secret inputs, their references and the seeds come first, which takes a moment")
        if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            from rich.console import Console

            self._live = Console(stderr=True, highlight=False, markup=False).status("starting", refresh_per_second=REFRESH_HZ)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Say a line where the event is worth one."""
        match event:
            case StepPosed(step=step, question=question) if self._outside:
                self._line(f"step {step.number} is open ({question.entry_id}): `askevolve next` takes it")
            case StepAsked(step=step, question=question, header=header, candidate=candidate):
                if candidate is not None:
                    turned = f"{step.origin} {header.hypothesis}" if header else SEED
                    self._open[step.number] = question.entry_id if question else one_line(turned, 90)
            case StepEvaluated(step_number=number, outcome=outcome):
                self._evaluated += 1
                fitness = outcome.fitness
                figure = ratio(fitness.geomean, fitness.low, fitness.high) if fitness else one_line(outcome.message, 90)
                self._figures[outcome.candidate_id] = figure
                self._line(f"step {number} {outcome.verdict} {figure} ({self._open.pop(number, SEED)}){_meaning(outcome)}")
                if outcome.verdict is Verdict.AMBIGUOUS:
                    self._figures[outcome.candidate_id] += "; a seed leads for want of one that can be ranked"
            case StepFolded(best_id=best_id):
                if best_id is not None and best_id != self._best_id:
                    self._best_id, self._best = best_id, self._figures.get(best_id, "")
                    self._line(f"new best {short_id(best_id)} {self._best}")
            case FinalMeasured(outcome=outcome):
                figure = fitness_line(outcome.fitness) if outcome.fitness else one_line(outcome.message)
                self._line(f"final of {short_id(outcome.candidate_id)}: {outcome.verdict} {figure}{_meaning(outcome)}")
            case RunNoted(text=text, facts=facts) if WHY_STOPPED not in facts:  # which is said at the end
                self._line(one_line(text, 300))
        self._show()

    def _line(self, text: str) -> None:
        say(f"[{time.monotonic() - self._started_s:6.1f} s, {self._evaluated}/{self._total}] {text}")

    def _show(self) -> None:
        """Bring the live line up to date, where there is one."""
        if self._live is None:
            return
        from rich.text import Text

        best = f"; best {self._best}" if self._best else ""
        doing = ", ".join(f"{number} ({question})" for number, question in list(self._open.items())[:3])
        line = f"{self._evaluated}/{self._total} evaluated{best}; under way: {doing or 'the next question'}"
        self._live.update(Text(visible(line), no_wrap=True, overflow="ellipsis"))


def _meaning(outcome: Outcome) -> str:
    """What a verdict means that doesn't speak for itself."""
    return f": {TOO_NOISY}" if outcome.verdict is Verdict.AMBIGUOUS else ""
