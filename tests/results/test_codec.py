"""Stored values come back equal, and what can't be stored is refused by name."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.outcome import Outcome, Verdict
from mutators.question import Rejection
from population.candidate import Knob
from results.codec import CodecError, decode, encode, plain, rebuild
from results.events import Event, RunNoted, RunStarted, RunStopped, StepAsked, TimeSpent
from tests.results.makers import asked, card, evaluated, final, folded, merged, merged_step, outcome, posed, started

CATEGORIES = ("L", "M", "N", "P", "S", "Z", "Cc", "Cf", "Co", "Cn")
ANY_TEXT = st.text(alphabet=st.characters(categories=CATEGORIES) | st.characters(min_codepoint=0xD800, max_codepoint=0xDBFF))
SCALAR = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), ANY_TEXT)
JSON = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3), max_leaves=8
)

EVERY_KIND = [
    started(),
    posed(1, "seed"),
    asked(1, "child", "seed"),
    asked(2, None, "seed", rejected=Rejection.NO_MATCH),
    evaluated(1, "child", 1.25),
    evaluated(1, "child", verdict=Verdict.CRASH),
    folded(1, "child", accepted=True),
    final("child", 1.2),
    TimeSpent(wall_s=0.1),
    RunStopped(reason="goal"),
    RunNoted(text="device changed", facts={"from": "a", "to": ["b"]}),
    merged_step(3, "foreign", "seed"),
    merged("foreign", outcome("foreign", 1.5)),
]


def test_every_kind_of_event_is_tried() -> None:
    assert {type(event) for event in EVERY_KIND} == set(get_args(Event))


@pytest.mark.parametrize("event", EVERY_KIND, ids=lambda event: type(event).__name__)
def test_events_come_back_equal(event: Event) -> None:
    text = encode(event)
    assert text.isascii()
    assert decode(type(event), text) == event


@given(st.dictionaries(ANY_TEXT, JSON, max_size=4), ANY_TEXT)
def test_untyped_values_and_any_text_come_back(facts: Mapping[str, object], text: str) -> None:
    event = RunNoted(text=text, facts=facts)
    back = decode(RunNoted, encode(event))
    assert back == event
    assert repr(back) == repr(event)  # True is not 1 and 1 is not 1.0


@given(st.text(alphabet="\ud800\ud801\x00\u2028é😀a", max_size=20))
def test_lone_surrogates_and_nul_are_kept(text: str) -> None:
    event = RunStopped(reason=text)
    assert decode(RunStopped, encode(event)) == event


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_exact(number: float) -> None:
    back = decode(TimeSpent, encode(TimeSpent(wall_s=number))).wall_s
    assert math.copysign(1, back) == math.copysign(1, number)
    assert back == number


def test_types_are_those_of_the_fields() -> None:
    knob = Knob(name="TILE", value=4, choices=(4, 8), cases=(("d == 64", 8),))
    assert decode(Knob, encode(knob)) == knob
    assert isinstance(decode(TimeSpent, '{"wall_s": 3}').wall_s, float)
    assert decode(Outcome, encode(outcome("x", 1.0))).verdict is Verdict.OK


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused_by_name(number: float) -> None:
    fine = outcome("x", 1.0)
    timing = replace(fine.timings[0], ratio=number)
    with pytest.raises(CodecError, match=r"Outcome\.timings\[0\]\.ratio is (nan|-?inf).*None"):
        encode(replace(fine, timings=(timing,)))
    with pytest.raises(CodecError, match=r"facts\.pct"):
        encode(replace(fine, facts={"pct": number}))


def test_what_has_no_json_form_is_refused_by_name() -> None:
    with pytest.raises(CodecError, match=r"RunStarted\.config\.path is a PosixPath"):
        encode(started(config={"path": __import__("pathlib").Path("x")}))
    with pytest.raises(CodecError, match="key 1"):
        encode(started(config={1: "x"}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "expected dict"),
        ('{"wall_s": "1"}', "wall_s: expected int or float"),
        ('{"wall_s": true}', "wall_s: expected int or float"),
        ("{}", "'wall_s' is missing"),
        ('{"wall_s": 1, "more": 2}', "unknown field 'more'"),
    ],
)
def test_a_stored_text_that_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        decode(TimeSpent, text)


def test_a_field_with_a_default_may_be_missing() -> None:
    raw = plain(asked(1, "child", "seed"))
    del raw["duplicate_of"]
    assert rebuild(StepAsked, raw) == asked(1, "child", "seed")


def test_enumerations_and_fixed_tuples_are_checked() -> None:
    with pytest.raises(CodecError, match="'MAYBE' is not one of OK"):
        rebuild(Outcome, {**plain(outcome("x", 1.0)), "verdict": "MAYBE"})
    with pytest.raises(CodecError, match="expected 2 values, found 1"):
        rebuild(Knob, {"name": "a", "value": 1, "choices": [1], "cases": [["d"]]})


def test_a_field_of_unknown_type_is_a_mistake_of_ours() -> None:
    @dataclass(frozen=True)
    class Odd:
        values: set[int] = field(default_factory=set)

    @dataclass(frozen=True)
    class Choice:
        value: RunStopped | TimeSpent

    for kind in (Odd, Choice):
        with pytest.raises(TypeError, match="events can't hold"):
            rebuild(kind, {})


def test_the_card_comes_back() -> None:
    assert decode(RunStarted, encode(started())).card == card()
