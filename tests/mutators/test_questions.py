"""Choosing questions: what fits, what people asked, another layer on a stall, and learning what pays."""

import numpy as np
import pytest

from evaluator.outcome import Verdict
from mutators.bank import Entry, load_bank
from mutators.question import Layer, Moment
from mutators.questions import backend_of, choose, shown
from mutators.records import Records, gain_of, records_of
from population.candidate import Language
from tests.mutators.factories import attempt, change, question

NO_RECORDS = Records()
BANK = load_bank()


def entry(entry_id: str, layer: Layer, text: str = "Where does the time go?", **changes: object) -> Entry:
    plain = {"id": entry_id, "layer": layer, "moments": (Moment.ROUTINE,), "text": text, "settle": "time"}
    return Entry(**(plain | changes))  # type: ignore[arg-type]


def test_slots_are_filled_and_kept() -> None:
    bank = [entry("x", Layer.MEMORY, "It takes {time_us} us at {ratio} of {peer}, cached {hit}?")]
    facts = {"time_us": 123.456, "ratio": 0.98765, "peer": "torch_cpu", "hit": True, "other": 1}
    asked = choose(bank, Moment.ROUTINE, facts, NO_RECORDS, (), "cpu", np.random.default_rng(0))
    assert asked.text == "It takes 123 us at 0.988 of torch_cpu, cached yes?"
    assert asked.facts == {name: facts[name] for name in ("time_us", "ratio", "peer", "hit")}
    assert (asked.entry_id, asked.layer, asked.moment, asked.settle) == ("x", Layer.MEMORY, Moment.ROUTINE, "time")


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (0.123456, "0.123"), (99.96, "100"), (12345.6, "12346"), (-4.04, "-4.04"), (False, "no"), ("a", "a")],
)
def test_figures_are_short(value: float | str, text: str) -> None:
    assert shown(value) == text


def test_same_state_same_question() -> None:
    bank = BANK
    facts = {"scenario": "s", "time_us": 2.0, "headroom": 3.0}
    runs = [
        [choose(bank, Moment.ROUTINE, facts, NO_RECORDS, (), "cpu", rng).id for _ in range(20)]
        for rng in map(np.random.default_rng, (5, 5, 6))
    ]
    assert runs[0] == runs[1] != runs[2]


def test_what_does_not_fit_is_not_asked() -> None:
    bank = [
        entry("unknown-slot", Layer.PLAN, "Where do {spill_bytes} go, and where else?"),
        entry("false", Layer.PLAN, when="d > 100"),
        entry("unknown-name", Layer.PLAN, when="window or uses_mma"),
        entry("text-and-number", Layer.PLAN, when="peer > 3"),
        entry("other-backend", Layer.PLAN, backends=("cuda",)),
        entry("other-moment", Layer.PLAN, moments=(Moment.LOOP,)),
        entry("fits", Layer.PLAN, when="d <= 100 and peer == 'x'"),
    ]
    facts = {"d": 64, "window": 0, "peer": "x"}
    rng = np.random.default_rng(0)
    assert {choose(bank, Moment.ROUTINE, facts, NO_RECORDS, (), "cpu", rng).entry_id for _ in range(50)} == {"fits"}


def test_a_moment_without_a_fitting_question_is_asked_as_routine() -> None:
    bank = [entry("fits", Layer.PLAN)]
    asked = choose(bank, Moment.LOOP, {}, NO_RECORDS, (), "cpu", np.random.default_rng(0))
    assert (asked.entry_id, asked.moment) == ("fits", Moment.LOOP)


def test_an_empty_bank_says_what_is_missing() -> None:
    with pytest.raises(LookupError, match="no question for a stall on cpu"):
        choose([], Moment.STALL, {}, NO_RECORDS, (), "cpu", np.random.default_rng(0))


def test_people_go_first() -> None:
    human = question(entry_id="human", text="And if the input were all zeros?")
    asked = choose(BANK, Moment.STALL, {}, NO_RECORDS, (), "cpu", np.random.default_rng(0), waiting=[human])
    assert asked is human


