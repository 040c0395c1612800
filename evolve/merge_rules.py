"""Where an outcome that was measured elsewhere belongs in a run: with a step that waits for it, among the finals, or beside them.

The population holds the run's own steps alone. An outcome from elsewhere becomes the result of a step where that step waits for
one, the outcome compares with those the run has, and the step's own evaluation would have asked the same. Everything else stands
beside, with its device, and is never pooled with the run's own figures.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from evaluator.outcome import NOT_REFUTING, Device, Effort, Outcome, Verdict
from evolve.errors import EnvironmentUnfit
from evolve.state import SAYS_NOTHING, State
from population.candidate import Candidate, hash_text
from results.codec import encode
from results.events import Event, FinalMeasured, OutcomeMerged, StepAsked, StepEvaluated, StepMerged
from results.merge_history import History

Timed = tuple[float, Event]
"""An event and when it happened, in seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """What the figures of a run compare with: one kind of device, and one opponent. None: nothing is measured yet.

    Another driver is no other device, since each ratio is from a race within one session; another number of cores is.
    """

    device: tuple[str, str, str, int] | None = None
    opponent: str | None = None

    def fits(self, outcome: Outcome) -> bool:
        """Whether an outcome compares with those that made the yardstick; with none, nothing does."""
        return self.device is not None and self.admits(outcome)

    def admits(self, outcome: Outcome) -> bool:
        """Whether an outcome compares, or is the first."""
        opponent = outcome.fitness.opponent if outcome.fitness else None
        same = self.opponent is None or opponent is None or self.opponent == opponent
        return same and self.device in (None, kind_of(outcome.device))

    def plus(self, outcome: Outcome) -> "Yardstick":
        """The yardstick once an outcome counts too."""
        opponent = outcome.fitness.opponent if outcome.fitness else None
        return Yardstick(device=self.device or kind_of(outcome.device), opponent=self.opponent or opponent)


def kind_of(device: Device) -> tuple[str, str, str, int]:
    """What makes figures of two devices comparable: kind, name, architecture, cores."""
    return device.kind, device.name, device.arch, device.cores


def measured_alike(yardstick: Yardstick, outcome: Outcome) -> Yardstick:
    """The yardstick of a run with one more outcome of its own. Raises EnvironmentUnfit for one of another kind of device."""
    if outcome.verdict is Verdict.HARNESS_FAULT:
        return yardstick
    if yardstick.device not in (None, kind_of(outcome.device)):
        _, name, arch, cores = yardstick.device
        raise EnvironmentUnfit(
            f"the run was measured on {name} ({arch}, {cores} cores), and here is {outcome.device.name} ({outcome.device.arch}, "
            f"{outcome.device.cores} cores): numbers of different devices aren't compared. Go on there; or start a run "
            "of its own here, with the best kernel (`askevolve show RUN ID --source`) as its seed"
        )
    return yardstick.plus(outcome)


def yardstick_of(outcomes: Iterable[Outcome]) -> Yardstick:
    """The yardstick that a run's own outcomes make, oldest first; a fault of the harness tells nothing."""
    yardstick = Yardstick()
    for outcome in outcomes:
        if outcome.verdict is not Verdict.HARNESS_FAULT:
            yardstick = yardstick.plus(outcome)
    return yardstick


