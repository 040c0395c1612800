"""What is kept of turned knobs: everywhere, in one region, or nowhere."""

import pytest

from evaluator.expression import parse
from evaluator.task import load_task
from evolve.tuning import Effect, adoptions, applied, conditions_of, turned
from mutators.calibration import Measured
from mutators.moves import Move
from mutators.plan_text import Target
from population.candidate import Knob

SURE = 0.01
REGIONS = ("small", "large")


def measured(ratio: float) -> Measured:
    return Measured(ratio=ratio, low=ratio - SURE, high=ratio + SURE)


def effect(new: int, everywhere: float, small: float, large: float, target: Target | None = None) -> Effect:
    """What turning BLOCK from 16 did."""
    target = target or Target(name="BLOCK")
    move = Move(target=target, key=target.name, old=16, new=new, steps=1, weight=1.0, expected=1.0)
    regions = {"small": measured(small), "large": measured(large)}
    return Effect(move=move, everywhere=measured(everywhere), regions=regions, shares={"small": 0.4, "large": 0.6})


@pytest.mark.parametrize(
    ("effects", "kept"),
    [
        ([effect(8, 1.005, 1.005, 1.005), effect(32, 0.9, 0.9, 0.9)], []),
        ([effect(8, 1.1, 1.1, 1.1), effect(32, 1.05, 1.05, 1.05)], ["BLOCK from 16 to 8"]),
        ([effect(8, 0.98, 1.1, 0.9)], ["BLOCK from 16 to 8 in small"]),
        ([effect(8, 1.05, 1.2, 0.95)], ["BLOCK from 16 to 8", "BLOCK from 16 to 16 in large"]),
        ([effect(8, 1.05, 1.2, 0.95), effect(32, 1.0, 0.8, 1.1)], ["BLOCK from 16 to 8", "BLOCK from 16 to 32 in large"]),
        (
            [effect(8, 0.98, 1.1, 0.9), effect(32, 1.0, 0.9, 1.05)],
            ["BLOCK from 16 to 8 in small", "BLOCK from 16 to 32 in large"],
        ),
    ],
)
def test_a_value_is_kept_where_it_is_clearly_faster(effects: list[Effect], kept: list[str]) -> None:
    found = adoptions(effects, REGIONS)
    assert sorted(one.text for one in found) == sorted(kept)
    assert [one.gain for one in found] == sorted((one.gain for one in found), reverse=True)
    assert [one.text for one in adoptions(effects, ())] == [text for text in kept if " in " not in text]


def test_a_region_becomes_a_case_before_the_number_that_it_is_taken_from() -> None:
    source = '/* plan\n[knobs]\nBLOCK = { value = 16, when = [["n == 4", 16]], choices = [8, 16] }\n*/\nint code;\n'
    knob = Knob(name="BLOCK", value=16, choices=(8, 16), cases=(("n == 4", 16),))
    everywhere = adoptions([effect(8, 0.98, 1.1, 0.9)], REGIONS)
    of_case = adoptions([effect(8, 0.98, 0.9, 1.1, Target(name="BLOCK", case=0))], REGIONS)
    conditions = {"small": "n <= 8", "large": "n > 8"}
    changed = applied(source, [knob], [*everywhere, *of_case], conditions)
    assert changed is not None
    assert '[["(n > 8) and (n == 4)", 8], ["n == 4", 16], ["n <= 8", 8]]' in changed
    assert applied(source, [], everywhere, {"small": "n", "large": "n"}) == source.replace("16]]", '16], ["n", 8]]')


def test_conditions_hold_exactly_in_their_regions() -> None:
    task = load_task("attention_forward")
    card = task.card(task.sets()[0])
    conditions = conditions_of(task.definition.regions, card.symbols)
    assert tuple(conditions) == card.regions
    scenarios = {tuple(one.symbols.values()): one for name in task.sets() for one in task.card(name).scenarios}
    assert len({one.region for one in scenarios.values()}) > 4
    for scenario in scenarios.values():
        held = [name for name, condition in conditions.items() if parse(condition).evaluate(scenario.symbols)]
        assert held == [scenario.region]


def test_a_region_that_needs_a_helper_name_can_t_be_told_nor_can_those_after_it() -> None:
    assert conditions_of({"a": "n > 4", "b": "pairs > 4", "c": "1"}, ("n", "m")) == {"a": "n > 4"}


def test_a_move_is_told_in_words() -> None:
    assert turned("BLOCK when n == 4", 16, 8) == "BLOCK when n == 4 from 16 to 8"
