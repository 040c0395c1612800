"""The mailbox: first answer counts, leases keep answerers apart, any number of processes at once, nothing lost."""

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from mutators.question import Answer, FirstTurn, Layer, Rejected, Rejection, Usage
from results.codec import decode
from results.errors import RunDamaged, RunTooNew
from results.folder import MAILBOX
from results.mailbox import LEASE_S, Asked, Lease, Mailbox


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def mailbox(tmp_path: Path, clock: Clock) -> Mailbox:
    return Mailbox(tmp_path, clock)


def answer(text: str = "+++") -> Answer:
    return Answer(text=text, answerer="ann", usage=Usage(prompt_tokens=3, answer_tokens=4, cost_usd=0.5, wall_s=2.5))


def test_nothing_is_made_by_looking(mailbox: Mailbox, tmp_path: Path) -> None:
    assert (mailbox.answer(3), mailbox.answered(), mailbox.leases(), mailbox.asked()) == (None, frozenset(), (), ())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "a → b\r\n\x00", "half a character \ud800", "x" * 100_000])
def test_the_first_answer_counts_and_comes_back_whole(mailbox: Mailbox, text: str) -> None:
    assert mailbox.put(3, answer(text))
    assert not mailbox.put(3, answer("another"))
    assert mailbox.answer(3) == answer(text)
    assert mailbox.answered() == {3}


def test_an_answer_in_two_turns_comes_back_whole_and_one_from_before_there_were_two_is_read(mailbox: Mailbox) -> None:
    first = FirstTurn(text="no\ud800", rejected=Rejected(reason=Rejection.NO_CODE, message="send one"))
    both = replace(answer(), model="m", first=first)
    assert mailbox.put(3, both)
    assert mailbox.answer(3) == both
    assert decode(Answer, '{"text":"+++","answerer":"ann"}') == Answer(text="+++", answerer="ann")


def test_leases_keep_people_apart_until_they_run_out(mailbox: Mailbox, clock: Clock) -> None:
    assert mailbox.lease([4, 5], "ann") == Lease(step=4, holder="ann", until=1000 + LEASE_S)
    clock.now += 10
    assert mailbox.lease([4, 5], "bob") == Lease(step=5, holder="bob", until=1010 + LEASE_S)
    assert mailbox.lease([4, 5], "cem") is None
    assert mailbox.lease([4, 5, 6], "ann") == Lease(step=4, holder="ann", until=1010 + LEASE_S), "their own, for longer"
    mailbox.put(4, answer())
    assert mailbox.lease([4, 5, 6], "ann") == Lease(step=6, holder="ann", until=1010 + LEASE_S)
    assert [(lease.step, lease.holder) for lease in mailbox.leases()] == [(5, "bob"), (6, "ann")]
    clock.now += LEASE_S
    assert mailbox.leases() == ()
    assert mailbox.lease([4, 5, 6], "cem") == Lease(step=5, holder="cem", until=clock.now + LEASE_S)
    assert mailbox.lease([4], "cem") is None


def test_many_at_once_get_one_prompt_each_and_one_of_many_answers_counts(tmp_path: Path) -> None:
    leases: list[Lease | None] = []
    kept: list[bool] = []

    def take(place: int) -> None:
        leases.append(Mailbox(tmp_path).lease(range(8), f"person {place}"))
        kept.append(Mailbox(tmp_path).put(99, answer(str(place))))

    threads = [threading.Thread(target=take, args=(place,)) for place in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    steps = [lease.step for lease in leases if lease is not None]
    assert sorted(steps) == list(range(8))
    assert leases.count(None) == 2
    assert sum(kept) == 1


def test_what_people_ask_is_kept_in_order(mailbox: Mailbox) -> None:
    first = Asked(text="Why?", layer=Layer.MEMORY, message=False, parent_id="ab", person="ann")
    second = Asked(text="There are two channels. \ud800", layer=Layer.PLAN, message=True, parent_id=None, person="bob")
    for one in (first, second, first):
        mailbox.ask(one)
    again = mailbox.asked()
    assert again[::2] == (first, first)
    assert (again[1].text, again[1].message) == ("There are two channels. \\ud800", True)


def test_a_damaged_or_newer_mailbox_is_named(mailbox: Mailbox, tmp_path: Path) -> None:
    mailbox.put(1, answer())
    db = sqlite3.connect(tmp_path / MAILBOX)
    db.execute("UPDATE answers SET answer = '{}'")
    db.commit()
    with pytest.raises(RunDamaged, match="answer to step 1"):
        mailbox.answer(1)
    db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(RunTooNew, match=MAILBOX):
        mailbox.answered()
    (tmp_path / MAILBOX).write_bytes(b"no database" * 100)
    with pytest.raises(RunDamaged, match=MAILBOX):
        mailbox.put(2, answer())


def test_a_half_written_answer_is_none(mailbox: Mailbox, tmp_path: Path) -> None:
    """A process that dies within its transaction leaves what was there before."""
    mailbox.put(1, answer())
    whole = (tmp_path / MAILBOX).read_bytes()
    db = sqlite3.connect(tmp_path / MAILBOX, isolation_level=None)
    db.execute("PRAGMA cache_spill = 1")
    db.execute("PRAGMA cache_size = 1")
    db.execute("BEGIN IMMEDIATE")
    for step in range(2, 40):
        db.execute("INSERT INTO answers VALUES (?, ?, 0)", (step, "x" * 5000))
    torn = tmp_path / "torn"
    torn.mkdir()
    for name in (MAILBOX, f"{MAILBOX}-journal"):
        (torn / name).write_bytes((tmp_path / name).read_bytes())
    db.execute("ROLLBACK")
    db.close()
    assert (torn / MAILBOX).read_bytes() != whole, "pages of the transaction had reached the file"
    assert Mailbox(torn).answered() == {1}
    assert Mailbox(torn).answer(1) == answer()
