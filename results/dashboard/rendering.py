"""Pages from templates. All text is escaped; nothing of a model or compiler is ever marked as safe."""

import math
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from results.text import duration

HERE = Path(__file__).parent
STATIC = HERE / "static"
NONE = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"


@cache
def environment() -> Environment:
    """The templates with their filters."""
    found = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    found.filters.update(
        times=times, percent=percent, gain=gain, duration=duration, when=when, short=short, figure=figure, small=small, us=us
    )
    return found


def render(template: str, context: Mapping[str, Any]) -> bytes:
    """The page as UTF-8; halves of characters, which UTF-8 can't hold, are shown as escapes."""
    return environment().get_template(template).render(context).encode("utf-8", "backslashreplace")


def times(value: float | None) -> str:
    """A ratio, such as ``1.234`` and a multiplication sign; a dash for None."""
    return NONE if value is None or not math.isfinite(value) else f"{value:.3f}{TIMES}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 1 in per cent; a dash for None."""
    return NONE if share is None else f"{100 * share:.{digits}f} %"


def gain(log_ratio: float | None) -> str:
    """The natural logarithm of a ratio in per cent with its sign; a dash for None."""
    return NONE if log_ratio is None or not math.isfinite(log_ratio) else f"{100 * math.expm1(log_ratio):+.1f} %"


def when(at: float) -> str:
    """A time (seconds since 1970) as date and time of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def short(full_id: str | None) -> str:
    """The first ten digits of an id; a dash for None."""
    return full_id[:10] if full_id else NONE


def figure(value: float | int | None) -> str:
    """A count or amount with thin groups of three digits; a dash for None."""
    if value is None:
        return NONE
    whole = isinstance(value, int) or float(value).is_integer()
    return (f"{value:,.0f}" if whole else f"{value:,.2f}").replace(",", "\u202f")


def small(value: float | None) -> str:
    """A small number with two digits behind the point and its power of ten; a dash for None."""
    return NONE if value is None else f"{value:.2e}"


def us(value: float | None) -> str:
    """Microseconds with four figures where they are few; a dash for None."""
    if value is None:
        return NONE
    return f"{value:.{max(0, 3 - math.floor(math.log10(value)))}f}" if 0 < value < 1000 else f"{value:.0f}"
