"""Claims in prose, against labelled sentences: how often the detector is right, and that the documentation says so."""

import tomllib
from pathlib import Path

import pytest

from mutators.attempts import attempt_of
from mutators.claims import MAX_CHARS, claim_in, claim_of
from mutators.moments import MomentSettings, notice
from mutators.question import Answer, Claim, Header, Moment, Rejected, Rejection
from population.candidate import Origin, Step
from tests.mutators.factories import SOURCE, header, outcome, question

GROUPS = tomllib.loads((Path(__file__).parent / "claims.toml").read_text())["group"]
DOC = (Path(__file__).parents[2] / "docs" / "questions.md").read_text()


def labelled(half: str) -> list[tuple[str, Claim]]:
    return [(sentence, Claim(group["claim"])) for group in GROUPS if group["half"] == half for sentence in group["sentences"]]


def precision_and_recall(half: str, claim: Claim) -> tuple[float, float]:
    rows = [(label, claim_of(sentence)) for sentence, label in labelled(half)]
    hits = sum(label is claim and found is claim for label, found in rows)
    return hits / sum(found is claim for _, found in rows), hits / sum(label is claim for label, _ in rows)


def test_there_are_enough_sentences_of_every_kind() -> None:
    for half in ("tuning", "held_out"):
        labels = [label for _, label in labelled(half)]
        assert len(labels) >= 50
        assert min(labels.count(claim) for claim in Claim) >= 14
    sentences = [sentence for half in ("tuning", "held_out") for sentence, _ in labelled(half)]
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("claim", [Claim.CEILING, Claim.DONE])
@pytest.mark.parametrize("half", ["tuning", "held_out"])
def test_documentation_states_precision_and_recall_as_measured(half: str, claim: Claim) -> None:
    precision, recall = precision_and_recall(half, claim)
    named = half.replace("_", " ")
    assert f"| {named} | {claim.value} | {precision:.2f} | {recall:.2f} |" in DOC


def test_claims_are_seldom_seen_where_there_are_none() -> None:
    for half, most in (("tuning", 0.01), ("held_out", 0.05)):
        none = [sentence for sentence, label in labelled(half) if label is Claim.NONE]
        assert sum(claim_of(sentence) is not Claim.NONE for sentence in none) / len(none) <= most


def test_code_is_no_prose() -> None:
    claim = "The kernel is at its limit."
    assert claim_in(f"Here it is.\n\n{claim}\n") is Claim.CEILING
    assert claim_in(f"Here it is.\n```cpp\n// {claim}\n```\nThe loads leave earlier.") is Claim.NONE
    assert claim_in(f"<<<<<<< SEARCH\n// {claim}\n=======\n// x\n>>>>>>> REPLACE\n") is Claim.NONE


def test_a_ceiling_outranks_done() -> None:
    assert claim_in("The task is complete. No further speedup is possible.") is Claim.CEILING


def test_long_answers_are_read_at_both_ends() -> None:
    filler = "It moves a load. " * (2 * MAX_CHARS // 17)
    assert claim_in(f"{filler} We're done.") is Claim.DONE
    assert claim_in(f"{filler} We're done. {filler}") is Claim.NONE


def attempt_saying(text: str, said_header: Header | None) -> Moment:
    rejected = Rejected(reason=Rejection.CLAIM_ONLY, message="no edit")
    made = attempt_of(
        step=Step(number=0, origin=Origin.QUESTION, island=0, parent_id="p", candidate_id=None),
        accepted=False,
        question=question(),
        answer=Answer(text=text, answerer="x"),
        header=said_header,
        rejected=rejected,
        outcome=None,
        parent_outcome=outcome(),
        source=None,
        parent_source=SOURCE,
    )
    return notice([made], "p", MomentSettings())


def test_a_claim_in_the_header_counts_before_one_in_prose() -> None:
    assert attempt_saying("The kernel is at its limit.", None) is Moment.CEILING_CLAIM
    assert attempt_saying("The kernel is at its limit.", header()) is Moment.CEILING_CLAIM
    assert attempt_saying("The kernel is at its limit.", header(Claim.DONE)) is Moment.DONE_CLAIM
    assert attempt_saying("The loads leave earlier.", header()) is Moment.ROUTINE
