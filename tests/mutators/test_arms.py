"""Arms: the same facts as a question, as an order, and as a bare request."""

import re

import pytest

from mutators.arms import REQUEST, Arm, command_of, phrased, request_of
from mutators.bank import load_bank
from mutators.facts import FACTS
from mutators.question import Moment
from mutators.questions import choose
from mutators.records import Records
from tests.mutators.factories import question

BANK = load_bank()
KNOWN = {"group": 8, "sq": 512, "shared_rows": 4096, "query_tile": 128}
ENTRY = next(entry for entry in BANK if entry.id == "rows-that-share-keys")


def asked() -> object:
    import numpy as np

    return choose([ENTRY], Moment.ROUTINE, KNOWN, Records(), (), "cuda", np.random.default_rng(0))


def figures(text: str) -> list[str]:
    return sorted(set(re.findall(r"\d+", text)))


def test_a_question_stays_as_it_is() -> None:
    put = asked()
    assert phrased(Arm.QUESTION, put, BANK, KNOWN, []) is put  # type: ignore[arg-type]


def test_an_order_carries_the_facts_of_its_question() -> None:
    put = asked()
    ordered = phrased(Arm.COMMAND, put, BANK, KNOWN | {"group": 9}, [])  # type: ignore[arg-type]
    assert ordered.text.startswith("Lay query tiles across the 8 heads")
    assert figures(ordered.text) == figures(put.text)  # type: ignore[attr-defined]
    assert "?" not in ordered.text
    assert (ordered.entry_id, ordered.layer, ordered.moment, ordered.facts) == (put.entry_id, put.layer, put.moment, put.facts)  # type: ignore[attr-defined]
    assert ordered.id != put.id  # type: ignore[attr-defined]


def test_the_bare_request_holds_every_fact_and_tool() -> None:
    request = request_of(KNOWN | {"spill_bytes": 40, "of_my_own": 1}, ["profile FILE: counters of one launch"])
    lines = request.splitlines()
    assert lines[0] == REQUEST
    assert f"- spill_bytes = 40  ({FACTS['spill_bytes']})" in lines
    assert "- profile FILE: counters of one launch" in lines
    assert "of_my_own" not in request
    assert request_of({}, []) == REQUEST
    assert phrased(Arm.TOOLS, asked(), BANK, KNOWN, []).text == request_of(KNOWN, [])  # type: ignore[arg-type]


@pytest.mark.parametrize("entry_id", ["human", "message", "gone"])
def test_what_has_no_order_says_so(entry_id: str) -> None:
    with pytest.raises(LookupError, match=entry_id):
        command_of(question(entry_id), BANK)


def test_every_entry_of_the_bank_gives_an_order() -> None:
    facts = dict.fromkeys(FACTS, 7)
    for entry in BANK:
        filled = question(entry.id)
        order = command_of(type(filled)(**{name: getattr(filled, name) for name in filled.__slots__} | {"facts": facts}), BANK)
        assert "{" not in order
