"""Answers of every shape, applied to one parent: each gives the right edit or the right named rejection (E01 to E08)."""

import pytest

from mutators.edits import MAX_ANSWER_BYTES, Applied, apply
from mutators.question import Claim, Rejected, Rejection
from tests.mutators.factories import SOURCE

HEADER = '+++\nhypothesis = "fewer adds"\nclaim = "none"\n[prediction]\nall = 1.05\n+++\n'
ONE = "        sum += 1.0f;"
TWO = "        sum += 2.0f;"
CHILD = SOURCE.replace(ONE, TWO)
BLOCK = f"<<<<<<< SEARCH\n{ONE}\n=======\n{TWO}\n>>>>>>> REPLACE\n"
DIFF = f"@@ -15,3 +15,3 @@\n     for (long j = 0; j < 64; ++j) {{\n-{ONE}\n+{TWO}\n     }}\n"
LAUNCH = "    k<<<grid, block>>>(x);"


def fence(text: str, tag: str = "cpp", mark: str = "```") -> str:
    return f"{mark}{tag}\n{text.rstrip()}\n{mark}\n"


GOOD = {
    # SEARCH/REPLACE
    "one block": HEADER + BLOCK,
    "prose around": "Sure.\n\n" + HEADER + "I looked at the loop.\n" + BLOCK + "That is all.\n",
    "CRLF answer": (HEADER + BLOCK).replace("\n", "\r\n"),
    "trailing space on markers": HEADER + BLOCK.replace("SEARCH\n", "SEARCH \n").replace("=======\n", "=======  \n"),
    "eight chevrons": HEADER + BLOCK.replace("<<<<<<<", "<<<<<<<<").replace(">>>>>>>", ">>>>>>>>").replace("=======", "========"),
    "five chevrons": HEADER + BLOCK.replace("<<<<<<<", "<<<<<").replace(">>>>>>>", ">>>>>").replace("=======", "====="),
    "lower-case markers": HEADER + BLOCK.replace("SEARCH", "search").replace("REPLACE", "replace"),
    "indented markers": HEADER + BLOCK.replace("<<<<<<<", "  <<<<<<<").replace(">>>>>>>", "  >>>>>>>"),
    "colon after SEARCH": HEADER + BLOCK.replace("SEARCH", "SEARCH:"),
    "fenced as diff": HEADER + fence(BLOCK, "diff"),
    "fenced as cpp": HEADER + fence(BLOCK, "cpp"),
    "fences inside the parts": HEADER + f"<<<<<<< SEARCH\n```cpp\n{ONE}\n```\n=======\n```cpp\n{TWO}\n```\n>>>>>>> REPLACE\n",
    "white space at a line's end": HEADER + BLOCK.replace(ONE, ONE + "  "),
    "byte order mark": "\ufeff" + HEADER + BLOCK,
    # unified diffs
    "diff in a fence": HEADER + fence(DIFF, "diff"),
    "bare diff": HEADER + DIFF,
    "diff with file names": HEADER + fence("--- a/kernel.cpp\n+++ b/kernel.cpp\n" + DIFF, "diff"),
    "git diff": HEADER + "diff --git a/k.cpp b/k.cpp\nindex 0123abc..4567def 100644\n--- a/k.cpp\n+++ b/k.cpp\n" + DIFF,
    "diff with wrong counts": HEADER + fence(DIFF.replace("15,3", "3,99"), "diff"),
    "diff with a bare @@": HEADER + fence(DIFF.replace("@@ -15,3 +15,3 @@", "@@"), "diff"),
    "diff without hunk heads": HEADER + fence(DIFF.split("\n", 1)[1], "diff"),
    "diff without newline note": HEADER + fence(DIFF + "\\ No newline at end of file\n", "diff"),
    "diff with prose below": HEADER + DIFF + "\nThis doubles the step.\n",
    # whole files
    "whole file, cpp": HEADER + fence(CHILD),
    "whole file, c++": HEADER + fence(CHILD, "c++"),
    "whole file, cuda with attributes": HEADER + fence(CHILD, "cuda title=k.cu"),
    "whole file, no tag": HEADER + fence(CHILD, ""),
    "whole file, CPP": HEADER + fence(CHILD, "CPP"),
    "whole file, tildes": HEADER + fence(CHILD, "cpp", "~~~"),
    "whole file, long fence": HEADER + fence(CHILD, "cpp", "`````"),
    "old file, then new": HEADER + "before:\n" + fence(SOURCE) + "after:\n" + fence(CHILD),
    "snippet after the file": HEADER + fence(CHILD) + "the core of it:\n" + fence("sum += 2.0f;"),
    "script before the file": HEADER + fence("print('x')", "python") + fence(CHILD),
    "whole file without fence": HEADER + CHILD,
    "explanation fenced as text": HEADER + fence("why", "text") + CHILD,
    "whole file without fence, prose below": HEADER + "Here it is:\n" + CHILD + "\nThis doubles the step.\n",
    # headers
    "header in a toml fence": fence(HEADER, "toml") + BLOCK,
    "header as a toml fence only": fence(HEADER.replace("+++\n", ""), "toml") + BLOCK,
    "closed reasoning first": "<think>\nmaybe <<<<<<< SEARCH\n</think>\n" + HEADER + BLOCK,
    "only the end of reasoning": "maybe this\n</think>\n" + HEADER + BLOCK,
    "two reasonings": "<thinking>a</thinking>\n<think>b</think>\n" + HEADER + BLOCK,
    "claim below prediction": '+++\nhypothesis = "fewer adds"\n[prediction]\nall = 1.05\nclaim = "none"\n+++\n' + BLOCK,
    "prediction as a number": '+++\nhypothesis = "fewer adds"\nprediction = 1.05\n+++\n' + BLOCK,
    "prediction as text": '+++\nhypothesis = "fewer adds"\nprediction = { all = "+5 %" }\n+++\n' + BLOCK,
    "prediction with an x": '+++\nhypothesis = "fewer adds"\nprediction = { all = "1.05x" }\n+++\n' + BLOCK,
}


