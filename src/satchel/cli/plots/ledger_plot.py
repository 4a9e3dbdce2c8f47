"""An SVG plot of a session's tokens by turn: what filled the context, and when entries were evicted."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from satchel.cli.plots.svg import document, fit_width, hatching, hovered, number, rect, text

__all__ = ["Point", "ledger_plot"]

WIDTH, MARGIN = 920, 24
INNER = WIDTH - 2 * MARGIN
# Margins for the axis labels on the left, and for half of the last turn's label on the right.
LEFT, RIGHT = MARGIN + 56, WIDTH - MARGIN - 12
ACROSS = RIGHT - LEFT
MARKS_TOP, TOP, BOTTOM = 78, 104, 404
UP = BOTTOM - TOP
LEGEND_TOP, LEGEND_ROW, LEGEND_COLUMNS = 460, 60, 5

COLUMNS = 412
"""Maximum number of columns; each is at least 2 pixels wide."""
WIDEST = 40.0
HEADROOM = 1.08
ACROSS_TICK, UP_TICKS = 64, 6
MARK, DIGIT = 6, 7.2
MILLIONS = 10_000_000
TRACED = 40
"""Up to this many eviction marks, a line connects each with its turn."""

# Okabe and Ito's colours, which are distinguishable with colour blindness. Reserved tokens are hatched.
COLOURS = {
    "system": "#8c959f",
    "history": "#0072b2",
    "tool_results": "#e69f00",
    "user": "#009e73",
    "response_reserve": "url(#reserve)",
}
OTHERS = ("#cc79a7", "#56b4e9", "#f0e442")
HATCHES, EVICTION, LIMIT = "#9aa4ae", "#d55e00", "#1f2328"
QUIET, RULE = "#59636e", "#d8dee4"


class Point(NamedTuple):
    """The ledger's sums after a turn."""

    turn: int
    used: Mapping[str, int]
    """Tokens by category."""
    evicted: int = 0
    """How many entries were evicted on this turn."""

    @property
    def total(self) -> int:
        return sum(max(0, tokens) for tokens in self.used.values())


class Column(NamedTuple):
    """One turn, or the fullest of several adjacent turns."""

    first: int
    point: Point
    evicted: int
    turns: str


class Label(NamedTuple):
    """The number of evicted entries at marks that are too close for one label each."""

    start: float
    end: float
    evicted: int

    @property
    def text(self) -> str:
        return f"{self.evicted:,}"

    @property
    def half(self) -> float:
        return len(self.text) * DIGIT / 2 + 2

    @property
    def middle(self) -> float:
        return min(max((self.start + self.end) / 2, LEFT + self.half), RIGHT - self.half)

    @property
    def left(self) -> float:
        return self.middle - self.half

    @property
    def right(self) -> float:
        return self.middle + self.half


class Frame(NamedTuple):
    """Converts columns and tokens to coordinates."""

    width: float
    scale: float

    def x(self, column: float) -> float:
        return LEFT + column * self.width

    def y(self, tokens: float) -> float:
        return BOTTOM - tokens / self.scale * UP


def ledger_plot(points: Sequence[Point], *, title: str, limit: int) -> str:
    """Return an SVG file: tokens of each turn stacked by category, with the limit as a line. Deterministic."""
    columns = _columns(points)
    peak = max((point.total for point in points), default=0)
    frame = Frame(
        width=min(WIDEST, ACROSS / max(1, len(columns))),
        scale=max(limit, peak, 1) * HEADROOM,
    )
    names = _names(points)
    parts = [
        hatching("reserve", HATCHES),
        *_heading(points, title, limit),
        *_grid(frame),
        *_areas(columns, names, frame),
        *_turn_ticks(columns, frame),
        *_evictions(columns, frame),
        *_limit(limit, frame),
        *_tooltips(columns, names, frame),
        *_legend(points, names),
    ]
    rows = math.ceil(len(names) / LEGEND_COLUMNS)
    return document(WIDTH, LEGEND_TOP + rows * LEGEND_ROW + MARGIN / 2, title, parts)


