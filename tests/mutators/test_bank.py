"""The shipped bank against the rules of the linter, and a table of entries that each break one."""

from collections import Counter
from pathlib import Path

import pytest

from mutators.bank import BACKENDS, BankError, Entry, load_bank, read_bank, toml_of
from mutators.facts import FACTS
from mutators.linter import lint
from mutators.question import Layer, Moment

GOOD = "Of the {kv_tiles} key tiles in {scenario}, which ones does the kernel visit without need?"


def entry(text: str = GOOD, **changes: object) -> Entry:
    plain: dict[str, object] = {
        "id": "a-question",
        "layer": Layer.MEMORY,
        "moments": (Moment.ROUTINE,),
        "text": text,
        "settle": "time over the tiles",
    }
    return Entry(**(plain | changes))  # type: ignore[arg-type]


def rules(*entries: Entry) -> set[str]:
    return {complaint.rule for complaint in lint(entries)} - {"gap"}


def test_shipped_bank_is_clean() -> None:
    assert [str(complaint) for complaint in lint(load_bank())] == []


def test_shipped_bank_covers_layers_and_moments_on_both_backends() -> None:
    bank = load_bank()
    assert len(bank) >= 110
    assert sum(one.backends == ("cuda",) for one in bank) >= 30
    for backend in BACKENDS:
        here = [one for one in bank if backend in one.backends]
        layers = Counter(one.layer for one in here)
        moments = Counter(moment for one in here for moment in one.moments)
        assert min(layers[layer] for layer in Layer) >= 5
        assert min(moments[moment] for moment in Moment) >= 4


def test_every_shipped_question_has_an_order_with_the_same_facts() -> None:
    assert [one.id for one in load_bank() if not one.command or set(one.command_slots) != set(one.slots)] == []


@pytest.mark.parametrize(
    "command",
    [
        "The {kv_tiles} key tiles of {scenario} are too many.",
        "Visit fewer of the {kv_tiles} key tiles of {scenario}, or is there another way?",
        "Visit fewer of the {kv_tiles} key tiles.",
        "Visit fewer of the {kv_tiles} key tiles of {scenario} and its {q_tiles} query tiles.",
        "Go on",
    ],
)
def test_bad_command_is_refused(command: str) -> None:
    assert rules(entry(command=command)) == {"command"}


def test_good_command_is_taken() -> None:
    assert rules(entry(command="Visit only those of the {kv_tiles} key tiles of {scenario} that hold an unmasked pair.")) == set()


def test_an_entry_is_written_as_it_is_read() -> None:
    fields = {
        "id": "x",
        "layer": "plan",
        "moments": ["stall", "loop"],
        "text": 'Says "{message}" \\ and what?',
        "settle": "time, é",
    }
    read = read_bank(toml_of(fields), "own.toml")[0]
    assert (read.id, read.layer, read.moments, read.text, read.settle) == (
        "x", Layer.PLAN, (Moment.STALL, Moment.LOOP), fields["text"], "time, é",
    )  # fmt: skip


def test_good_entry_has_no_complaint() -> None:
    assert rules(entry()) == set()


BAD = {
    "Use wider vectors in the loop over {kv_tiles} tiles, what happens?": "instruction",
    "The loop is slow. Unroll it by the next power, what do you see then?": "instruction",
    "Have you tried a larger tile of keys for the {kv_tiles} tiles of a row?": "instruction",
    "Would the kernel be faster if you used what you try elsewhere in the loop?": "instruction",
    "Why is the loop over keys inside, when you should turn the two loops around?": "instruction",
    "Is the running maximum needed, and please drop it for the short scenarios?": "instruction",
    "What happens to the time if you replace the call to the exponential with a polynomial?": "instruction",
    "How about a copy of K that has the order in which the inner loop reads it?": "instruction",
    "The tile doesn't fit. Reduce the key tile until it does, how far is that?": "instruction",
    "Does the kernel need so many stages, or would it be better to keep fewer of them?": "instruction",
    "What does the kernel gain when BLOCK_N = 7 instead of today's figure for {scenario}?": "answer",
    "Is a key tile of 128 rows the reason for the time that {scenario} takes?": "answer",
    "Does `#pragma unroll` in front of the inner loop change the time of {scenario}?": "answer",
    "Which of the loads of {tile_bytes} bytes in the inner loop is never needed again?": "slot",
    "Which of the loads of {kv_tiles + 1} tiles in the inner loop is never needed again?": "slot",
    "The inner loop of the kernel has loads that nobody needs for the result of a row.": "question",
    "Where does time go?": "length",
    "Where does the time go, " + "and where else " * 40 + "does it go?": "length",
}