@pytest.mark.parametrize("answer", GOOD.values(), ids=GOOD.keys())
def test_form_is_forgiven(answer: str) -> None:
    result = apply(SOURCE, answer)
    assert isinstance(result, Applied), result
    assert result.source == CHILD
    assert result.header.hypothesis == "fewer adds"
    assert result.header.prediction == pytest.approx({"all": 1.05})
    assert result.header.claim is Claim.NONE


OTHER = "        other += 1.0f;"
LOOP = "    for (long j = 0; j < 64; ++j) {"
BAD = {
    "not in the parent": (HEADER + BLOCK.replace(ONE, "        total += 1.0f;"), Rejection.NO_MATCH),
    "part of a line": (HEADER + BLOCK.replace(ONE, "sum += 1.0f;"), Rejection.NO_MATCH),
    "tabs for spaces": (HEADER + BLOCK.replace(ONE, "\t\tsum += 1.0f;"), Rejection.NO_MATCH),
    "lines not together": (HEADER + BLOCK.replace(ONE, f"{ONE}\n{OTHER}"), Rejection.NO_MATCH),
    "empty SEARCH": (HEADER + BLOCK.replace(f"{ONE}\n", ""), Rejection.NO_MATCH),
    "unicode look-alike": (HEADER + BLOCK.replace(ONE, ONE.replace("u", "\u03c5")), Rejection.NO_MATCH),
    "second block gone stale": (HEADER + BLOCK + BLOCK, Rejection.NO_MATCH),
    "diff that doesn't match": (HEADER + fence(DIFF.replace("sum", "total"), "diff"), Rejection.NO_MATCH),
    "diff that only adds": (HEADER + fence("@@ -1,0 +1,1 @@\n+int x;\n", "diff"), Rejection.NO_MATCH),
    "matches twice": (HEADER + BLOCK.replace(ONE, LOOP), Rejection.AMBIGUOUS),
    "diff matches twice": (HEADER + fence(f"@@ -3,1 +3,1 @@\n-{LOOP}\n+    {{\n", "diff"), Rejection.AMBIGUOUS),
    "two separators": (HEADER + BLOCK.replace("=======\n", "=======\nx\n=======\n"), Rejection.AMBIGUOUS),
    "SEARCH equals REPLACE": (HEADER + BLOCK.replace(TWO, ONE), Rejection.NO_CHANGE),
    "whole file unchanged": (HEADER + fence(SOURCE), Rejection.NO_CHANGE),
    "no end of block": (HEADER + BLOCK.replace(">>>>>>> REPLACE\n", ""), Rejection.TRUNCATED),
    "diff of a head alone": (HEADER + "@@ -15,3 +15,3 @@\n", Rejection.TRUNCATED),
    "open fence without plan": (HEADER + "```cpp\nsum += 2.0f;\n", Rejection.TRUNCATED),
    "no separator": (HEADER + BLOCK.replace("=======\n", ""), Rejection.TRUNCATED),
    "ends after SEARCH": (HEADER + f"<<<<<<< SEARCH\n{ONE}", Rejection.TRUNCATED),
    "begins in the middle": (HEADER + f"{ONE}\n=======\n{TWO}\n>>>>>>> REPLACE\n", Rejection.TRUNCATED),
    "first block not closed": (HEADER + BLOCK.replace(">>>>>>> REPLACE\n", "") + BLOCK, Rejection.TRUNCATED),
    "open fence": (HEADER + fence(CHILD).removesuffix("```\n"), Rejection.TRUNCATED),
    "open fence cut early": (HEADER + fence(CHILD)[:300], Rejection.TRUNCATED),
    "bare file cut": (HEADER + CHILD[:-30], Rejection.TRUNCATED),
    "reasoning never ends": ("<think>\n" + HEADER + BLOCK, Rejection.TRUNCATED),
    "reasoning never ends, upper case": ("<Think>I wonder", Rejection.TRUNCATED),
    "ends in the header": ('+++\nhypothesis = "fewer', Rejection.TRUNCATED),
    "no header": (BLOCK, Rejection.HEADER_MISSING),
    "nothing": ("", Rejection.HEADER_MISSING),
    "apology": ("I cannot do that, sorry.", Rejection.HEADER_MISSING),
    "header never closed": ('+++\nhypothesis = "x"\n' + BLOCK, Rejection.HEADER_INVALID),
    "header is no TOML": ("+++\nhypothesis: fewer adds\n+++\n" + BLOCK, Rejection.HEADER_INVALID),
    "no hypothesis": ('+++\nclaim = "none"\n+++\n' + BLOCK, Rejection.HEADER_INVALID),
    "empty hypothesis": ('+++\nhypothesis = " "\n+++\n' + BLOCK, Rejection.HEADER_INVALID),
    "unknown claim": ('+++\nhypothesis = "x"\nclaim = "maybe"\n+++\n' + BLOCK, Rejection.HEADER_INVALID),
    "prediction no ratio": ('+++\nhypothesis = "x"\nprediction = { all = "much" }\n+++\n' + BLOCK, Rejection.HEADER_INVALID),
    "prediction infinite": ('+++\nhypothesis = "x"\nprediction = { all = inf }\n+++\n' + BLOCK, Rejection.HEADER_INVALID),
    "prediction true": ('+++\nhypothesis = "x"\nprediction = { all = true }\n+++\n' + BLOCK, Rejection.HEADER_INVALID),
    "prediction negative": ('+++\nhypothesis = "x"\nprediction = { all = -1.0 }\n+++\n' + BLOCK, Rejection.HEADER_INVALID),
    "header and apology": (HEADER + "I cannot do that, sorry.", Rejection.NO_CODE),
    "snippet without plan": (HEADER + fence("sum += 2.0f;"), Rejection.NO_CODE),
    "only a script": (HEADER + fence("print('x')", "python"), Rejection.NO_CODE),
    "NUL bytes": (HEADER + BLOCK + "\0", Rejection.NO_CODE),
    "ceiling without edit": (HEADER.replace('"none"', '"ceiling"') + "This is the limit.\n", Rejection.CLAIM_ONLY),
    "done without edit": (HEADER.replace('"none"', '"DONE"'), Rejection.CLAIM_ONLY),
    "nothing left to try": (HEADER.replace('"none"', '"ceiling"\nexhausted = true'), Rejection.EXHAUSTED),
    "answer too large": (HEADER + BLOCK + "x" * MAX_ANSWER_BYTES, Rejection.TOO_LARGE),
    "source too large": (HEADER + BLOCK.replace(TWO, "// " + "x" * 300_000), Rejection.TOO_LARGE),
}


