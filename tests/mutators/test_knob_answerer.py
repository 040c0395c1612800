"""The embedded answerer: real answers that move declared knobs, learn from history and end when nothing is left."""

import re
from collections import Counter

import numpy as np
import pytest

from mutators.answerers.base import Prompt, Relative
from mutators.answerers.knobs import KnobAnswerer
from mutators.attempts import assignment_of, relative_of
from mutators.edits import Applied, apply
from mutators.headers import header_of
from mutators.knob_roles import suits, tile_of, value_in
from mutators.plan_text import Target, block_between
from mutators.plan_text import change as change_plan
from mutators.question import Claim, Header, Layer, Rejected, Rejection
from population.candidate import Knob
from tests.mutators.factories import KNOBS, SOURCE, attempt, candidate, change, header, question


def prompt(
    layer: Layer = Layer.MEMORY,
    source: str = SOURCE,
    knobs: tuple[Knob, ...] = KNOBS,
    children: tuple[Relative, ...] = (),
    lineage: tuple[Relative, ...] = (),
) -> Prompt:
    asked = question(layer=layer)
    parent = candidate(source)
    return Prompt(step_number=1, question=asked, parent=parent, knobs=knobs, children=children, lineage=lineage, text="")


def child(ratio: float | None = None, **values: int) -> Relative:
    knobs = dict(assignment_of(KNOBS)) | values
    return Relative(number=0, question="", hypothesis="", prediction={}, verdict="OK", ratio=ratio, knobs=knobs)


def values_in(source: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"(\w+) += \{ value = (\d+)", source)}


def ask(given: Prompt, rng: np.random.Generator) -> Applied | Rejected:
    return apply(given.parent.source, KnobAnswerer().answer(given, rng).text)


def test_an_answer_moves_one_or_two_knobs_to_declared_choices() -> None:
    rng = np.random.default_rng(0)
    moved = Counter()
    for _ in range(100):
        result = ask(prompt(), rng)
        assert isinstance(result, Applied), result
        values = values_in(result.source)
        changed = [knob for knob in KNOBS if values[knob.name] != knob.value]
        assert all(values[knob.name] in knob.choices for knob in KNOBS)
        moved[len(changed)] += 1
        assert all(f"{knob.name} from {knob.value} to {values[knob.name]}" in result.header.hypothesis for knob in changed)
        assert "free-loads" in result.header.hypothesis
        assert result.header.prediction == {"all": 1.02}
        assert len(result.source.splitlines()) == len(SOURCE.splitlines())
    assert moved.keys() == {1, 2}


