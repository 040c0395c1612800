"""After an accepted edit, a few evaluations that turn its knobs, so that a good idea isn't lost to a bad tile size.

A sweep belongs to one candidate, its root, and all its steps start from it. Its first half turns one knob after the other; its
second half follows what that found; its last step joins the values that paid, each where it paid: everywhere, or as a case of
the plan in one region of scenarios. Like every proposal, step k of a run sees the results up to k - lookahead and no others:
while a sweep waits for some of its own, questions are asked. Everything here follows from the state, so a resumed run goes on
with the same sweep.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from evaluator.outcome import Device, Fault
from evaluator.screen import Screened
from evolve.posing import line_of
from evolve.state import State
from evolve.tuning import Adoption, Effect, adoptions, applied, effect_of, turned, values_of
from mutators.attempts import assignment_of, relative_of
from mutators.moves import Move, gains_of, moves_of
from mutators.plan_text import change, without_values
from mutators.question import Header, Layer
from population.candidate import Candidate, Knob, Origin, Step
from population.novelty import candidate_of, normal_form
from results.events import StepAsked

EDITS = frozenset({Origin.QUESTION, Origin.HUMAN})
"""Steps whose edits may be swept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRules:
    """At most so many ``evaluations`` a sweep, the last of which joins what the others found; 0: no sweeps.

    ``conditions`` tell the task's regions apart in a plan; ``screen`` works a candidate's plan out for a device.
    """

    evaluations: int
    conditions: Mapping[str, str]
    screen: Callable[[Candidate, Device], Screened | Fault]

    @property
    def probes(self) -> int:
        """How many steps of a sweep turn a single knob."""
        return max(1, self.evaluations - 1)

    @property
    def first(self) -> int:
        """How many of them look at one knob after the other, whatever comes out."""
        return -(-self.probes // 2)


class Phase(Enum):
    """What a sweep is about: turning one more knob, joining what was found, waiting for its own results, or nothing more."""

    TURN = auto()
    JOIN = auto()
    WAIT = auto()
    OVER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A candidate whose knobs are swept, with the place and layer of the accepted step that made it."""

    candidate: Candidate
    knobs: tuple[Knob, ...]
    island: int
    layer: Layer


class Sweeps:
    """The sweeps of a run: which is under way, and its next step. A view of the state; what it keeps it would find again."""

    def __init__(self, state: State, rules: SweepRules) -> None:
        self._state = state
        self._rules = rules
        self._looked = 0
        """Steps that were looked at for an accepted edit."""
        self._roots: dict[str, Root] = {}
        """Those whose sweep isn't over, oldest first."""
        self._used_up: set[str] = set()
        """Roots without another knob to turn."""

    @property
    def due(self) -> bool:
        """Whether the next step may belong to a sweep; that is known for certain once every open prompt is answered."""
        return bool(self._due())

    def next(self) -> StepAsked | None:
        """The next step of the oldest sweep that isn't waiting, None without one. Where one is due, no step may be open."""
        for root in self._due():
            if self._phase(root) is Phase.TURN:
                if (asked := self._turn(root)) is not None:
                    return asked
                self._used_up.add(root.candidate.id)
            if self._phase(root) is Phase.JOIN:
                joined = self._join(root)
                del self._roots[root.candidate.id]
                if joined is not None:
                    return joined
        return None

    def _due(self) -> list[Root]:
        """Whose sweep may have a step now, oldest first; those that are over are forgotten."""
        self._look()
        phases = {key: self._phase(root) for key, root in self._roots.items()}
        self._roots = {key: root for key, root in self._roots.items() if phases[key] is not Phase.OVER}
        return [root for key, root in self._roots.items() if phases[key] is not Phase.WAIT]

    def _look(self) -> None:
        """Take note of edits that were accepted meanwhile."""
        while self._looked < self._state.folded and self._rules.evaluations:
            asked, attempt = self._state.asked[self._looked], self._state.attempt(self._looked)
            self._looked += 1
            parent_id, layer = asked.step.parent_id, attempt.layer
            if attempt.accepted and asked.step.origin in EDITS and asked.candidate and parent_id and layer:
                knobs = self._state.knobs(asked.candidate.id)
                if knobs and is_structural(self._state.candidate(parent_id), asked.candidate):
                    root = Root(candidate=asked.candidate, knobs=knobs, island=attempt.island, layer=layer)
                    self._roots.setdefault(asked.candidate.id, root)

    def _phase(self, root: Root) -> Phase:
        """What comes next in a sweep, by its steps so far and what of them is folded."""
        state, rules, steps, root_id = self._state, self._rules, self._steps(root), root.candidate.id
        folded = sum(step.number < state.folded for step in steps)
        joined = any(self._move(root, step) is None for step in steps)
        if root_id in state.quarantined or joined or len(steps) >= rules.evaluations:
            return Phase.OVER
        if root_id in state.suspicion.shut_out:
            return Phase.WAIT
        if len(steps) < rules.probes and root_id not in self._used_up:
            return Phase.TURN if len(steps) < rules.first or folded >= rules.first else Phase.WAIT
        return Phase.JOIN if folded == len(steps) else Phase.WAIT

    def _steps(self, root: Root) -> list[Step]:
        """The steps of a sweep so far, oldest first."""
        known = [number for number in self._state.steps_from(root.candidate.id) if number < len(self._state.asked)]
        steps = [self._state.asked[number].step for number in known]
        return [step for step in steps if step.origin is Origin.SWEEP]

    def _move(self, root: Root, step: Step) -> Move | None:
        """The one move that a step of a sweep made, None for the step that joins several."""
        before = assignment_of(root.knobs)
        after = assignment_of(self._state.knobs(step.candidate_id)) if step.candidate_id else {}
        if before.keys() != after.keys():
            return None
        moved = [(key, value) for key, value in after.items() if value != before[key]]
        moves = [move for move in moves_of(root.knobs, root.layer, {}) if [(move.key, move.new)] == moved]
        return moves[0] if moves else None

    def _effects(self, root: Root, steps: Sequence[Step]) -> list[tuple[Step, Effect]]:
        """What the steps of a sweep whose results may be seen were found to do."""
        found = []
        for step in steps:
            move, outcome = self._move(root, step), self._state.outcomes.get(step.candidate_id or "")
            if move is not None and outcome is not None and step.number < self._state.folded:
                after, parent = self._state.knobs(outcome.candidate_id), self._state.outcomes[root.candidate.id]
                effect = effect_of(move, root.knobs, after, outcome, parent, self._state.card)
                found += [(step, effect)] if effect is not None else []
        return found

    def _turn(self, root: Root) -> StepAsked | None:
        """A step that turns the knob of which most is expected, of those that were turned least often: in the first half of a
        sweep over all its steps, then over those whose result isn't known yet.
        """
        steps = self._steps(root)
        children = [
            replace(relative_of(self._state.attempt(step.number), self._state.knobs(effect_id)), ratio=effect.everywhere.ratio)
            for step, effect in self._effects(root, steps)
            if (effect_id := step.candidate_id) is not None
        ]
        gains = gains_of(root.knobs, children, line_of(self._state, root.candidate.id))
        counted = steps if len(steps) < self._rules.first else [step for step in steps if step.number >= self._state.folded]
        turns = Counter(move.key for step in counted if (move := self._move(root, step)) is not None)
        moves = moves_of(root.knobs, root.layer, gains)
        for move in sorted(moves, key=lambda move: (turns[move.key], -move.weight)):
            child = self._child(root, change(root.candidate.source, move.target, move.new), steps)
            if child is not None:
                return self._asked(root, child, turned(move.key, move.old, move.new))
        return None

    def _join(self, root: Root) -> StepAsked | None:
        """A step with every value that paid, those first that paid most, as far as they make a plan together; None for nothing
        new.
        """
        steps, conditions = self._steps(root), self._rules.conditions
        kept: list[Adoption] = []
        best = None
        for one in adoptions([effect for _, effect in self._effects(root, steps)], conditions):
            source = applied(root.candidate.source, root.knobs, [*kept, one], conditions)
            child = candidate_of(source, root.candidate.language) if source is not None else None
            if child is not None and not isinstance(self._screened(root, child), Fault):
                kept, best = [*kept, one], child
        if best is None or self._child(root, best.source, steps) is None:
            return None
        return self._asked(root, best, " and ".join(one.text for one in kept))

    def _child(self, root: Root, source: str | None, steps: Sequence[Step]) -> Candidate | None:
        """The candidate, None where it is known, its plan isn't valid here, or it would do what the root or another step does."""
        if source is None:
            return None
        child = candidate_of(source, root.candidate.language)
        if self._state.known.duplicate(child) is not None:
            return None
        screened = self._screened(root, child)
        if isinstance(screened, Fault):
            return None
        card = self._state.card
        others = [self._state.knobs(step.candidate_id) for step in steps if step.candidate_id]
        same = values_of(screened.knobs, card) in [values_of(knobs, card) for knobs in (root.knobs, *others)]
        return None if same else child

    def _screened(self, root: Root, child: Candidate) -> Screened | Fault:
        return self._rules.screen(child, self._state.outcomes[root.candidate.id].device)

    def _asked(self, root: Root, child: Candidate, text: str) -> StepAsked:
        step = Step(
            number=self._state.next_number,
            origin=Origin.SWEEP,
            island=root.island,
            parent_id=root.candidate.id,
            candidate_id=child.id,
        )
        return StepAsked(step=step, header=Header(hypothesis=text), candidate=child)


def is_structural(parent: Candidate, child: Candidate) -> bool:
    """Whether an edit changed more than comments, white space and the values of knobs."""
    (before, old), (after, new) = without_values(parent.source), without_values(child.source)
    return old != new or normal_form(before) != normal_form(after)
