"""Which question is asked: filtered by moment and precondition, drawn by what layers and questions have given so far."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from evaluator.expression import ExpressionError, Mode, parse
from mutators.bank import Entry
from mutators.question import FactValue, Layer, Moment, Question
from mutators.records import Record, Records
from population.candidate import Language, hash_text

TRIALS_OF_ITS_OWN = 5
"""A question draws from its layer's record until it has this many answers of its own."""

PRIOR_GAIN, PRIOR_ASKED = 1.0, 4.0
"""What an unknown layer counts as: one answer in four pays as much as the best step so far."""

STALL_MEMORY = 3
"""On a stall the layers of the last so many questions are left out."""

VISIT_BONUS, VISIT_MEMORY = 0.15, 6
"""A layer's draw grows by this share for each of the last questions (at most so many) that looked elsewhere."""

_BACKENDS: Mapping[Language, str] = {Language.CPP: "cpu", Language.CUDA: "cuda"}


def backend_of(language: Language) -> str:
    """The backend's name in the bank."""
    return _BACKENDS[language]


def choose(
    bank: Sequence[Entry],
    moment: Moment,
    facts: Mapping[str, FactValue],
    records: Records,
    recent_layers: Sequence[Layer],
    backend: str,
    rng: np.random.Generator,
    *,
    waiting: Sequence[Question] = (),
    asked_ids: Collection[str] = (),
) -> Question:
    """The next question, its slots filled; the same for the same arguments and state of ``rng``.

    ``waiting`` are questions that people asked: the first goes first. ``recent_layers`` are the layers last asked about in
    this lineage or island, oldest first. ``asked_ids`` are questions that this parent was asked already: one of them comes again
    only where no other fits. LookupError where the bank holds no question at all that fits.
    """
    if waiting:
        return waiting[0]
    barred = set(recent_layers[-STALL_MEMORY:]) if moment is Moment.STALL else set()
    for_moment = [entry for entry in bank if fits(entry, moment, facts, backend)]
    routine = [entry for entry in bank if fits(entry, Moment.ROUTINE, facts, backend)]
    elsewhere = [[entry for entry in fitting if entry.layer not in barred] for fitting in (for_moment, routine)]
    for entries in (*elsewhere, for_moment, routine):
        questions = {entry.id: _question(entry, moment, facts) for entry in entries}
        fresh = [entry for entry in entries if questions[entry.id].id not in asked_ids]
        if entries:
            return questions[_drawn(fresh or entries, records, recent_layers, rng).id]
    raise LookupError(f"the bank holds no question for a {moment.value} on {backend}; add one that needs no facts")


def fits(entry: Entry, moment: Moment, facts: Mapping[str, FactValue], backend: str) -> bool:
    """Whether an entry may be asked: its moment and backend, every slot known, its precondition true and known."""
    if moment not in entry.moments or backend not in entry.backends or any(slot not in facts for slot in entry.slots):
        return False
    if not entry.when:
        return True
    try:
        return bool(parse(entry.when, Mode.FACTS).evaluate(facts))
    except ExpressionError:  # an unknown name among them: what isn't measured isn't asked about
        return False


def shown(value: FactValue) -> str:
    """A fact as a question shows it: three significant digits, whole numbers whole."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value)


def _question(entry: Entry, moment: Moment, facts: Mapping[str, FactValue]) -> Question:
    text = entry.fill({slot: shown(facts[slot]) for slot in entry.slots})
    return Question(
        id=hash_text(f"{entry.id}\n{text}"),
        entry_id=entry.id,
        layer=entry.layer,
        moment=moment,
        text=text,
        settle=entry.settle,
        facts={slot: facts[slot] for slot in entry.slots},
    )


def _drawn(entries: Sequence[Entry], records: Records, recent_layers: Sequence[Layer], rng: np.random.Generator) -> Entry:
    """Thompson sampling, first over layers, then over the questions of the layer."""
    layers = sorted({entry.layer for entry in entries})
    draws = {layer: _draw(records.layers.get(layer, Record()), records, rng) * _bonus(layer, recent_layers) for layer in layers}
    layer = max(layers, key=lambda layer: draws[layer])
    best, most = entries[0], -1.0
    for entry in entries:
        if entry.layer is not layer:
            continue
        own = records.entries.get(entry.id, Record())
        draw = _draw(own if own.asked >= TRIALS_OF_ITS_OWN else records.layers.get(layer, Record()), records, rng)
        if draw > most:
            best, most = entry, draw
    return best


def _draw(record: Record, records: Records, rng: np.random.Generator) -> float:
    """A draw of gain per cost.

    Gains are counted in units of the best single step so far, so each answer gives between 0 and 1; such rewards keep
    Thompson sampling with a Beta posterior sound if they are added as fractions (Agrawal and Goyal, 2012, show it
    for a coin tossed with that chance, whose mean this is).
    """
    unit = max((layer.best for layer in records.layers.values()), default=0.0)
    paid = record.gain / unit if unit > 0 else 0.0
    draw = float(rng.beta(PRIOR_GAIN + paid, PRIOR_ASKED - PRIOR_GAIN + max(0.0, record.asked - paid)))
    asked = sum(layer.asked for layer in records.layers.values())
    usual = sum(layer.cost for layer in records.layers.values()) / asked if asked else 1.0
    return draw * usual / (record.cost / record.asked) if record.asked else draw


def _bonus(layer: Layer, recent_layers: Sequence[Layer]) -> float:
    """1, plus a share for each question since the layer was last looked at."""
    since = next((age for age, seen in enumerate(reversed(recent_layers)) if seen is layer), VISIT_MEMORY)
    return 1 + VISIT_BONUS * min(since, VISIT_MEMORY)
