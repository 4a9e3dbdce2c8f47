"""An SVG plot of a pack: how the token budget was used, and what was left out."""

from collections.abc import Sequence
from typing import NamedTuple

from satchel.cli.plots.svg import break_mark, document, fit_width, hatching, hovered, outline, rect, text
from satchel.model.memory import TIERS
from satchel.model.packing import Receipt, ReceiptEntry

__all__ = ["pack_picture"]

WIDTH, MARGIN = 920, 24
INNER = WIDTH - 2 * MARGIN
KEPT_ROWS, LEFT_OUT_ROWS = 25, 20
TOOLTIP = 200

# Okabe and Ito's colours, which are distinguishable with colour blindness, and a readable text colour for each.
TIER_COLOURS = {"working": "#e69f00", "conversation": "#0072b2", "knowledge": "#009e73"}
TIER_INKS = {"working": "#000000", "conversation": "#ffffff", "knowledge": "#000000"}
OVERHEAD, UNUSED, HATCHES = "#8c959f", "url(#unused)", "#c4cad1"
QUIET, RULE = "#59636e", "#d8dee4"

BAR_TOP, BAR_HEIGHT = 96, 40
LEGEND_TOP, LEGEND_PLACES = 176, (0, 160, 320, 480, 680)
TABLES_TOP, TABLE_GAP = 252, 28
ROW, SMALL_BAR = 20, 10
LABELLED = 44
"""The narrowest segment that is labelled with its tokens."""

# The columns of both tables, so that their bars are aligned.
HEADLINE, HEADLINE_WIDTH = MARGIN + 16, 336
DETAIL, DETAIL_WIDTH = 388, 196
TOKENS = 648
BAR, BAR_WIDTH = 662, 136
LAST = WIDTH - MARGIN

MUCH_LARGER = 8
"""How much longer than the kept entries the bars of entries left out may be."""


class Row(NamedTuple):
    entry: ReceiptEntry
    detail: str
    last: str


class Table(NamedTuple):
    heading: str
    columns: tuple[str, str, str]
    rows: Sequence[Row]
    remark: str


def pack_picture(receipt: Receipt, *, title: str | None = None) -> str:
    """Return an SVG file: the budget as a bar, then what was kept and what was left out. Deterministic."""
    name = title or "Where the tokens went"
    kept, left_out = _kept(receipt), _left_out(receipt)
    scale = _scale([row.entry for row in (*kept.rows, *left_out.rows)])
    parts = [hatching("unused", HATCHES), *_heading(receipt, name), *_budget(receipt), *_legend(receipt)]
    bottom: float = TABLES_TOP
    for table in (kept, left_out) if receipt.entries else ():
        parts += _drawn(table, bottom, scale)
        bottom += _height(table) + TABLE_GAP
    return document(WIDTH, bottom - TABLE_GAP + MARGIN, name, parts)


def _heading(receipt: Receipt, name: str) -> list[str]:
    used, budget = receipt.token_count, receipt.budget
    if not receipt.entries:
        summary = "Nothing was found."
    else:
        spent = f"{_tokens(used)} used" if budget is None else f"{used:,} of {_tokens(budget)} used"
        share = f" ({used / budget:.1%})" if budget else ""
        summary = f"{spent}{share}: {_memories(len(receipt.kept))} kept, {len(receipt.left_out):,} left out"
    facts = f"policy {receipt.policy} · format {receipt.format} · counted by {receipt.counter}"
    return [
        text(MARGIN, 38, fit_width(name, INNER, size=20), size=18, weight=600),
        text(MARGIN, 60, summary, size=14),
        text(MARGIN, 79, fit_width(facts, INNER), fill=QUIET),
    ]


