"""Finds the plan comment in a source, reads its TOML, and remembers on which line each key stands."""

import re
import tomllib

from evaluator.plan.model import PlanError

MAX_SOURCE_BYTES = 256 * 1024
MAX_PLAN_BYTES = 16 * 1024
_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\s-]+?)\s*\]")
_KEY = re.compile(r"""\s*["']?([A-Za-z0-9_-]+)["']?\s*(?:=|\.)""")
PLAN_OPENING = re.compile(r"[ \t]*/\* plan(?:(?!\S)|(?=\*/))")
_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)|\(at end of document\)")
_HINTS = (
    ("Illegal character '\\n'", "a quote isn't closed"),
    ("Unclosed array", "a comma or a `]` is missing on this line or before it"),
    ("Unclosed inline table", "a comma or a `}` is missing; an inline table stands on one line"),
    ("Expected newline", "write one `key = value` a line, in quotes where it is no number"),
    ("Cannot overwrite", "each key is written once"),
    ("Cannot declare", "each table is written once; several launches are several [[launch]]"),
    ("Invalid value", 'a value is a number, true, false, a "quoted text", a [list] or a { table }'),
)
"""What the TOML reader says, and what to do."""
NO_PLAN = "the source has no plan; begin it with a comment `/* plan ... */` that holds at least one [[launch]]"
Path = tuple[str | int, ...]


def plan_text(source: str) -> tuple[str, int]:
    """The text inside the plan comment and the source line (from 1) of its first character. PlanError if there is none."""
    _check_source(source)
    start, line = 0, 1
    for text in source.split("\n"):
        if PLAN_OPENING.match(text):
            break
        if text.strip() and not text.lstrip().startswith("//"):
            raise PlanError(_no_plan_here(text, source[start:]), line)
        start += len(text) + 1
        line += 1
    else:
        raise PlanError(NO_PLAN, 1)
    opening = PLAN_OPENING.match(source, start)
    assert opening is not None
    end = source.find("*/", opening.end())
    if end < 0:
        raise PlanError("the plan comment is never closed; end it with `*/`", line)
    body = source[opening.end() : end]
    if len(body.encode()) > MAX_PLAN_BYTES:
        raise PlanError(f"the plan has {len(body.encode())} bytes; at most {MAX_PLAN_BYTES} are allowed", line)
    _check_only_one(source, end + 2)
    return body, line


def _check_source(source: str) -> None:
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        line = source.count("\n", 0, error.start) + 1
        raise PlanError("a character that isn't valid UTF-8; save the file as UTF-8", line) from None
    if size > MAX_SOURCE_BYTES:
        raise PlanError(f"the source has {size} bytes; at most {MAX_SOURCE_BYTES} are allowed", 1)
    if "\0" in source:
        line = source.count("\n", 0, source.index("\0")) + 1
        raise PlanError("a NUL byte; a source is plain text, remove it", line)
    if source.startswith("\ufeff"):
        raise PlanError("the file begins with a byte-order mark; save it as UTF-8 without one", 1)


def _no_plan_here(text: str, rest: str) -> str:
    """What is wrong with a line that stands where the plan must begin; ``rest`` is the source from there on."""
    if re.match(r"\s*/\*+\s*plan\b", text, re.IGNORECASE):
        return "the plan comment must begin with exactly `/* plan`, in lower case with one space"
    if text.lstrip().startswith("```"):
        return "a fence of markdown; a source is the bare file, so remove it"
    if re.match(r"\s*/\*", text):
        return "the first block comment must begin `/* plan`; put the plan before every other block comment"
    if not any(PLAN_OPENING.match(line) for line in rest.split("\n")):
        return NO_PLAN
    return "code before the plan; only // lines and blank lines may stand before the comment `/* plan ... */`"


def _check_only_one(source: str, start: int) -> None:
    for number, text in enumerate(source[start:].split("\n")):
        if PLAN_OPENING.match(text):
            line = source.count("\n", 0, start) + 1 + number
            raise PlanError("a second comment begins `/* plan`; there is exactly one plan, so merge or reword this one", line)


def load_table(body: str, first_line: int) -> dict[str, object]:
    """The TOML of a plan. PlanError with the line in the source and a hint for the usual slips."""
    try:
        return tomllib.loads(body)
    except RecursionError:
        raise PlanError("the plan's TOML is nested too deeply", first_line) from None
    except ValueError as error:
        lines = body.split("\n")
        found = _AT_LINE.search(str(error))
        number = int(found[1]) if found and found[1] else len(lines)
        problem = _AT_LINE.sub("", str(error)).strip()
        hint = _toml_hint(lines[number - 1], problem, at_end=number == len(lines))
        raise PlanError(f"the plan isn't valid TOML: {problem[:200]}{hint}", first_line + number - 1) from None


def _toml_hint(line: str, problem: str, *, at_end: bool) -> str:
    if re.match(r"\s*(//|/\*)", line):
        return "; comments in the plan begin with #"
    if foreign := next((letter for letter in line.partition("#")[0] if not letter.isascii()), None):
        return f"; `{foreign}` (U+{ord(foreign):04X}) isn't plain ASCII, write it as it stands on a keyboard"
    if at_end:
        return "; the plan ends at the first `*/`, so that can't stand inside it"
    if re.search(r"=\s*(\[.*)?[A-Za-z_(]", line) and line.count('"') < 2:
        return '; expressions and names stand in quotes, as in grid = ["ceil_div(sq, 64)", "h", "b"]'
    return next((f"; {hint}" for sign, hint in _HINTS if sign in problem), "")


def key_lines(body: str, first_line: int) -> dict[Path, int]:
    """The source line of each table and key, by path; the n-th [[launch]] has the path ("launch", n)."""
    lines: dict[Path, int] = {(): first_line}
    table: Path = ()
    counts: dict[str, int] = {}
    for number, text in enumerate(body.split("\n"), first_line):
        if header := _HEADER.match(text):
            table = tuple(part.strip() for part in header[2].split("."))
            if header[1] == "[[":
                name = str(table[0])
                lines.setdefault((name,), number)
                table = (name, counts.get(name, 0))
                counts[name] = counts.get(name, 0) + 1
            for length in range(1, len(table) + 1):
                lines.setdefault(table[:length], number)
        elif key := _KEY.match(text):
            lines.setdefault((*table, key[1]), number)
    return lines
