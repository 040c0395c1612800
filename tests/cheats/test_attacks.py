"""The table of attacks is whole: every number, every form with a verdict, every second layer with its test."""

import pytest

from evaluator.outcome import NOT_REFUTING, Verdict
from tests.cheats import attacks, cuda_cases, test_attention_cheats
from tests.cheats.attacks import ATTACKS, HOST_PAYLOADS, verdicts
from tests.cheats.layers import Attack, Layer
from tests.nodes import exists

CASES = sorted(ATTACKS, key=lambda number: int(number[1:]))


def candidates(attack: Attack) -> list[str]:
    return [form for form in (*attack.cuda, *attack.cpu) if "::" not in form]


def named_tests(attack: Attack) -> list[str]:
    return [form for form in (*attack.cuda, *attack.cpu, *attack.shown_by, *attack.without_first) if "::" in form]


def test_no_attack_is_left_out() -> None:
    assert [f"D{number}" for number in range(1, 47)] == CASES


@pytest.mark.parametrize("number", CASES)
def test_every_candidate_is_refused(number: str) -> None:
    for form in candidates(ATTACKS[number]):
        allowed = verdicts(form)
        assert allowed
        assert not allowed & {*NOT_REFUTING, Verdict.SLOWER, Verdict.DUPLICATE}, form


@pytest.mark.parametrize("number", CASES)
def test_every_attack_stands_for_something_that_runs(number: str) -> None:
    attack = ATTACKS[number]
    assert attack.what
    assert attack.cuda or attack.harmless, "an attack by device code has a form for a GPU"
    assert candidates(attack) or named_tests(attack)
    for node in named_tests(attack):
        assert exists(node), f"{node} isn't there"


@pytest.mark.parametrize("number", [number for number in CASES if len(ATTACKS[number].layers) > 1])
def test_with_the_first_layer_off_the_second_is_shown(number: str) -> None:
    attack = ATTACKS[number]
    assert attack.without_first or Layer.APART in attack.layers, f"{number}: which test shows {attack.layers[1]}?"


def test_host_programs_have_no_place() -> None:
    assert all(map(exists, HOST_PAYLOADS))


def test_every_layer_is_somebodys() -> None:
    assert {layer for attack in ATTACKS.values() for layer in attack.layers} == set(Layer)


def test_every_wrong_answer_of_the_packs_belongs_to_an_attack() -> None:
    """Candidates that are refused for their form (plans, arguments) needn't; those that cheat must."""
    known = {form for attack in ATTACKS.values() for form in candidates(attack)}
    cheating = {f"cpu:{name}" for group in ("memory", "wrong") for name in test_attention_cheats.GROUPS[group]}
    cheating |= {f"gpu:{name}" for name in cuda_cases.ATTENTION}
    cheating |= {f"light:{name}" for group in ("stops", "bounds", "memory", "wrong") for name in cuda_cases.DEVICE_GROUPS[group]}
    assert cheating - known == set(attacks.PLAIN_MISTAKES)