def test_same_state_same_answer() -> None:
    texts = [KnobAnswerer().answer(prompt(), np.random.default_rng(seed)).text for seed in (1, 1)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(("layer", "name"), [(Layer.INSTRUCTION, "UNROLL"), (Layer.LAUNCH, "BLOCK_M")])
def test_the_questions_layer_steers(layer: Layer, name: str) -> None:
    def share(of: Layer) -> float:
        rng = np.random.default_rng(0)
        results = [ask(prompt(layer=of), rng) for _ in range(150)]
        return sum(f"{name} from" in result.header.hypothesis for result in results if isinstance(result, Applied)) / 150

    assert share(layer) > share(Layer.MEASUREMENT) + 0.1


def test_neighbours_are_likelier_than_jumps() -> None:
    rng = np.random.default_rng(0)
    words = [ask(prompt(), rng).header.hypothesis for _ in range(300)]  # type: ignore[union-attr]
    near = sum("BLOCK_M from 32 to 16" in text for text in words)
    far = sum("BLOCK_M from 32 to 8" in text for text in words)
    assert near > far > 0


def test_tried_assignments_are_not_repeated_until_nothing_is_left() -> None:
    rng = np.random.default_rng(0)
    knobs = (Knob(name="BLOCK_M", value=32, choices=(16, 32, 64)), Knob(name="BLOCK_N", value=64, choices=(32, 64)))
    children: tuple[Relative, ...] = ()
    seen: list[tuple[int, int]] = []
    for _ in range(5):
        result = ask(prompt(knobs=knobs, children=children), rng)
        assert isinstance(result, Applied)
        values = values_in(result.source)
        seen.append((values["BLOCK_M"], values["BLOCK_N"]))
        children += (child(0.99, BLOCK_M=values["BLOCK_M"], BLOCK_N=values["BLOCK_N"]),)
    assert set(seen) == {(16, 64), (64, 64), (32, 32), (16, 32), (64, 32)}
    last = KnobAnswerer().answer(prompt(knobs=knobs, children=children), rng)
    result = apply(SOURCE, last.text)
    assert isinstance(result, Rejected)
    assert result.reason is Rejection.EXHAUSTED
    stated = header_of(last.text)
    assert isinstance(stated, Header)
    assert stated.claim is Claim.CEILING


def test_ancestors_are_not_gone_back_to() -> None:
    rng = np.random.default_rng(0)
    knobs = (Knob(name="BLOCK_M", value=32, choices=(16, 32, 64)),)
    results = {ask(prompt(knobs=knobs, lineage=(child(BLOCK_M=16),)), rng).source for _ in range(10)}  # type: ignore[union-attr]
    assert {values_in(source)["BLOCK_M"] for source in results} == {64}


def test_no_knobs_is_exhausted_at_once() -> None:
    result = ask(prompt(knobs=()), np.random.default_rng(0))
    assert isinstance(result, Rejected)
    assert result.reason is Rejection.EXHAUSTED


def test_what_paid_is_done_again_and_what_cost_is_left() -> None:
    def share(ratio: float) -> float:
        rng = np.random.default_rng(0)
        lineage = (child(BLOCK_N=32), child(ratio, BLOCK_N=64))
        words = [ask(prompt(lineage=lineage), rng).header.hypothesis for _ in range(200)]  # type: ignore[union-attr]
        return sum("BLOCK_N from 64 to 128" in text for text in words) / 200

    assert share(1.1) > share(1.0) + 0.1
    assert share(0.8) < share(1.0) - 0.05


def test_prediction_comes_from_earlier_moves() -> None:
    knobs = (Knob(name="BLOCK_M", value=32, choices=(8, 16, 32)),)
    result = ask(prompt(knobs=knobs, children=(child(1.08, BLOCK_M=16),)), np.random.default_rng(0))
    assert isinstance(result, Applied)
    assert result.header.prediction["all"] == pytest.approx(1.08, abs=1e-3)


CASES = SOURCE.replace(
    "BLOCK_M = { value = 32, choices", 'BLOCK_M = { value = 32, when = [["d == 32", 64], ["causal == 1", 32]], choices'
)
CASE_KNOBS = (Knob(name="BLOCK_M", value=32, choices=(8, 16, 32, 64), cases=(("d == 32", 64), ("causal == 1", 32))), *KNOBS[1:])


def test_cases_and_the_default_move_one_by_one() -> None:
    rng = np.random.default_rng(0)
    words = {ask(prompt(source=CASES, knobs=CASE_KNOBS), rng).header.hypothesis for _ in range(200)}  # type: ignore[union-attr]
    for key in ("BLOCK_M from 32", "BLOCK_M when d == 32 from 64", "BLOCK_M when causal == 1 from 32"):
        assert any(key in text for text in words)


def test_a_case_that_was_tried_is_not_repeated() -> None:
    rng = np.random.default_rng(0)
    knobs = (Knob(name="BLOCK_M", value=32, choices=(32, 64), cases=(("d == 32", 64), ("causal == 1", 32))),)
    tried = relative_of(attempt(1, change=change(0.9)), knobs)
    moved = [
        Relative(**{**{name: getattr(tried, name) for name in tried.__slots__}, "knobs": {**tried.knobs, key: value}})
        for key, value in (("BLOCK_M", 64), ("BLOCK_M when d == 32", 32))
    ]
    sources = {ask(prompt(source=CASES, knobs=knobs, children=tuple(moved)), rng).source for _ in range(30)}  # type: ignore[union-attr]
    assert change_plan(CASES, Target(name="BLOCK_M"), 64) not in sources
    assert change_plan(CASES, Target(name="BLOCK_M", case=0), 32) not in sources
    assert change_plan(CASES, Target(name="BLOCK_M", case=1), 64) in sources


FORMS = {
    "inline": "[knobs]\nA = { value = 64, choices = [32, 64] }\nB = { value = 64, choices = [32, 64] }\n",
    "value last": "[knobs]\nA = { choices = [32, 64], value = 64 } # 64\nB = { choices = [32, 64], value = 64 }\n",
    "tables": "[knobs.A]\nvalue = 64\nchoices = [32, 64]\n\n[knobs.B]\nvalue = 64\nchoices = [32, 64]\n",
    "tables, other first": "[knobs.B]\nvalue = 64\nchoices = [32, 64]\n[knobs.A]\nvalue = 64\nchoices = [32, 64]\n",
    "dotted": "[knobs]\nA.value = 64\nA.choices = [32, 64]\nB.value = 64\nB.choices = [32, 64]\n",
    "many lines": "[knobs.A]\nchoices = [\n 32,\n 64,\n]\nvalue = 64\n[knobs.B]\nvalue = 64\nchoices = [32, 64]\n",
}


@pytest.mark.parametrize("plan", FORMS.values(), ids=FORMS.keys())
def test_every_way_to_write_a_knob_is_found(plan: str) -> None:
    source = f"/* plan\n{plan}*/\nint value = 64;\n"
    knobs = tuple(Knob(name=name, value=64, choices=(32, 64)) for name in "AB")
    rng = np.random.default_rng(0)
    results = {ask(prompt(source=source, knobs=knobs), rng).source for _ in range(40)}  # type: ignore[union-attr]
    assert len(results) == 3
    for target in (Target(name="A"), Target(name="B")):
        assert change_plan(source, target, 32) in results


def test_a_number_that_is_not_in_the_plan_changes_nothing() -> None:
    assert change_plan(SOURCE, Target(name="MISSING"), 3) is None
    assert change_plan(SOURCE, Target(name="BLOCK_M", case=0), 3) is None
    assert change_plan("int x;", Target(name="BLOCK_M"), 3) is None
    assert change_plan("/* plan\nnot toml\n*/", Target(name="BLOCK_M"), 3) is None


def test_knobs_that_the_text_does_not_hold_are_exhausted() -> None:
    result = ask(prompt(knobs=(Knob(name="GHOST", value=1, choices=(1, 2)),)), np.random.default_rng(0))
    assert isinstance(result, Rejected)
    assert result.reason is Rejection.EXHAUSTED


def test_a_block_grows_until_it_is_unique() -> None:
    block = block_between("a\nsame\nb\nsame\n", "a\nsame\nb\nother\n")
    assert block.search == ("b", "same")
    assert block.replace == ("b", "other")


def test_names_say_what_a_knob_is() -> None:
    assert suits("ROWS_OUTER", Layer.SCHEDULE)
    assert suits("WIDTH", Layer.INSTRUCTION)
    assert not suits("WIDTH", Layer.MEMORY)
    assert not any(suits("BLOCK_M", layer) for layer in (Layer.MEASUREMENT, Layer.NUMERICS))
    assert tile_of(KNOBS, ("TILE_N", "BLOCK_N"), {}) == 64
    assert tile_of(KNOBS, ("SPLIT",), {}) is None
    assert value_in(CASE_KNOBS[0], {"d": 32, "causal": 1}) == 64
    assert value_in(CASE_KNOBS[0], {"d": 64, "causal": 0}) == 32
    assert value_in(Knob(name="A", value=1, choices=(1,), cases=(("nonsense ==", 2),)), {}) == 1


def test_relative_of_an_attempt() -> None:
    made = relative_of(attempt(4, change=change(1.1), header=header(all=1.2)), CASE_KNOBS)
    assert (made.number, made.verdict, made.ratio, made.prediction) == (4, "OK", 1.1, {"all": 1.2})
    assert made.knobs["BLOCK_M when d == 32"] == 64
