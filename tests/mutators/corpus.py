"""Reads the corpus of answers in tests/mutators/answers; its README says how a case is written."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutators.answer_form import BLOCK_FORM, HEADER_FORM
from mutators.question import Claim, Rejection
from tests.mutators.factories import SOURCE

FOLDER = Path(__file__).parent / "answers"
ONE = "        sum += 1.0f;"
TWO = "        sum += 2.0f;"
CHILD = SOURCE.replace(ONE, TWO)
HYPOTHESIS = "fewer adds"
PREDICTION: Mapping[str, float] = {"all": 1.05}
KEYS = frozenset({"makes", "rejected", "says", "parent", "line_ends", "parent_line_ends", "hypothesis", "prediction", "claim"})

WORDS = {
    "header": f'+++\nhypothesis = "{HYPOTHESIS}"\nclaim = "none"\n[prediction]\nall = 1.05\n+++',
    "block": f"<<<<<<< SEARCH\n{ONE}\n=======\n{TWO}\n>>>>>>> REPLACE",
    "diff": f"@@ -15,3 +15,3 @@\n     for (long j = 0; j < 64; ++j) {{\n-{ONE}\n+{TWO}\n     }}",
    "one": ONE,
    "two": TWO,
    "parent": SOURCE.rstrip("\n"),
    "child": CHILD.rstrip("\n"),
    "child8": SOURCE.replace(ONE, "        sum += 8.0f;").rstrip("\n"),
    "child, indented by 3": "\n".join(f"   {line}" if line else "" for line in CHILD.rstrip("\n").split("\n")),
    "example header": HEADER_FORM,
    "example block": BLOCK_FORM,
    "bom": "\ufeff",
    "nul": "\0",
    "tab": "\t",
    "nbsp": "\u00a0",
    "zwsp": "\u200b",
    "esc": "\x1b",
    "400 digits": "9" * 400,
    "5000 digits": "9" * 5000,
    "5000 brackets": "[" * 5000,
    "300 KB": "x" * 300_000,
    "megabyte": "x" * 1_000_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One answer to one parent, and what must come of it: the child's source, or a rejection whose message holds ``says``."""

    name: str
    parent: str
    answer: str
    child: str | None
    rejected: Rejection | None
    says: str
    hypothesis: str
    prediction: Mapping[str, float]
    claim: Claim


def cases() -> Sequence[Case]:
    """Every case of every file, in the order of names of files."""
    return [case for path in sorted(FOLDER.glob("*.md")) if path.name != "README.md" for case in _read(path)]


def _read(path: Path) -> Iterator[Case]:
    for part in f"\n{path.read_text(encoding='utf-8')}".split("\n%% ")[1:]:
        name, _, rest = part.partition("\n")
        front, found, text = f"\n{rest}".partition("\n%%\n")
        assert found, f"{path.name}, {name}: no line %% below the front matter"
        table = tomllib.loads(front)
        assert table.keys() <= KEYS, f"{path.name}, {name}: unknown keys {table.keys() - KEYS}"
        assert not {"makes", "rejected"} <= table.keys(), f"{path.name}, {name}: both makes and rejected"
        parent = _ended(_edited(SOURCE, table.get("parent", ())), table.get("parent_line_ends", "lf"))
        makes = table.get("makes", ((ONE, TWO),))
        child = _ended(_edited(_edited(SOURCE, table.get("parent", ())), makes), table.get("parent_line_ends", "lf"))
        rejected = Rejection(table["rejected"]) if "rejected" in table else None
        yield Case(
            name=f"{path.stem}: {name}",
            parent=parent,
            answer=_ended(_filled(text.rstrip("\n") + "\n"), table.get("line_ends", "lf")),
            child=None if rejected else child,
            rejected=rejected,
            says=table.get("says", ""),
            hypothesis=table.get("hypothesis", HYPOTHESIS),
            prediction=table.get("prediction", PREDICTION),
            claim=Claim(table.get("claim", "none")),
        )


def _filled(text: str) -> str:
    for word, value in WORDS.items():
        text = text.replace(f"«{word}»", value)
    assert "«" not in text, text
    return text


def _edited(source: str, edits: Sequence[Sequence[str]]) -> str:
    for old, new in edits:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def _ended(text: str, line_ends: str) -> str:
    """The text with other line ends; "mixed" gives every second line CRLF."""
    if line_ends == "mixed":
        lines = text.split("\n")
        return "\n".join(f"{line}\r" if number % 2 and number < len(lines) else line for number, line in enumerate(lines, 1))
    return text.replace("\n", {"lf": "\n", "crlf": "\r\n", "cr": "\r"}[line_ends])