@pytest.mark.parametrize(("text", "rule"), BAD.items(), ids=[f"{rule}-{index}" for index, rule in enumerate(BAD.values())])
def test_bad_text_is_refused(text: str, rule: str) -> None:
    assert rule in rules(entry(text))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"when": "kv_tile > 3"}, "when"),
        ({"when": "kv_tiles >"}, "when"),
        ({"settle": "  "}, "settle"),
        ({"id": "A Question"}, "id"),
    ],
)
def test_bad_field_is_refused(changes: dict[str, object], rule: str) -> None:
    assert rules(entry(**changes)) == {rule}


def test_near_names_are_suggested() -> None:
    messages = [complaint.message for complaint in lint([entry(when="kv_tile > 3")]) if complaint.rule == "when"]
    assert "did you mean 'kv_tiles'?" in messages[0]


def test_duplicates_are_refused() -> None:
    assert rules(entry(), entry(text="Which bytes of the output are written by two of the {tasks} tasks at once?")) == {
        "duplicate"
    }
    assert rules(entry(), entry(id="other", text=GOOD.replace("without need", "in vain"))) == {"duplicate"}


def test_symbols_of_a_task_may_be_named() -> None:
    own = entry(text="At a threshold of {alpha}, how many of the {kv_tiles} key tiles hold anything but zeros?", when="alpha > 1")
    assert rules(own) == {"slot", "when"}
    assert {complaint.rule for complaint in lint([own], symbols=["alpha"])} == {"gap"}


def test_a_bank_without_a_free_question_has_a_gap() -> None:
    free = entry(text="Which of the loads in the inner loop is never needed again?", moments=tuple(Moment), backends=("cpu",))
    gaps = [complaint.message for complaint in lint([free])]
    assert len(gaps) == len(Moment)
    assert all("cuda" in gap for gap in gaps)


def test_a_tasks_own_questions_come_after_the_shipped_ones(tmp_path: Path) -> None:
    path = tmp_path / "questions.toml"
    path.write_text('[[question]]\nid = "x"\nlayer = "plan"\nmoments = ["stall"]\ntext = "a\\n  b?"\nsettle = "time"\n')
    bank = load_bank([path])
    assert bank[-1].text == "a b?"
    assert bank[-1].source == str(path)
    assert len(bank) == len(load_bank()) + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question", "no TOML"),
        ("[questions]\n", "[[question]]"),
        ('[[question]]\nid = "x"\n', "missing layer, moments, settle, text"),
        ('[[question]]\nid = "x"\nwhy = 1\n', "unknown keys why"),
        ('[[question]]\nid = "x"\nlayer = "tea"\nmoments = ["stall"]\ntext = "?"\nsettle = "t"\n', "allowed are algorithm"),
        ('[[question]]\nid = "x"\nlayer = "plan"\nmoments = []\ntext = "?"\nsettle = "t"\n', "moments"),
        ('[[question]]\nid = 3\nlayer = "plan"\nmoments = ["stall"]\ntext = "?"\nsettle = "t"\n', "id is no text"),
    ],
)
def test_unreadable_bank_says_where(text: str, message: str) -> None:
    with pytest.raises(BankError, match=r"own\.toml") as caught:
        read_bank(text, "own.toml")
    assert message in str(caught.value)


def test_missing_bank_file_says_which(tmp_path: Path) -> None:
    with pytest.raises(BankError, match=r"gone\.toml"):
        load_bank([tmp_path / "gone.toml"])


def test_every_fact_is_described() -> None:
    assert all(meaning.strip() for meaning in FACTS.values())
