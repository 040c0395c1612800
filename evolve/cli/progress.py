"""Progress of a search on stderr: plain lines, one for each result, the same with and without a tty."""

import time

from evolve.cli.output import say
from mutators.question import Question
from population.candidate import short_id
from results.events import Event, FinalMeasured, RunNoted, StepAsked, StepEvaluated, StepFolded
from results.terminal import fitness_line, one_line, ratio


class Progress:
    """An observer that says what happens; it can't change the search."""

    def __init__(self, candidates: int) -> None:
        self._candidates = candidates
        self._evaluated = 0
        self._questions: dict[int, Question | None] = {}
        self._started_s = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Say a line where the event is worth one."""
        match event:
            case StepAsked(step=step, question=question):
                self._questions[step.number] = question
            case StepEvaluated(step_number=number, outcome=outcome):
                self._evaluated += 1
                fitness = outcome.fitness
                figure = ratio(fitness.geomean, fitness.low, fitness.high) if fitness else one_line(outcome.message, 90)
                self._line(f"step {number}: {outcome.verdict} {figure}  {self._asked(number)}")
            case StepFolded(step_number=number, accepted=True, best_id=best_id):
                self._line(f"step {number}: kept; the best is now {short_id(best_id)}" if best_id else f"step {number}: kept")
            case FinalMeasured(outcome=outcome):
                figure = fitness_line(outcome.fitness) if outcome.fitness else one_line(outcome.message)
                self._line(f"final of {short_id(outcome.candidate_id)}: {outcome.verdict} {figure}")
            case RunNoted(text=text):
                self._line(one_line(text, 300))

    def _asked(self, number: int) -> str:
        question = self._questions.pop(number, None)
        return f"({question.entry_id})" if question else "(seed)"

    def _line(self, text: str) -> None:
        say(f"[{time.monotonic() - self._started_s:6.1f} s, {self._evaluated}/{self._candidates}] {text}")