class Placing:
    """Collects the events by which a run takes in what lies elsewhere; each thing that it has already is left out.

    ``state`` is the run's, from its ``home`` history; it is only read.
    """

    def __init__(self, home: History, state: State, came_from: str) -> None:
        self.events: list[Timed] = []
        self._state = state
        self._came_from = came_from
        self._yardstick = yardstick_of(event.outcome for event in home.outcomes.values())
        self._waiting = {request.candidate.id: number for number, request in state.waiting.items() if not request.thorough}
        self._waiting_steps = set(state.waiting)
        self._finals = dict(state.finals)
        stored = [recorded.event for recorded in home.events]
        held = [event.outcome for event in stored if isinstance(event, StepEvaluated | FinalMeasured | OutcomeMerged)]
        steps = [event.asked for event in stored if isinstance(event, StepMerged)]
        self._outcomes = {_key(outcome) for outcome in held}
        self._steps = {_key(step) for step in (*steps, *map(_bare, home.asked))}

    def has(self, event: Event) -> bool:
        """Whether the run keeps the very same step or outcome of elsewhere already."""
        match event:
            case StepMerged(asked=asked):
                return _key(asked) in self._steps
            case OutcomeMerged(outcome=outcome):
                return _key(outcome) in self._outcomes
        return False

    def answered(self, at: float, asked: StepAsked) -> None:
        """Take in the answer to a step that waits for it, as it was taken in elsewhere."""
        self.events.append((at, asked))
        self._steps.add(_key(_bare(asked)))
        if asked.candidate is not None:
            self._waiting_steps.add(asked.step.number)

    def evaluated(self, at: float, number: int, outcome: Outcome) -> bool:
        """Take in the outcome of a step that both have; False where it isn't waited for or doesn't compare."""
        if number not in self._waiting_steps or outcome.verdict is Verdict.HARNESS_FAULT or not self._yardstick.admits(outcome):
            return False
        self._settle(at, number, outcome)
        return True

    def step(self, at: float, asked: StepAsked, candidate: Candidate | None, came_from: str = "") -> None:
        """Keep a step that isn't the run's."""
        bare = _bare(asked)
        if _key(bare) not in self._steps:
            self._steps.add(_key(bare))
            self.events.append((at, StepMerged(asked=bare, candidate=candidate, came_from=came_from or self._came_from)))

    def outcome(self, at: float, candidate: Candidate, outcome: Outcome, came_from: str = "") -> None:
        """Put an outcome where it belongs."""
        if _key(outcome) in self._outcomes:
            return
        number = self._waiting.get(candidate.id)
        if outcome.effort is Effort.FINAL and self._counts(outcome):
            self._finals[candidate.id] = outcome
            self.events.append((at, FinalMeasured(outcome=outcome)))
        elif number in self._waiting_steps and self._may_settle(outcome):
            self._settle(at, number, outcome)
        else:
            fits = self._yardstick.fits(outcome)
            name = came_from or self._came_from
            self.events.append((at, OutcomeMerged(candidate=candidate, outcome=outcome, came_from=name, comparable=fits)))
        self._outcomes.add(_key(outcome))

    def _counts(self, final: Outcome) -> bool:
        """Whether a final from elsewhere counts as the run's own: of its own candidate, on its own kind of device, and either
        it refutes or the run has no word of its own yet.
        """
        own = self._state.known.get(final.candidate_id) is not None and self._yardstick.fits(final)
        before = self._finals.get(final.candidate_id)
        silent = before is None or before.verdict in SAYS_NOTHING
        return own and (final.verdict not in NOT_REFUTING or (silent and final.verdict is Verdict.OK))

    def _may_settle(self, outcome: Outcome) -> bool:
        """Whether an outcome that another step, or nobody's step, led to may be the result of a step that waits: it compares, and
        it is a word on the candidate that no other search's best had a part in.
        """
        unfit = {Verdict.HARNESS_FAULT, Verdict.CANCELLED, Verdict.SLOWER}
        return outcome.effort is Effort.SEARCH and outcome.verdict not in unfit and self._yardstick.admits(outcome)

    def _settle(self, at: float, number: int, outcome: Outcome) -> None:
        self._waiting_steps.discard(number)
        self._yardstick = self._yardstick.plus(outcome)
        self._outcomes.add(_key(outcome))
        self.events.append((at, StepEvaluated(step_number=number, outcome=outcome)))


def _bare(asked: StepAsked) -> StepAsked:
    return replace(asked, candidate=None)


def _key(value: Outcome | StepAsked) -> str:
    return hash_text(encode(value))
