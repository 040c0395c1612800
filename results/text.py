"""Words and figures for a terminal: aligned tables, single lines, ratios, durations."""

import math
from collections.abc import Iterable, Sequence


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Aligned columns, two spaces apart: numbers to the right, text to the left; None is a dash, columns without any text go."""
    cells = [[_cell(value) for value in row] for row in rows]
    shown = [column for column, title in enumerate(titles) if title or any(row[column] for row in cells)]
    right = {column: bool(cells) and all(_is_number(row[column]) for row in cells) for column in shown}
    width = {column: max(len(titles[column]), *(len(row[column]) for row in cells), 0) for column in shown}

    def line(row: Sequence[str]) -> str:
        parts = [row[c].rjust(width[c]) if right[c] else row[c].ljust(width[c]) for c in shown]
        return "  ".join(parts).rstrip()

    return [line(titles), *(line(row) for row in cells)]


def markdown(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The same as a Markdown table; bars inside a cell are escaped."""
    cells = [[_cell(value).replace("|", "\\|") for value in row] for row in rows]
    shown = [column for column, title in enumerate(titles) if title or any(row[column] for row in cells)]
    lines = [titles, ["---"] * len(titles), *cells]
    return ["| " + " | ".join(line[column] for column in shown) + " |" for line in lines]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else one_line(str(value))


def _is_number(text: str) -> bool:
    return text in ("-", "") or text.rstrip("x%").replace(".", "", 1).lstrip("+-").isdigit()


def one_line(text: str, limit: int = 160) -> str:
    """The text on one line without control characters, cut with an ellipsis where it is longer than ``limit``."""
    clean = "".join(c if c.isprintable() else " " for c in text[: limit + 1])
    return clean if len(text) <= limit else clean[: limit - 3] + "..."


def ratio(value: float, low: float, high: float) -> str:
    """A ratio with its interval, such as ``1.234x [1.220, 1.249]``."""
    return f"{value:.3f}x {interval(low, high)}"


def interval(low: float, high: float) -> str:
    """An interval, such as ``[1.220, 1.249]``."""
    return f"[{low:.3f}, {high:.3f}]"


def duration(seconds: float) -> str:
    """Seconds as people say them: ``42 s``, ``3 min 5 s``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def microseconds(value: float) -> str:
    """A time in microseconds with four figures where it is small: ``9.874``, ``246.7``, ``1226``."""
    return f"{value:.{max(0, 3 - math.floor(math.log10(value)))}f}" if 0 < value < 1000 else f"{value:.0f}"


def count(number: int, noun: str) -> str:
    """A number with its noun: ``1 step``, ``2 steps``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