def _budget(receipt: Receipt) -> list[str]:
    """Return the bar, with a segment for each kept memory, for the overhead and for unused tokens."""
    whole = max(receipt.budget or 0, receipt.token_count)
    if not whole:
        return [rect(MARGIN, BAR_TOP, INNER, BAR_HEIGHT, UNUSED, "an empty budget")]
    parts: list[str] = []
    start = 0.0

    def segment(tokens: float, fill: str, ink: str, label: str, tooltip: str) -> None:
        nonlocal start
        width = tokens / whole * INNER
        gap = min(1.0, width / 4)
        parts.append(rect(MARGIN + start, BAR_TOP, width - gap, BAR_HEIGHT, fill, tooltip))
        if width >= LABELLED:
            middle = MARGIN + start + (width - gap) / 2
            parts.append(text(middle, BAR_TOP + BAR_HEIGHT / 2 + 4, label, fill=ink, anchor="middle"))
        start += width

    costs = sum(entry.cost for entry in receipt.kept)
    # Counted separately, lines can cost slightly more than in the joined text.
    share = min(1.0, receipt.token_count / costs) if costs else 1.0
    for tier in TIERS:
        for entry in receipt.kept:
            if entry.tier == tier:
                tooltip = _tooltip(entry, f"kept as {entry.level}")
                segment(entry.cost * share, TIER_COLOURS[tier], TIER_INKS[tier], f"{entry.cost:,}", tooltip)
    if over := receipt.overhead:
        segment(over, OVERHEAD, "#000000", f"{over:,}", f"headings and wrapper\n{_tokens(over)}")
    if unused := whole - receipt.token_count:
        segment(unused, UNUSED, "none", "", f"unused\n{_tokens(unused)}")
    return parts + _ticks(whole)


def _ticks(whole: int) -> list[str]:
    places = sorted({round(whole * quarter / 4) for quarter in range(5)})
    y = BAR_TOP + BAR_HEIGHT
    parts = []
    for tokens in places:
        x = MARGIN + tokens / whole * INNER
        anchor = "start" if tokens == 0 else "end" if tokens == whole else "middle"
        parts.append(rect(min(x, MARGIN + INNER - 1), y + 2, 1, 5, QUIET))
        parts.append(text(x, y + 19, f"{tokens:,}", size=11, fill=QUIET, anchor=anchor))
    return parts


def _legend(receipt: Receipt) -> list[str]:
    shown = []
    for tier in TIERS:
        members = [entry for entry in receipt.kept if entry.tier == tier]
        tokens = _tokens(sum(entry.cost for entry in members))
        shown.append((TIER_COLOURS[tier], tier, tokens, _memories(len(members))))
    shown.append((OVERHEAD, "headings and wrapper", _tokens(receipt.overhead), ""))
    if receipt.budget is not None:
        shown.append((UNUSED, "unused", _tokens(max(0, receipt.budget - receipt.token_count)), ""))
    parts = []
    for place, (fill, name, *facts) in zip(LEGEND_PLACES, shown, strict=False):
        x = MARGIN + place
        parts += [rect(x, LEGEND_TOP, 12, 12, fill), text(x + 18, LEGEND_TOP + 10, name, weight=600)]
        parts += [text(x + 18, LEGEND_TOP + 27 + 16 * line, fact, fill=QUIET) for line, fact in enumerate(facts)]
    return parts


def _kept(receipt: Receipt) -> Table:
    kept = sorted(receipt.kept, key=lambda entry: -entry.cost)
    whole = max(receipt.budget or 0, receipt.token_count, 1)
    rows = [Row(each, str(each.level), f"{each.cost / whole:.1%}") for each in kept[:KEPT_ROWS]]
    rest = kept[KEPT_ROWS:]
    remark = f"and {len(rest):,} more, {_tokens(sum(entry.cost for entry in rest))}" if rest else ""
    if not kept:
        budgets = [entry.admitted_at for entry in receipt.left_out if entry.admitted_at is not None]
        remark = f"Nothing fits; {min(budgets):,} tokens would hold one." if budgets else "Nothing was kept."
    share = "of what is used" if receipt.budget is None else "of the budget"
    return Table("Kept, largest first", ("kept as", "tokens", share), rows, remark)