@pytest.mark.parametrize(("answer", "reason"), BAD.values(), ids=BAD.keys())
def test_content_is_exact(answer: str, reason: Rejection) -> None:
    result = apply(SOURCE, answer)
    assert isinstance(result, Rejected), result
    assert result.reason is reason, result.message
    assert len(result.message) > 20
    assert len(result.message) < 1500


def source_of(answer: str, parent: str = SOURCE) -> str:
    result = apply(parent, answer)
    assert isinstance(result, Applied), result
    return result.source


def test_nearest_line_is_shown() -> None:
    """E01: the parent isn't evaluated again; the answer learns what stands there instead."""
    result = apply("int a=1;\nint b=2;\n", HEADER + "<<<<<<< SEARCH\nint z=2;\n=======\nint z=3;\n>>>>>>> REPLACE\n")
    assert isinstance(result, Rejected)
    assert result.reason is Rejection.NO_MATCH
    assert "line 2: 'int b=2;'" in result.message


def test_white_space_is_named() -> None:
    result = apply(SOURCE, BAD["tabs for spaces"][0])
    assert isinstance(result, Rejected)
    assert "only the white space differs in line 17" in result.message


def test_empty_replace_deletes_the_line() -> None:
    assert source_of(HEADER + BLOCK.replace(f"{TWO}\n", "")) == SOURCE.replace(f"{ONE}\n", "")


