"""Which question is asked: filtered by moment and precondition, drawn by what layers and questions have given so far."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from evaluator.expression import ExpressionError, Mode, parse
from mutators.bank import Entry
from mutators.learning import Past
from mutators.question import FactValue, Layer, Moment, Question
from mutators.records import Records
from population.candidate import Language, hash_text

STALL_MEMORY = 3
"""On a stall the layers of the last so many questions are left out."""

VISIT_BONUS, VISIT_MEMORY = 0.1, 6
"""A layer's draw grows by this share for each of the last questions (at most so many) that looked elsewhere."""

NOTHING_EARLIER = Records()

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
    prior: Records = NOTHING_EARLIER,
    waiting: Sequence[Question] = (),
    asked_ids: Collection[str] = (),
) -> Question:
    """The next question, its slots filled; the same for the same arguments and state of ``rng``.

    ``records`` are the run's own, ``prior`` those of earlier runs as they stood when this one began.
    ``waiting`` are questions that people asked: the first goes first. ``recent_layers`` are the layers last asked about in
    this lineage or island, oldest first. ``asked_ids`` are questions that this parent was asked already: one of them comes again
    only where no other fits. LookupError where the bank holds no question at all that fits.
    """
    if waiting:
        return waiting[0]
    past = Past(records=records, prior=prior)
    barred = set(recent_layers[-STALL_MEMORY:]) if moment is Moment.STALL else set()
    for_moment = [entry for entry in bank if fits(entry, moment, facts, backend)]
    routine = [entry for entry in bank if fits(entry, Moment.ROUTINE, facts, backend)]
    elsewhere = [[entry for entry in fitting if entry.layer not in barred] for fitting in (for_moment, routine)]
    for entries in (*elsewhere, for_moment, routine):
        questions = {entry.id: _question(entry, moment, facts) for entry in entries}
        fresh = [entry for entry in entries if questions[entry.id].id not in asked_ids]
        if entries:
            return questions[_drawn(fresh or entries, past, recent_layers, rng).id]
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


def _drawn(entries: Sequence[Entry], past: Past, recent_layers: Sequence[Layer], rng: np.random.Generator) -> Entry:
    """The question whose drawn chance, times what a paid answer about its layer brings for its cost, is highest."""
    layers = sorted({entry.layer for entry in entries})
    usual = {layer: past.layer_chance(layer).mean for layer in layers}
    prospect = {layer: past.prospect(layer) * _bonus(layer, recent_layers) for layer in layers}
    draws = [(past.entry_chance(entry.id, usual[entry.layer]).draw(rng) * prospect[entry.layer], entry) for entry in entries]
    return max(draws, key=lambda drawn: drawn[0])[1]


def _bonus(layer: Layer, recent_layers: Sequence[Layer]) -> float:
    """1, plus a share for each question since the layer was last looked at."""
    since = next((age for age, seen in enumerate(reversed(recent_layers)) if seen is layer), VISIT_MEMORY)
    return 1 + VISIT_BONUS * min(since, VISIT_MEMORY)