@pytest.mark.parametrize("backend", [backend_of(language) for language in Language])
@pytest.mark.parametrize("layer", list(Layer))
def test_on_a_stall_the_layer_changes_even_without_facts(backend: str, layer: Layer) -> None:
    rng = np.random.default_rng(0)
    recent = (Layer.MEMORY, Layer.PLAN, layer)
    for _ in range(20):
        assert choose(BANK, Moment.STALL, {}, NO_RECORDS, recent, backend, rng).layer not in recent


def test_a_question_is_not_put_twice_to_one_parent_while_others_fit() -> None:
    bank = [entry("a", Layer.PLAN), entry("b", Layer.MEMORY)]
    rng = np.random.default_rng(0)
    first = choose(bank, Moment.ROUTINE, {}, NO_RECORDS, (), "cpu", rng)
    others = {choose(bank, Moment.ROUTINE, {}, NO_RECORDS, (), "cpu", rng, asked_ids={first.id}).id for _ in range(20)}
    assert len(others) == 1
    assert first.id not in others
    everything = {first.id, *others}
    assert choose(bank, Moment.ROUTINE, {}, NO_RECORDS, (), "cpu", rng, asked_ids=everything).id in everything


def test_layers_that_were_not_visited_lately_come_up_more_often() -> None:
    bank = [entry("a", Layer.PLAN), entry("b", Layer.MEMORY)]
    rng = np.random.default_rng(0)
    recent = (Layer.MEMORY, *[Layer.PLAN] * 6)
    asked = [choose(bank, Moment.ROUTINE, {}, NO_RECORDS, recent, "cpu", rng).layer for _ in range(400)]
    assert asked.count(Layer.MEMORY) > 240


def test_records_count_gain_and_cost() -> None:
    paid, idle = question("paid", Layer.MEMORY), question("idle", Layer.MEMORY)
    records = records_of(
        [
            attempt(0, question=paid, accepted=True, change=change(1.1, low=1.08), wall_s=30.0, cost_usd=0.05),
            attempt(1, question=paid, accepted=False, change=change(1.2)),
            attempt(2, question=idle, verdict="no_match", child=None, candidate_id=None),
            attempt(3, question=idle, verdict=Verdict.HARNESS_FAULT.value),
            attempt(4, question=None, accepted=True, change=change(1.5)),
            attempt(5, question=idle, accepted=True, change=change(1.01, low=0.99)),
        ]
    )
    entry_record = records.entries["paid"]
    assert (entry_record.asked, entry_record.answered, entry_record.accepted) == (2, 2, 1)
    assert entry_record.gain == pytest.approx(np.log(1.08))
    assert entry_record.cost == pytest.approx(2 + 0.5 + 0.5)
    assert (records.entries["idle"].asked, records.entries["idle"].answered, records.entries["idle"].gain) == (2, 1, 0.0)
    assert records.layers[Layer.MEMORY].asked == 4
    assert gain_of(attempt(0, accepted=True, change=change(1.1, low=None))) == pytest.approx(np.log(1.1))


CHANCE = {Layer.MEMORY: 0.5, Layer.PLAN: 0.05, Layer.LAUNCH: 0.05, Layer.NUMERICS: 0.05}
SIMULATED = [entry(f"{layer.value}-{number}", layer) for layer in CHANCE for number in range(3)]


def simulated_share(seed: int, gain: float, cost_s: dict[Layer, float]) -> float:
    """Share of the questions about memory when each layer pays with its own chance."""
    rng = np.random.default_rng(seed)
    records, layers = NO_RECORDS, []
    for number in range(150):
        asked = choose(SIMULATED, Moment.ROUTINE, {}, records, layers[-6:], "cpu", rng)
        layers.append(asked.layer)
        pays = rng.random() < CHANCE[asked.layer]
        done = attempt(number, question=asked, accepted=pays, change=change(1 + gain), wall_s=cost_s.get(asked.layer, 10.0))
        records = records.plus(done)
    return layers.count(Layer.MEMORY) / len(layers)


