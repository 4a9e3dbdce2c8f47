"""Line charts as SVG with logarithmic axes; text stays text."""

import math
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

__all__ = ["HEIGHT", "WIDTH", "Series", "line_chart", "stacked"]

WIDTH, HEIGHT = 560, 380
LEFT, RIGHT, TOP = 64, 20, 40
# Below the plot: ticks and the name of the axis, then the legend with two series per line. A minimum number of
# lines makes charts side by side the same size.
AXIS, LEGEND, FEWEST = 46, 20, 3
TICK = 5
GAP = 8

# Okabe and Ito's colours, which are distinguishable with colour blindness, and a line style for each.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "", "7 3", "2 3")
FONT = "font-family='system-ui, Helvetica, Arial, sans-serif' font-size='12' fill='#222'"


class Series(NamedTuple):
    """A line and its points, all above zero."""

    name: str
    points: Sequence[tuple[float, float]]


class Axis:
    """Maps values to coordinates by their logarithm; the axis begins and ends at a tick."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        if not values or min(values) <= 0:
            raise ValueError("a logarithmic axis needs values above zero")
        self.ticks = _ticks(min(values), max(values))
        self._low, self._high = math.log(self.ticks[0]), math.log(self.ticks[-1])
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        share = (math.log(value) - self._low) / (self._high - self._low)
        return round(self._start + share * (self._end - self._start), 1)


def line_chart(title: str, x_label: str, y_label: str, series: Sequence[Series]) -> str:
    """Return a whole SVG document, `WIDTH` by `HEIGHT`."""
    shown = [each for each in series if each.points]
    bottom = HEIGHT - AXIS - LEGEND * max(FEWEST, math.ceil(len(shown) / 2))
    across = Axis([x for each in shown for x, _ in each.points], LEFT, WIDTH - RIGHT)
    up = Axis([y for each in shown for _, y in each.points], bottom, TOP)
    parts = [
        f"<rect width='{WIDTH}' height='{HEIGHT}' fill='#fff'/>",
        _text(LEFT, 24, title, "font-size='15' font-weight='600'"),
        *_grid(across, up, bottom),
        _text((LEFT + WIDTH - RIGHT) / 2, bottom + 36, x_label, "text-anchor='middle'"),
        _text(0, 0, y_label, f"text-anchor='middle' transform='translate(16 {(TOP + bottom) / 2}) rotate(-90)'"),
    ]
    for number, each in enumerate(shown):
        parts += _line(each, across, up, number)
        parts += _key(each.name, number, bottom + AXIS)
    size = f"width='{WIDTH}' height='{HEIGHT}' viewBox='0 0 {WIDTH} {HEIGHT}'"
    body = "\n".join(parts)
    return f"<svg xmlns='http://www.w3.org/2000/svg' role='img' {size}>\n<g {FONT}>\n{body}\n</g>\n</svg>\n"


def stacked(charts: Sequence[str], *, columns: int = 1) -> str:
    """Combine charts of `line_chart` in one document, row by row."""
    rows = math.ceil(len(charts) / columns)
    width, height = columns * WIDTH, rows * HEIGHT
    placed = [
        chart.replace("<svg ", f"<svg x='{place % columns * WIDTH}' y='{place // columns * HEIGHT}' ", 1)
        for place, chart in enumerate(charts)
    ]
    opening = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}'"
    ground = f"<rect width='{width}' height='{height}' fill='#fff'/>"
    return f"{opening} width='{width}' height='{height}'>\n{ground}\n{''.join(placed)}</svg>\n"


def _ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten around all values, or only the powers if there are many."""
    powers = range(math.floor(math.log10(low)) - 2, math.ceil(math.log10(high)) + 3)
    for steps in ((1, 2, 5), (1,)):
        every = [step * 10.0**power for power in powers for step in steps]
        first = max(place for place, tick in enumerate(every) if tick <= low * 1.001)
        last = min(place for place, tick in enumerate(every) if tick >= high * 0.999)
        # A small change should not look large: an axis spans at least a power of ten.
        while every[last] < 10 * every[first]:
            if low / every[first] < every[last] / high:
                first -= 1
            else:
                last += 1
        if last - first <= 7:
            break
    return every[first : last + 1]


def _grid(across: Axis, up: Axis, bottom: float) -> list[str]:
    end = WIDTH - RIGHT
    parts = []
    for tick in across.ticks:
        x = across(tick)
        parts.append(f"<path d='M{x} {TOP}V{bottom + TICK}' stroke='#ddd'/>")
        parts.append(_text(x, bottom + TICK + 13, _label(tick), "text-anchor='middle'"))
    for tick in up.ticks:
        y = up(tick)
        parts.append(f"<path d='M{LEFT - TICK} {y}H{end}' stroke='#ddd'/>")
        parts.append(_text(LEFT - GAP, y + 4, _label(tick), "text-anchor='end'"))
    parts.append(f"<path d='M{LEFT} {TOP}V{bottom}H{end}' fill='none' stroke='#555'/>")
    return parts


def _line(series: Series, across: Axis, up: Axis, number: int) -> list[str]:
    colour, stroke = _stroke(number)
    places = [(across(x), up(y)) for x, y in sorted(series.points)]
    path = " ".join(f"{x},{y}" for x, y in places)
    dots = [f"<circle cx='{x}' cy='{y}' r='3' fill='{colour}'/>" for x, y in places]
    return [f"<polyline points='{path}' fill='none' {stroke}/>", *dots]


def _key(name: str, number: int, top: float) -> list[str]:
    """Return an entry of the legend, which has two columns."""
    colour, stroke = _stroke(number)
    x = LEFT + number % 2 * (WIDTH - LEFT - RIGHT) / 2
    y = top + number // 2 * LEGEND + 6
    return [
        f"<path d='M{x} {y}h26' {stroke}/><circle cx='{x + 13}' cy='{y}' r='3' fill='{colour}'/>",
        _text(x + 26 + GAP, y + 4, name),
    ]


def _stroke(number: int) -> tuple[str, str]:
    colour, dashes = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
    return colour, f"stroke='{colour}' stroke-width='2'" + (f" stroke-dasharray='{dashes}'" if dashes else "")


def _text(x: float, y: float, content: str, attributes: str = "") -> str:
    return f"<text x='{x}' y='{y}' {attributes}>{escape(content)}</text>"


def _label(value: float) -> str:
    """Format a value: 10k for ten thousand, and so on."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"
