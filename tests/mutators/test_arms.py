"""Arms: the same facts as a question, as an order, and as a bare request."""

import re
from dataclasses import replace

import numpy as np
import pytest

from mutators.arms import ORDERS, REQUEST, Arm, command_of, phrased, request_of, without_command
from mutators.bank import load_bank
from mutators.facts import FACTS
from mutators.linter import lint
from mutators.question import Layer, Moment, Question
from mutators.questions import choose
from mutators.records import Records
from tests.mutators.factories import question

BANK = load_bank()
KNOWN = {"group": 8, "sq": 512, "shared_rows": 4096, "query_tile": 128}
ENTRY = next(entry for entry in BANK if entry.id == "rows-that-share-keys")


def asked() -> Question:
    return choose([ENTRY], Moment.ROUTINE, KNOWN, Records(), (), "cuda", np.random.default_rng(0))


def figures(text: str) -> list[str]:
    return sorted(set(re.findall(r"\d+", text)))


def test_a_question_stays_as_it_is() -> None:
    put = asked()
    assert phrased(Arm.QUESTION, put, BANK, KNOWN) is put


def test_an_order_carries_the_facts_of_its_question() -> None:
    put = asked()
    ordered = phrased(Arm.COMMAND, put, BANK, KNOWN | {"group": 9})
    assert ordered.text.startswith("Lay query tiles across the 8 heads")
    assert figures(ordered.text) == figures(put.text)
    assert "?" not in ordered.text
    assert replace(ordered, text=put.text) == put


@pytest.mark.parametrize("arm", Arm)
def test_the_same_matter_has_the_same_id_in_every_arm(arm: Arm) -> None:
    put = phrased(arm, asked(), BANK, KNOWN)
    again = choose([ENTRY, *BANK], Moment.ROUTINE, KNOWN, Records(), (), "cuda", np.random.default_rng(0), asked_ids={put.id})
    assert again.entry_id != ENTRY.id


def test_the_bare_request_holds_every_fact_and_no_word_of_the_question() -> None:
    request = request_of(KNOWN | {"spill_bytes": 40, "of_my_own": 1})
    lines = request.splitlines()
    assert lines[0] == REQUEST
    assert f"- spill_bytes = 40 ({FACTS['spill_bytes']})" in lines
    assert "of_my_own" not in request
    assert request_of({}) == REQUEST
    put = phrased(Arm.TOOLS, asked(), BANK, KNOWN)
    assert put.text == request_of(KNOWN)
    assert put.settle != asked().settle


@pytest.mark.parametrize("layer", Layer)
def test_an_entry_without_a_command_is_put_as_the_order_about_its_layer_with_the_same_facts(layer: Layer) -> None:
    bare = replace(ENTRY, command="", layer=layer)
    put = replace(asked(), layer=layer)
    order = command_of(put, [bare])
    assert order.startswith(ORDERS[layer])
    assert "?" not in order
    assert set(figures(put.text)) <= set(figures(order))
    assert command_of(put, []) == order
    assert without_command([ENTRY, bare]) == (bare.id,)


def test_the_orders_about_layers_keep_the_rules_for_commands() -> None:
    for layer, order in ORDERS.items():
        entry = replace(
            ENTRY, id="an-order", layer=layer, text="How much of it is there, and what makes it so?", when="", command=order
        )
        assert [complaint for complaint in lint([entry]) if complaint.rule == "command"] == []


def test_an_order_without_facts_is_the_bare_order() -> None:
    assert command_of(question("gone"), BANK) == ORDERS[question("gone").layer]


def test_every_entry_of_the_bank_gives_an_order() -> None:
    facts = dict.fromkeys(FACTS, 7)
    for entry in BANK:
        order = command_of(replace(question(entry.id), facts=facts), BANK)
        assert "{" not in order
    assert without_command(BANK) == ()
