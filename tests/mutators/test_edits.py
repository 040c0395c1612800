"""Applying answers: properties that hold over all answers, and details that one case of the corpus can't show."""

import random

import pytest

from mutators.edits import Applied, apply
from mutators.question import Rejected, Rejection
from tests.mutators.corpus import CHILD, ONE, TWO, WORDS, cases
from tests.mutators.factories import SOURCE

HEADER, BLOCK = f"{WORDS['header']}\n", f"{WORDS['block']}\n"
OTHER = "        other += 1.0f;"
WHOLE = {
    "block": HEADER + BLOCK,
    "fenced file": f"{HEADER}```cpp\n{CHILD}```\n",
    "bare file": HEADER + CHILD,
    "fenced diff": f"{HEADER}```diff\n{WORDS['diff']}\n```\n",
    "all in a fence": f"```markdown\n{HEADER}```cpp\n{CHILD}```\n```\n",
    "behind reasoning": f"<think>\n{BLOCK}</think>\n{HEADER}{BLOCK}",
}


def source_of(answer: str, parent: str = SOURCE) -> str:
    result = apply(parent, answer)
    assert isinstance(result, Applied), result
    return result.source


@pytest.mark.parametrize("answer", WHOLE.values(), ids=WHOLE.keys())
def test_an_answer_cut_anywhere_gives_its_edit_or_none(answer: str) -> None:
    assert source_of(answer) == CHILD
    for end in range(len(answer)):
        result = apply(SOURCE, answer[:end])
        assert isinstance(result, Rejected) or result.source == CHILD, answer[:end]


def test_damaged_answers_are_judged_not_crashed_on() -> None:
    rng = random.Random(5)
    answers = [case.answer for case in cases() if len(case.answer) < 10_000]
    for answer in answers * 5:
        start = rng.randrange(len(answer))
        damaged = answer[:start] + rng.choice(["", "\n", "```", "/*", "+++\n", "\u2028"]) + answer[start + rng.randrange(9) :]
        result = apply(SOURCE, damaged)
        assert isinstance(result, Applied) or result.reason in Rejection
        if isinstance(result, Applied):
            assert result.source != SOURCE


def test_nearest_line_is_shown() -> None:
    """E01: the parent isn't evaluated again; the answer learns what stands there instead."""
    result = apply("int a=1;\nint b=2;\n", HEADER + "<<<<<<< SEARCH\nint z=2;\n=======\nint z=3;\n>>>>>>> REPLACE\n")
    assert isinstance(result, Rejected)
    assert result.reason is Rejection.NO_MATCH
    assert "line 2: 'int b=2;'" in result.message


def test_lines_outside_a_block_keep_their_line_ends() -> None:
    """A parent with mixed line ends keeps those of every line that the edit doesn't touch."""
    parent = "first\r\nsecond\nthird\r\n"
    child = source_of(HEADER + "<<<<<<< SEARCH\nsecond\nthird\n=======\nSECOND\nthird\n>>>>>>> REPLACE\n", parent)
    assert child == "first\r\nSECOND\nthird\n"
    child = source_of(HEADER + "<<<<<<< SEARCH\nthird\n=======\nTHIRD\n>>>>>>> REPLACE\n", parent)
    assert child == "first\r\nsecond\nTHIRD\r\n"


def test_white_space_at_line_ends_decides_between_two_places() -> None:
    parent = "step;  \nrest\nstep;\n"
    child = source_of(HEADER + "<<<<<<< SEARCH\nstep;\n=======\nleap;\n>>>>>>> REPLACE\n", parent)
    assert child == "step;  \nrest\nleap;\n"


def test_comment_lines_above_a_bare_plan_belong_to_the_file() -> None:
    assert source_of(HEADER + "// a kernel\n" + CHILD) == "// a kernel\n" + CHILD


@pytest.mark.parametrize(
    ("begin", "end"),
    [("// askevolve: begin", "// askevolve: end"), ("/* askevolve: begin */", "/* askevolve: end */")],
)
def test_text_outside_the_markers_stays(begin: str, end: str) -> None:
    """E06: markers bound what may change, for line and block comments."""
    parent = SOURCE.replace(f"{ONE}\n", f"    {begin}\n{ONE}\n    {end}\n")
    assert source_of(HEADER + BLOCK, parent) == parent.replace(ONE, TWO)
    for line in (OTHER, f"    {end}", "BLOCK_N = { value = 64, choices = [32, 64, 128] }"):
        result = apply(parent, HEADER + BLOCK.replace(ONE, line))
        assert isinstance(result, Rejected)
        assert result.reason is Rejection.OUTSIDE_EDITABLE


def test_new_markers_inside_the_editable_part_do_not_widen_it() -> None:
    parent = SOURCE.replace(f"{ONE}\n", f"// askevolve: begin\n{ONE}\n// askevolve: end\n")
    moved = parent.replace("// askevolve: end\n", "", 1).replace(OTHER, "        other += 2.0f;\n// askevolve: end")
    result = apply(parent, f"{HEADER}```cpp\n{moved}```\n")
    assert isinstance(result, Rejected)
    assert result.reason is Rejection.OUTSIDE_EDITABLE