def _columns(points: Sequence[Point]) -> list[Column]:
    size = max(1, math.ceil(len(points) / COLUMNS))
    columns = []
    for start in range(0, len(points), size):
        group = points[start : start + size]
        fullest = max(group, key=lambda point: point.total)
        first, last = group[0].turn, group[-1].turn
        turns = f"turn {first:,}" if len(group) == 1 else f"turns {first:,} to {last:,}, at turn {fullest.turn:,}"
        columns.append(Column(first, fullest, sum(max(0, point.evicted) for point in group), turns))
    return columns


def _names(points: Sequence[Point]) -> list[str]:
    """Return the categories from bottom to top: those of every ledger, then any others."""
    return list(dict.fromkeys([*COLOURS, *(name for point in points for name in point.used)]))


def _colour(names: Sequence[str], name: str) -> str:
    return COLOURS.get(name) or OTHERS[(names.index(name) - len(COLOURS)) % len(OTHERS)]


def _heading(points: Sequence[Point], title: str, limit: int) -> list[str]:
    summary = "Nothing is recorded yet."
    if points:
        fullest = max(points, key=lambda point: point.total)
        evicted = sum(max(0, point.evicted) for point in points)
        times = sum(point.evicted > 0 for point in points)
        of = f" of {limit:,}" if limit > 0 else ""
        left = f"; {evicted:,} evicted on {_turns(times)}" if evicted else "; nothing evicted"
        most = f"at most {fullest.total:,}{of} tokens, on turn {fullest.turn:,}"
        summary = f"{_turns(len(points))}, {most}{left}"
    return [
        text(MARGIN, 38, fit_width(title, INNER, size=20), size=18, weight=600),
        text(MARGIN, 60, summary, size=14),
    ]


def _grid(frame: Frame) -> Iterator[str]:
    for tokens in range(0, int(frame.scale) + 1, _step(frame.scale / UP_TICKS)):
        y = frame.y(tokens)
        yield rect(LEFT, y - 0.5, ACROSS, 1, QUIET if tokens == 0 else RULE)
        label = f"{tokens:,}" if frame.scale < MILLIONS else f"{tokens / 1_000_000:,g} M"
        yield text(LEFT - 8, y + 4, label, size=11, fill=QUIET, anchor="end")


def _areas(columns: Sequence[Column], names: Sequence[str], frame: Frame) -> Iterator[str]:
    below = [0] * len(columns)
    for name in names:
        above = [
            bottom + max(0, column.point.used.get(name, 0)) for bottom, column in zip(below, columns, strict=True)
        ]
        if above != below:
            yield f"<path d='{_outline(below, above, frame)}' fill='{_colour(names, name)}'/>"
        below = above


def _outline(below: Sequence[int], above: Sequence[int], frame: Frame) -> str:
    """Return the path along the tops of the columns to the right, and back along their bottoms."""
    moves = [f"M{number(frame.x(0))} {number(frame.y(below[0]))}"]
    moves += [f"V{number(frame.y(top))}H{number(frame.x(place + 1))}" for place, top in enumerate(above)]
    moves += [f"V{number(frame.y(below[place]))}H{number(frame.x(place))}" for place in reversed(range(len(below)))]
    return "".join(moves) + "Z"


