"""Elements of an SVG document. The output is valid XML for any text."""

import unicodedata
from collections.abc import Iterable
from html import escape

from satchel.fitting.listing import clean
from satchel.model.checks import repair_surrogates
from satchel.model.patterns import lazy_pattern

__all__ = [
    "break_mark",
    "document",
    "fit_width",
    "hatching",
    "hovered",
    "number",
    "one_line",
    "outline",
    "rect",
    "text",
]

INK = "#1f2328"
FONT = f"font-family='system-ui, Helvetica, Arial, sans-serif' font-size='12' fill='{INK}'"
DIGITS = "style='font-variant-numeric: tabular-nums'"

# Widths of characters relative to the font size, slightly above what common fonts need.
NARROW, USUAL, CAPITAL, BROAD, WIDE = 0.37, 0.61, 0.72, 0.98, 1.1
_NARROW = frozenset(" .,:;!|'`()[]/\\-ijlftrI")
_BROAD = frozenset("mwMW@%—…")
_WIDTHLESS = frozenset({"Mn", "Me", "Cf"})
# XML forbids these two characters, besides surrogates and control characters.
_NOT_IN_XML = lazy_pattern("[\ufffe\uffff]")
_JOINERS = "\u200d\ufe0f "


def document(width: float, height: float, name: str, parts: Iterable[str]) -> str:
    """Return a whole file with a white background; `name` describes it to screen readers."""
    size = f"width='{number(width)}' height='{number(height)}' viewBox='0 0 {number(width)} {number(height)}'"
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' role='img' {size}>",
        f"<title>{escape(one_line(name))}</title>",
        rect(0, 0, width, height, "#ffffff"),
        f"<g {FONT} {DIGITS}>",
        *parts,
        "</g>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def rect(x: float, y: float, width: float, height: float, fill: str, tooltip: str = "") -> str:
    shape = f"<rect {_box(x, y, width, height)} fill='{fill}'"
    return f"{shape}>{_title(tooltip)}</rect>" if tooltip else f"{shape}/>"


def outline(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Return the border of a box, drawn inside it."""
    inside = _box(x + 0.5, y + 0.5, max(width - 1, 0.5), height - 1)
    return f"<rect {inside} fill='#ffffff' stroke='{colour}'/>"


def break_mark(x: float, y: float, height: float, colour: str) -> str:
    """Return two slanted strokes across a bar that is too long to draw in full."""
    top, down = number(y - 2), number(height + 4)
    gap = f"<path d='M{number(x)} {top}l-4 {down}h5l4 -{down}z' fill='#ffffff'/>"
    strokes = f"<path d='M{number(x)} {top}l-4 {down}m5 0l4 -{down}' fill='none' stroke='{colour}'/>"
    return gap + strokes


def hatching(name: str, colour: str) -> str:
    """Return a fill pattern, used as `url(#name)`."""
    ground = "<rect width='6' height='6' fill='#ffffff'/>"
    size = "width='6' height='6' patternUnits='userSpaceOnUse'"
    strokes = f"<path d='M-1 1l2 -2M0 6l6 -6M5 7l2 -2' stroke='{colour}'/>"
    return f"<defs><pattern id='{name}' {size}>{ground}{strokes}</pattern></defs>"


def text(
    x: float,
    y: float,
    content: str,
    *,
    size: float | None = None,
    fill: str | None = None,
    anchor: str | None = None,
    weight: int | None = None,
) -> str:
    given = {"font-size": size, "fill": fill, "text-anchor": anchor, "font-weight": weight}
    attributes = "".join(f" {name}='{value}'" for name, value in given.items() if value is not None)
    return f"<text x='{number(x)}' y='{number(y)}'{attributes}>{escape(one_line(content))}</text>"


def hovered(tooltip: str, parts: Iterable[str]) -> str:
    """Return shapes with a tooltip."""
    return f"<g>{_title(tooltip)}{''.join(parts)}</g>"


def fit_width(content: str, width: float, *, size: float = 12) -> str:
    """Cut a line to a width in pixels, with an ellipsis if something is cut off."""
    line = one_line(content)
    room = width / size - BROAD
    taken = 0.0
    fitting = None
    for place, character in enumerate(line):
        taken += _width(character)
        if fitting is None and taken > room:
            fitting = place
        if fitting is not None and taken > room + BROAD:
            return line[:fitting].rstrip(_JOINERS) + "…"
    return line


def one_line(content: str) -> str:
    """Return a text without line ends and without characters that XML forbids."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", " ".join(clean(repair_surrogates(content)).split()))


def number(value: float) -> str:
    """Format a number without trailing zeros, so that equal coordinates give equal bytes."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"x='{number(x)}' y='{number(y)}' width='{number(width)}' height='{number(height)}'"


def _title(content: str) -> str:
    lines = "\n".join(escape(one_line(line)) for line in content.split("\n"))
    return f"<title>{lines}</title>"


def _width(character: str) -> float:
    if character in _NARROW:
        return NARROW
    if character in _BROAD:
        return BROAD
    if unicodedata.category(character) in _WIDTHLESS:
        return 0
    if unicodedata.east_asian_width(character) in "WF":
        return WIDE
    return CAPITAL if character.isupper() else USUAL
