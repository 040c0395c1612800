"""A comparison as one picture: the best ratio so far over what was spent, a panel for each kind of spending.

Plain SVG, readable in any browser. Colours are Okabe and Ito's (Color Universal Design, 2008), which people with any colour
vision tell apart; each arm has a dash pattern as well, for print in one colour.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from results.comparison import ArmRow, Comparison
from results.comparison_statistics import mean_bands, value_at
from results.comparison_trace import AXES, Trace

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 4")
WIDTH, HEIGHT, COLUMNS = 400, 300, 2
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 30, 46
HEAD, LEGEND_ROW = 58, 20
PLACES = 200
"""At most so many places of a mean curve."""

SMALL_ARM = 3
"""Fewer runs give no band: their lines are all there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """Where a panel lies (pixels) and what its axes cover."""

    x: float
    y: float
    spent: tuple[float, float]
    ratio: tuple[float, float]

    def at(self, spent: float, ratio: float) -> tuple[float, float]:
        """The pixel of a point."""
        across = (spent - self.spent[0]) / (self.spent[1] - self.spent[0])
        up = (ratio - self.ratio[0]) / (self.ratio[1] - self.ratio[0])
        width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return self.x + LEFT + across * width, self.y + HEIGHT - BOTTOM - up * height


def comparison_svg(comparison: Comparison) -> str:
    """The picture; axes on which nothing was spent are left out."""
    axes = [axis for axis in AXES if axis in comparison.ranges]
    columns = min(COLUMNS, max(1, len(axes)))
    rows = math.ceil(len(axes) / columns)
    legend = HEAD + LEGEND_ROW * len(comparison.arms)
    width, height = columns * WIDTH, legend + rows * HEIGHT
    ratios = _ratio_range(comparison)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12" role="img">',
        f"<title>{_safe(_title(comparison))}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(12, 22, _title(comparison), size=15),
        _text(12, 40, "thick: geometric mean over runs, band: 95 % bootstrap over runs; thin: each run; bars: finals", grey=True),
    ]
    parts += [_legend(arm, place) for place, arm in enumerate(comparison.arms)]
    for number, axis in enumerate(axes):
        most = max(float(getattr(run.last, axis)) for arm in comparison.arms for run in arm.runs)
        panel = _Panel(
            x=(number % columns) * WIDTH, y=legend + (number // columns) * HEIGHT, spent=(0.0, 1.03 * most), ratio=ratios
        )
        parts += _frame(panel, axis)
        for place, arm in enumerate(comparison.arms):
            parts += _curves(panel, axis, arm, place, comparison.ranges[axis])
    return "\n".join([*parts, "</svg>"]) + "\n"


def _title(comparison: Comparison) -> str:
    terms = comparison.arms[0].runs[0].terms
    return f"Best ratio so far over {terms.get('baseline', 'the baseline')}, {terms.get('task', '').split(' ')[0]}"


def _legend(arm: ArmRow, place: int) -> str:
    y = HEAD + LEGEND_ROW * place
    line = f'<line x1="14" y1="{y}" x2="54" y2="{y}" {_stroke(place, 3)}/>'
    runs = f"{len(arm.runs)} run{'s' if len(arm.runs) != 1 else ''}"
    return line + _text(62, y + 4, f"{arm.name} ({runs})")


def _frame(panel: _Panel, axis: str) -> list[str]:
    """The axes of a panel with ticks, numbers and labels; a line at ratio 1."""
    (left, bottom), (right, top) = panel.at(panel.spent[0], panel.ratio[0]), panel.at(panel.spent[1], panel.ratio[1])
    parts = [f'<path d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}" fill="none" stroke="black"/>']
    for spent in _ticks(*panel.spent):
        x, _ = panel.at(spent, panel.ratio[0])
        parts += [f'<path d="M{x:.1f} {bottom:.1f}v5" stroke="black"/>', _text(x, bottom + 18, f"{spent:g}", anchor="middle")]
    for ratio in _ticks(*panel.ratio):
        _, y = panel.at(panel.spent[0], ratio)
        parts += [f'<path d="M{left:.1f} {y:.1f}h-5" stroke="black"/>', _text(left - 8, y + 4, f"{ratio:g}", anchor="end")]
        parts.append(f'<path d="M{left:.1f} {y:.1f}H{right:.1f}" stroke="#e4e4e4"/>')
    if panel.ratio[0] < 1 < panel.ratio[1]:
        _, y = panel.at(panel.spent[0], 1.0)
        parts.append(f'<path d="M{left:.1f} {y:.1f}H{right:.1f}" stroke="#777" stroke-dasharray="2 2"/>')
    parts.append(_text((left + right) / 2, bottom + 36, AXES[axis], anchor="middle"))
    x, y = panel.x + 16, (top + bottom) / 2
    parts.append(f'<g transform="translate({x:.1f} {y:.1f}) rotate(-90)">{_text(0, 0, "ratio to baseline", anchor="middle")}</g>')
    return parts


def _curves(panel: _Panel, axis: str, arm: ArmRow, place: int, common: tuple[float, float]) -> list[str]:
    """Band, runs, mean curve and finals of one arm."""
    places = _places(arm.runs, axis, common)
    curves = [[_log(run, axis, spent) for spent in places] for run in arm.runs]
    means = [sum(column) / len(column) for column in zip(*curves, strict=True)]
    band = mean_bands(curves) if len(arm.runs) >= SMALL_ARM else None
    parts = []
    if band is not None:
        edge = [*_stairs(panel, places, band[1]), *reversed(_stairs(panel, places, band[0]))]
        parts.append(f'<path d="{_path(edge)}Z" fill="{_colour(place)}" fill-opacity="0.16" stroke="none"/>')
    for run in arm.runs:
        known = [(float(getattr(point, axis)), math.log(point.ratio)) for point in run.points if point.ratio is not None]
        line = _stairs(panel, [spent for spent, _ in known], [log for _, log in known])
        parts.append(f'<path d="{_path(line)}" fill="none" stroke="{_colour(place)}" stroke-width="0.8" stroke-opacity="0.45"/>')
        parts += _final(panel, axis, run, place)
    parts.append(f'<path d="{_path(_stairs(panel, places, means))}" fill="none" {_stroke(place, 2.4)}/>')
    return parts


def _final(panel: _Panel, axis: str, run: Trace, place: int) -> list[str]:
    """A run's verified best with its interval, where the run ends."""
    if run.best is None or not run.best.verified:
        return []
    x, y = panel.at(float(getattr(run.last, axis)), run.best.ratio)
    _, low = panel.at(0, run.best.low)
    _, high = panel.at(0, run.best.high)
    bar = f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{_colour(place)}" stroke-width="1.4"/>'
    return [bar, f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="white" stroke="{_colour(place)}" stroke-width="1.4"/>']


def _places(runs: Sequence[Trace], axis: str, common: tuple[float, float]) -> list[float]:
    """Where the mean curve may step, and both ends; thinned where there are many."""
    steps = {float(getattr(point, axis)) for run in runs for point in run.points}
    inside = sorted(spent for spent in steps if common[0] < spent < common[1])
    return [common[0], *inside[:: max(1, math.ceil(len(inside) / PLACES))], common[1]]


def _log(run: Trace, axis: str, spent: float) -> float:
    return math.log(value_at(run.points, axis, spent) or 1.0)


def _stairs(panel: _Panel, places: Sequence[float], logs: Sequence[float]) -> list[tuple[float, float]]:
    """A curve that holds each value until the next place, in pixels."""
    found: list[tuple[float, float]] = []
    for place, log in zip(places, logs, strict=True):
        x, y = panel.at(place, math.exp(log))
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return found


def _ratio_range(comparison: Comparison) -> tuple[float, float]:
    """From below the lowest to above the highest ratio that is drawn."""
    runs = [run for arm in comparison.arms for run in arm.runs]
    drawn = [point.ratio for run in runs for point in run.points if point.ratio is not None]
    drawn += [end for run in runs if run.best is not None and run.best.verified for end in (run.best.low, run.best.high)]
    low, high = min(drawn, default=0.9), max(drawn, default=1.1)
    margin = 0.06 * (high - low) or 0.05 * high
    return max(0.0, low - margin), high + margin


def _ticks(low: float, high: float) -> list[float]:
    """Up to about six round numbers between two ends."""
    rough = (high - low) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _stroke(place: int, width: float) -> str:
    dash = DASHES[place % len(DASHES)]
    return f'stroke="{_colour(place)}" stroke-width="{width:g}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", grey: bool = False) -> str:
    colour: Mapping[bool, str] = {True: ' fill="#555"', False: ""}
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{colour[grey]}>{_safe(text)}</text>'


def _safe(text: str) -> str:
    """The text for XML, which knows no control characters."""
    return escape("".join(c if c.isprintable() else " " for c in text))