@pytest.mark.parametrize("gain", [0.02, 0.5])
def test_choice_learns_which_layer_pays_whatever_the_size_of_gains(gain: float) -> None:
    shares = [simulated_share(seed, gain, {}) for seed in range(8)]
    assert np.mean(shares) > 0.5  # 0.25 by chance


def test_a_dear_layer_is_asked_less() -> None:
    cheap = np.mean([simulated_share(seed, 0.05, {}) for seed in range(6)])
    dear = np.mean([simulated_share(seed, 0.05, {Layer.MEMORY: 1200.0}) for seed in range(6)])
    assert dear < cheap - 0.1


def test_choice_learns_which_question_of_a_layer_pays() -> None:
    rng = np.random.default_rng(3)
    bank = [entry(name, Layer.MEMORY) for name in ("good", "bad", "worse")]
    records, asked_of = NO_RECORDS, []
    for number in range(120):
        asked = choose(bank, Moment.ROUTINE, {}, records, (), "cpu", rng)
        asked_of.append(asked.entry_id)
        pays = asked.entry_id == "good" and rng.random() < 0.6
        records = records.plus(attempt(number, question=asked, accepted=pays, change=change(1.05)))
    assert asked_of[60:].count("good") > 40


def test_records_of_earlier_runs_decide_before_the_first_answer() -> None:
    bank = [entry(name, Layer.MEMORY) for name in ("good", "bad", "worse")] + [entry("elsewhere", Layer.PLAN)]
    earlier = NO_RECORDS
    for number in range(90):
        name = ("good", "bad", "worse")[number % 3]
        put = question(name, Layer.MEMORY)
        earlier = earlier.plus(attempt(number, question=put, accepted=name == "good" and number % 2 == 0, change=change(1.05)))
    rng = np.random.default_rng(0)
    asked = [choose(bank, Moment.ROUTINE, {}, NO_RECORDS, (), "cpu", rng, prior=earlier).entry_id for _ in range(200)]
    assert asked.count("good") > 2 * (asked.count("bad") + asked.count("worse"))


def test_a_run_of_its_own_overrules_wrong_records_of_earlier_ones() -> None:
    bank = [entry(name, Layer.MEMORY) for name in ("was-good", "is-good")]
    earlier = NO_RECORDS
    for number in range(500):
        name = ("was-good", "is-good")[number % 2]
        earlier = earlier.plus(
            attempt(number, question=question(name, Layer.MEMORY), accepted=number % 2 == 0, change=change(1.05))
        )
    rng = np.random.default_rng(1)
    records, asked_of = NO_RECORDS, []
    for number in range(120):
        asked = choose(bank, Moment.ROUTINE, {}, records, (), "cpu", rng, prior=earlier)
        asked_of.append(asked.entry_id)
        pays = asked.entry_id == "is-good" and rng.random() < 0.6
        records = records.plus(attempt(number, question=asked, accepted=pays, change=change(1.05)))
    assert asked_of[:5].count("was-good") >= 3
    assert asked_of[60:].count("is-good") > 45


def test_a_layer_with_larger_steps_is_preferred_at_equal_chances() -> None:
    bank = [entry(f"{layer.value}-{number}", layer) for layer in (Layer.MEMORY, Layer.PLAN) for number in range(3)]
    rng = np.random.default_rng(2)
    records, layers = NO_RECORDS, []
    for number in range(150):
        asked = choose(bank, Moment.ROUTINE, {}, records, layers[-6:], "cpu", rng)
        layers.append(asked.layer)
        step = 1.2 if asked.layer is Layer.MEMORY else 1.02
        records = records.plus(attempt(number, question=asked, accepted=rng.random() < 0.3, change=change(step)))
    assert layers[50:].count(Layer.MEMORY) > 60
