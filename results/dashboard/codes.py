"""The codes by which rows travel to a page: words by their place in a list, yes or no by bits."""

from enum import IntFlag

from evaluator.outcome import Stage, Verdict
from mutators.question import Layer, Moment
from population.candidate import Origin

ABSENT = 255
"""The code of a word that a row doesn't have."""

NAMES: dict[str, list[str]] = {
    "verdicts": [one.value for one in Verdict],
    "stages": [one.value for one in Stage],
    "layers": [one.value for one in Layer],
    "moments": [one.value for one in Moment],
    "origins": [one.value for one in Origin],
}
"""The words behind the codes that are the same in every run."""


class Flag(IntFlag):
    """Bits of the column ``flags``."""

    ACCEPTED = 1
    SEED = 2
    DUPLICATE = 4
    REJECTED = 8
    BEST_PATH = 16
    FINAL_OK = 32
    FINAL_REFUTED = 64
    SWEEP = 128
