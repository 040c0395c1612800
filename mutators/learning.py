"""What the records make one believe about layers and questions: how likely an answer pays, how much, and what it costs.

A layer is worth the chance that an answer pays, times the step that it then brings, over its cost. The chance is a Beta belief
about a yes or no, so sampling from it (Thompson) is sound. The step is the mean of the layer's last paid steps, with an
inverse gamma belief as for exponentially distributed steps. Chances of questions lean on their layer's, those of layers on the
mean of all: a hundred arms learn little from sixty answers each alone.
"""

from dataclasses import dataclass

import numpy as np

from mutators.question import Layer
from mutators.records import Record, Records

USUAL_PAID, USUAL_ASKED = 1.0, 4.0
"""What is believed before any answer: one in four pays."""

LEANS_ON_ALL = 20.0
"""Answers that the mean over all layers counts as in a layer's chance: layers differ more in the step than in the chance."""

LEANS_ON_LAYER = 0.4
"""Answers that the layer's mean counts as in a question's chance."""

LAYER_PRIOR, ENTRY_PRIOR, STEP_PRIOR = 20.0, 20.0, 1.0
"""Up to how many answers earlier runs count in a layer's chance and in a question's, with how many paid steps in a layer's step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """A Beta belief: ``paid`` and ``unpaid`` answers, fractions included."""

    paid: float
    unpaid: float

    @property
    def mean(self) -> float:
        """The expected chance."""
        return self.paid / (self.paid + self.unpaid)

    def draw(self, rng: np.random.Generator) -> float:
        """One chance that could be true."""
        return float(rng.beta(self.paid, self.unpaid))


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The run's own ``records`` and those of earlier runs, ``prior``, which count as a few answers at most."""

    records: Records
    prior: Records

    def worth(self, layer: Layer, rng: np.random.Generator) -> float:
        """A draw of what one answer about a layer brings for its cost."""
        return self.layer_chance(layer).draw(rng) * self._step(layer, rng) / self._cost(layer)

    def layer_chance(self, layer: Layer) -> Chance:
        """How likely an answer about this layer pays."""
        paid, asked = USUAL_PAID, USUAL_ASKED
        for known in Layer:
            more_paid, more_asked = _counts(_late(self.records.layers.get(known)), self.prior.layers.get(known), LAYER_PRIOR)
            paid, asked = paid + more_paid, asked + more_asked
        own_paid, own_asked = _counts(_late(self.records.layers.get(layer)), self.prior.layers.get(layer), LAYER_PRIOR)
        return _leaning(own_paid, own_asked, paid / asked, LEANS_ON_ALL)

    def entry_chance(self, entry_id: str, usual: float) -> Chance:
        """How likely an answer to this question pays, where ``usual`` is the chance in its layer."""
        own = self.records.entries.get(entry_id, Record())
        paid, asked = _counts((float(own.paid), float(own.asked)), self.prior.entries.get(entry_id), ENTRY_PRIOR)
        return _leaning(paid, asked, usual, LEANS_ON_LAYER)

    def _step(self, layer: Layer, rng: np.random.Generator) -> float:
        """A draw of log speed that a paid answer brings, in any unit that all layers share."""
        steps = {known: self._steps(known) for known in Layer}
        count, total = (sum(of) for of in zip(*steps.values(), strict=True))
        mean = total / count if count else 1.0
        own_count, own_total = steps[layer]
        return float((mean + own_total) / rng.gamma(2 + own_count))

    def _steps(self, layer: Layer) -> tuple[float, float]:
        """Count and sum of a layer's last paid steps, and of at most so many of earlier runs."""
        own, before = self.records.layers.get(layer, Record()), self.prior.layers.get(layer, Record())
        share = min(1.0, STEP_PRIOR / before.paid) if before.paid else 0.0
        return own.recent_paid + share * before.paid, own.recent_gain + share * before.gain

    def _cost(self, layer: Layer) -> float:
        """Cost of an answer about this layer beside the usual answer of this run, or 1."""
        layers = self.records.layers.values()
        asked, cost = sum(record.asked for record in layers), sum(record.cost for record in layers)
        own = self.records.layers.get(layer)
        return own.cost / own.asked / (cost / asked) if own is not None and own.asked else 1.0


def _late(own: Record | None) -> tuple[float, float]:
    """Paid and asked of late: a layer is used up as it is taken."""
    return (own.late_paid, own.late_asked) if own else (0.0, 0.0)


def _counts(own: tuple[float, float], before: Record | None, most: float) -> tuple[float, float]:
    """Paid and asked; earlier runs fill up the run's own answers to ``most`` at most, so wrong ones are soon overruled."""
    paid, asked = own
    if before is None or not before.asked or asked >= most:
        return paid, asked
    share = min(1.0, (most - asked) / before.asked)
    return paid + share * before.paid, asked + share * before.asked


def _leaning(paid: float, asked: float, usual: float, weight: float) -> Chance:
    return Chance(paid=paid + weight * usual, unpaid=asked - paid + weight * (1 - usual))