def _left_out(receipt: Receipt) -> Table:
    names = {entry.id: entry.headline for entry in receipt.entries}
    left_out = receipt.left_out
    rows = [
        Row(each, _reason(each, names), "–" if each.admitted_at is None else f"{each.admitted_at:,}")
        for each in left_out[:LEFT_OUT_ROWS]
    ]
    more = len(left_out) - LEFT_OUT_ROWS
    remark = f"and {more:,} more" if more > 0 else "" if left_out else "Nothing was left out."
    return Table("Left out, best first", ("why", "would cost", "smallest budget"), rows, remark)


def _reason(entry: ReceiptEntry, names: dict[str, str]) -> str:
    if entry.other is None:
        return entry.reason or ""
    link = {"duplicate": "duplicate of", "superseded": "superseded by"}.get(entry.reason or "", entry.reason)
    return f"{link} {names.get(entry.other, entry.other)}"


def _drawn(table: Table, top: float, scale: int) -> list[str]:
    parts = [text(MARGIN, top + 14, table.heading, size=14, weight=600)]
    if table.rows:
        detail, tokens, last = table.columns
        parts += [
            text(DETAIL, top + 14, detail, size=11, fill=QUIET),
            text(TOKENS, top + 14, tokens, size=11, fill=QUIET, anchor="end"),
            text(LAST, top + 14, last, size=11, fill=QUIET, anchor="end"),
        ]
    parts.append(rect(MARGIN, top + 22, INNER, 1, RULE))
    for place, row in enumerate(table.rows):
        parts.append(_row(row, top + 26 + place * ROW, scale))
    if table.remark:
        parts.append(text(HEADLINE, top + 40 + len(table.rows) * ROW, table.remark, fill=QUIET))
    return parts


def _height(table: Table) -> float:
    return 26 + ROW * (len(table.rows) + bool(table.remark))


def _row(row: Row, top: float, scale: int) -> str:
    entry, colour, line = row.entry, TIER_COLOURS[row.entry.tier], top + 14
    above = top + (ROW - SMALL_BAR) / 2
    width = max(1.0, min(1.0, entry.cost / scale) * BAR_WIDTH)
    parts = [
        (rect if entry.kept else outline)(MARGIN, above, SMALL_BAR, SMALL_BAR, colour),
        text(HEADLINE, line, fit_width(entry.headline, HEADLINE_WIDTH)),
        text(DETAIL, line, fit_width(row.detail, DETAIL_WIDTH), fill=QUIET),
        text(TOKENS, line, f"{entry.cost:,}", anchor="end"),
        (rect if entry.kept else outline)(BAR, above, width, SMALL_BAR, colour),
        text(LAST, line, row.last, fill=QUIET, anchor="end"),
    ]
    if entry.cost > scale:
        parts.append(break_mark(BAR + BAR_WIDTH - 18, above, SMALL_BAR, colour))
    return hovered(_tooltip(entry, f"kept as {row.detail}" if entry.kept else row.detail), parts)


def _scale(entries: Sequence[ReceiptEntry]) -> int:
    """Return the tokens of the longest small bar; much larger entries are drawn at this length."""
    costs = [entry.cost for entry in entries]
    usual = max((entry.cost for entry in entries if entry.kept), default=min(costs, default=1))
    return max(1, *(cost for cost in (usual, *costs) if cost <= MUCH_LARGER * max(usual, 1)))


def _tooltip(entry: ReceiptEntry, became: str) -> str:
    return f"{entry.headline[:TOOLTIP]}\n{entry.tier}, {became[:TOOLTIP]}, {_tokens(entry.cost)}"


def _tokens(count: int) -> str:
    return f"{count:,} token" + ("" if count == 1 else "s")


def _memories(count: int) -> str:
    return f"{count:,} memor" + ("y" if count == 1 else "ies")