def test_separator_must_be_a_whole_line() -> None:
    parent = SOURCE.replace(ONE, f"        // =======\n{ONE}")
    answer = HEADER + f"<<<<<<< SEARCH\n        // =======\n{ONE}\n=======\n        // =======\n{TWO}\n>>>>>>> REPLACE\n"
    assert source_of(answer, parent) == parent.replace(ONE, TWO)


def test_kernel_launch_is_no_marker() -> None:
    parent = SOURCE.replace(ONE, LAUNCH)
    assert source_of(HEADER + BLOCK.replace(ONE, LAUNCH), parent) == CHILD


def test_back_ticks_in_a_comment_do_not_end_the_file() -> None:
    commented = CHILD.replace("extern", "/* drawn as\n```\ntile\n```\n*/\nextern", 1)
    assert source_of(HEADER + fence(commented)) == commented


def test_blocks_apply_in_turn() -> None:
    second = f"<<<<<<< SEARCH\n{TWO}\n=======\n        sum += 3.0f;\n>>>>>>> REPLACE\n"
    assert source_of(HEADER + BLOCK + second) == SOURCE.replace(ONE, "        sum += 3.0f;")


def test_diff_of_two_hunks_and_an_exact_line_number() -> None:
    number = SOURCE.split("\n").index(OTHER)  # the 1-based line of the loop above it
    hunk = f"@@ -{number},1 +{number},1 @@\n-{LOOP}\n+    for (long j = 0; j < 32; ++j) {{\n"
    child = source_of(HEADER + fence(DIFF + hunk, "diff"))
    assert child == CHILD.replace(f"{LOOP}\n{OTHER}", LOOP.replace("64", "32") + f"\n{OTHER}")


def test_line_ends_of_the_parent_are_kept() -> None:
    assert source_of(HEADER + BLOCK, SOURCE.replace("\n", "\r\n")) == CHILD.replace("\n", "\r\n")


def test_comment_lines_above_a_bare_plan_belong_to_the_file() -> None:
    assert source_of(HEADER + "// a kernel\n" + CHILD) == "// a kernel\n" + CHILD


def test_claim_with_an_edit_is_an_edit() -> None:
    result = apply(SOURCE, HEADER.replace('"none"', '"done"') + BLOCK)
    assert isinstance(result, Applied)
    assert result.header.claim is Claim.DONE


@pytest.mark.parametrize(
    ("begin", "end"), [("// askevolve: begin", "// askevolve: end"), ("/* askevolve: begin */", "/* askevolve: end */")]
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
    result = apply(parent, HEADER + fence(moved))
    assert isinstance(result, Rejected)
    assert result.reason is Rejection.OUTSIDE_EDITABLE
