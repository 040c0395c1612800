"""A case is added to a knob however its TOML is written, and nothing else changes."""

import tomllib

import pytest

from mutators.plan_text import Target, add_case, without_values

FORMS = {
    "inline": "[knobs]\nBLOCK = { value = 16, choices = [8, 16] }  # of [rows]",
    "own table": "[knobs.BLOCK]\nvalue = 16  # rows\nchoices = [8, 16]",
    "dotted": "[knobs]\nBLOCK.value = 16\nBLOCK.choices = [8, 16]",
    "empty list": "[knobs]\nBLOCK = { value = 16, when = [], choices = [8, 16] }",
    "cases": '[knobs]\nBLOCK = { value = 16, when = [["n == 4", 8], ["n == 64", 16],], choices = [8, 16] }',
}


def source(form: str) -> str:
    return f'/* plan\n{FORMS[form]}\n[[launch]]\nkernel = "f"\nargs = ["x"]\n*/\nint BLOCK[16];\n'


def plan(text: str) -> dict[str, object]:
    return tomllib.loads(text.split("/* plan\n")[1].split("*/", maxsplit=1)[0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", [None, 0, 1])
def test_a_case_stands_before_the_number_that_it_takes_from(form: str, case: int | None) -> None:
    text = source(form)
    changed = add_case(text, Target(name="BLOCK", case=case), "n <= 8 and dtype == 'fp32'", 8)
    wanted = plan(text)
    cases = wanted["knobs"]["BLOCK"].setdefault("when", [])  # type: ignore[index]
    if case is not None and case >= len(cases):
        assert changed is None
        return
    cases.insert(len(cases) if case is None else case, ["n <= 8 and dtype == 'fp32'", 8])
    assert changed is not None
    assert plan(changed) == wanted
    assert changed.split("*/")[1] == text.split("*/")[1]


def test_without_a_plan_or_the_knob_there_is_no_case() -> None:
    assert add_case("int x;\n", Target(name="BLOCK"), "n", 8) is None
    assert add_case(source("inline"), Target(name="OTHER"), "n", 8) is None


def test_without_values_kernels_that_differ_in_them_alone_are_the_same() -> None:
    plain = without_values(source("inline"))
    assert plain == without_values(source("inline").replace("value = 16", "value = 8"))
    assert plain[1] == without_values(source("cases"))[1]
    assert plain != without_values(source("inline").replace("[8, 16]", "[8, 16, 32]"))
    assert plain != without_values(source("inline").replace("int BLOCK", "long BLOCK"))
    assert without_values("int x;\n") == ("int x;\n", None)
