"""What the records make one believe about layers and questions: how likely an answer pays, how much, and what it costs.

A question is worth the chance that an answer to it pays, times the step that the next paid answer about its layer is expected to
bring, over the layer's cost. Chances of questions lean on their layer's, those of layers on the mean of all: a hundred arms learn
little from sixty answers each alone. The chance is drawn from a Beta belief about a yes or no (Thompson sampling), narrowed: of a
hundred wide beliefs the highest draw is mostly luck, and a run of a few hundred questions is too short for that to wear off.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mutators.question import Layer
from mutators.records import Record, Records

USUAL_PAID, USUAL_ASKED = 1.0, 4.0
"""What is believed before any answer: one in four pays."""

LEANS_ON_ALL = 5.0
"""Answers that the mean over all layers counts as in a layer's chance."""

LEANS_ON_LAYER = 2.0
"""Answers that the layer's mean counts as in a question's chance."""

NARROWED = 10.0
"""A chance is drawn as if so many times as many answers had given its mean."""

LAYER_PRIOR, ENTRY_PRIOR = 20.0, 20.0
"""Up to how many answers earlier runs count in a layer's chance and in a question's: they fill up the run's own."""

OWN_STEPS, EARLIER_STEPS = 3, 2
"""As how many steps the run's own paid answers count at most, and up to how many those of earlier runs fill them up."""


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
        """One chance that could be true, not far from the mean."""
        return float(rng.beta(NARROWED * self.paid, NARROWED * self.unpaid))


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The run's own ``records`` and those of earlier runs, ``prior``, which count as a few answers at most."""

    records: Records
    prior: Records

    def prospect(self, layer: Layer) -> float:
        """Log speed that a paid answer about this layer is expected to bring for its cost."""
        return self._step(layer) / self._cost(layer)

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

    def _step(self, layer: Layer) -> float:
        """Log speed that the next paid answer is expected to bring: what the layer's last one leaves to expect, with few of them
        what earlier runs had from this layer, and the usual step of all layers, which counts as one. Their geometric mean, so
        that one great step doesn't bind a run to its layer.
        """
        usual = _mean_step(self.records.layers.values()) or _mean_step(self.prior.layers.values()) or 1.0
        own, before = self.records.layers.get(layer, Record()), self.prior.layers.get(layer, Record())
        weight = min(own.paid, OWN_STEPS)
        weight_before = min(before.paid, max(0, EARLIER_STEPS - own.paid))
        steps = [(1, usual), (weight, own.next_step), (weight_before, _mean_step([before]))]
        return math.exp(sum(count * math.log(step) for count, step in steps if count) / sum(count for count, _ in steps))

    def _cost(self, layer: Layer) -> float:
        """Cost of an answer about this layer beside the usual answer of this run, or 1."""
        layers = self.records.layers.values()
        asked, cost = sum(record.asked for record in layers), sum(record.cost for record in layers)
        own = self.records.layers.get(layer)
        return own.cost / own.asked / (cost / asked) if own is not None and own.asked else 1.0


def _mean_step(records: Iterable[Record]) -> float:
    """Mean log speed of all paid answers, 0 where there are none."""
    known = list(records)
    paid = sum(record.paid for record in known)
    return sum(record.gain for record in known) / paid if paid else 0.0


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