def _turn_ticks(columns: Sequence[Column], frame: Frame) -> Iterator[str]:
    """Yield labels below the first turn and below round numbers, as many as fit."""
    if not columns:
        return
    firsts = [column.first for column in columns]
    turns = max(1, columns[-1].first - firsts[0])
    every = _step(turns * ACROSS_TICK / (frame.width * len(columns)))
    rounded = range(firsts[0] // every * every + every, columns[-1].first + 1, every)
    end = -math.inf
    for turn in (firsts[0], *rounded):
        x = frame.x(bisect_right(firsts, turn) - 0.5)
        half = len(f"{turn:,}") * DIGIT / 2 + 4
        if x - half >= end:
            end = x + half
            yield rect(x - 0.5, BOTTOM + 1, 1, 5, QUIET)
            yield text(x, BOTTOM + 19, f"{turn:,}", size=11, fill=QUIET, anchor="middle")
    yield text(LEFT + ACROSS / 2, BOTTOM + 36, "turn", size=11, fill=QUIET, anchor="middle")


def _evictions(columns: Sequence[Column], frame: Frame) -> Iterator[str]:
    """Yield a mark above each turn that evicted entries, with their number above it."""
    marked = [(frame.x(place + 0.5), column) for place, column in enumerate(columns) if column.evicted]
    wide = frame.width > MARK
    for x, column in marked:
        arrow = f"<path d='M{number(x - MARK / 2)} {TOP - 9}h{MARK}l-{MARK / 2:g} 7z' fill='{EVICTION}'/>"
        parts = [arrow if wide else rect(x - 0.5, TOP - 9, 1, 7, EVICTION)]
        if len(marked) <= TRACED:
            parts.append(_dashed(x, TOP, x, BOTTOM, EVICTION, "1 3"))
        yield hovered(f"{column.turns}\n{column.evicted:,} evicted", parts)
    labels: list[Label] = []
    for x, column in marked:
        labels.append(Label(x, x, column.evicted))
        while len(labels) > 1 and labels[-2].right > labels[-1].left:
            after, before = labels.pop(), labels.pop()
            labels.append(Label(before.start, after.end, before.evicted + after.evicted))
    for label in labels:
        yield text(label.middle, MARKS_TOP + 13, label.text, size=11, fill=EVICTION, anchor="middle")
    if marked:
        yield text(LEFT - 8, MARKS_TOP + 13, "evicted", size=11, fill=EVICTION, anchor="end")


def _limit(limit: int, frame: Frame) -> Iterator[str]:
    if limit <= 0:
        return
    y = frame.y(limit)
    label = f"budget {limit:,}"
    yield _dashed(LEFT, y, RIGHT, y, LIMIT, "6 3")
    width = len(label) * DIGIT
    yield rect(RIGHT - width - 4, max(TOP, y - 16), width + 4, 14, "#ffffff")
    yield text(RIGHT - 2, max(TOP + 11, y - 5), label, size=11, fill=LIMIT, anchor="end", weight=600)


def _dashed(x: float, y: float, to_x: float, to_y: float, colour: str, dashes: str) -> str:
    way = f"M{number(x)} {number(y)}L{number(to_x)} {number(to_y)}"
    return f"<path d='{way}' fill='none' stroke='{colour}' stroke-dasharray='{dashes}'/>"


def _tooltips(columns: Sequence[Column], names: Sequence[str], frame: Frame) -> Iterator[str]:
    for place, column in enumerate(columns):
        used = column.point.used
        lines = [f"{_said(name)} {used[name]:,}" for name in names if used.get(name)]
        if column.evicted:
            lines.append(f"{column.evicted:,} evicted")
        told = "\n".join([column.turns, *lines, f"{column.point.total:,} tokens"])
        yield rect(frame.x(place), TOP, frame.width, UP, "transparent", told)


def _legend(points: Sequence[Point], names: Sequence[str]) -> Iterator[str]:
    last = points[-1].used if points else {}
    width = INNER / LEGEND_COLUMNS
    for place, name in enumerate(names):
        x = MARGIN + place % LEGEND_COLUMNS * width
        y = LEGEND_TOP + place // LEGEND_COLUMNS * LEGEND_ROW
        peak = max((point.used.get(name, 0) for point in points), default=0)
        yield rect(x, y, 12, 12, _colour(names, name))
        yield text(x + 18, y + 10, fit_width(_said(name), width - 22), weight=600)
        yield text(x + 18, y + 27, f"{max(0, last.get(name, 0)):,} now", fill=QUIET)
        yield text(x + 18, y + 43, f"{max(0, peak):,} at most", fill=QUIET)


def _said(name: str) -> str:
    return name.replace("_", " ")


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count:,} turns"


def _step(least: float) -> int:
    """Return the next round number: 1, 2 or 5 with zeros after it."""
    least = max(1.0, least)
    size = 10 ** math.floor(math.log10(least))
    return int(next(factor * size for factor in (1, 2, 5, 10) if factor * size >= least))
