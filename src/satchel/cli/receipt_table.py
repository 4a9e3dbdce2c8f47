"""What became of every candidate of a context, as a table on stderr."""

import sys
from collections.abc import Iterator

from satchel.api.satchel import Satchel
from satchel.cli.output import note, print_table
from satchel.model.receipt import Entry, Receipt

__all__ = ["explain_receipt"]

HEADINGS = ("id", "kept as, or why not", "tokens", "needs", "score", "memory")
NUMBERS = (2, 3, 4)
NONE = "–"
LEGEND = "tokens: as kept, or of the whole text; needs: a budget that keeps it"
# Where nobody can search in it or scroll for long.
ON_A_SCREEN = 40

_LINKS = {"duplicate": "duplicate of", "superseded": "superseded by"}

Row = tuple[str, ...]


def explain_receipt(bag: Satchel, receipt: Receipt) -> None:
    """Print the table: what was kept, best first, the headings, then what was left out, best first."""
    if not receipt.entries:
        return
    names = dict(zip((entry.id for entry in receipt.entries), bag.short_ids(receipt.entries), strict=True))
    kept = list(_kept(receipt, names))
    left_out = [_row(entry, names) for entry in receipt.left_out]
    on_a_screen = sys.stderr is not None and sys.stderr.isatty()
    shown = left_out[:ON_A_SCREEN] if on_a_screen else left_out
    print_table([HEADINGS, *kept, *shown], right=NUMBERS, quiet_from=1 + len(kept))
    if more := len(left_out) - len(shown):
        note(f"… and {more:,} more left out; `2>FILE` has them all")
    note(LEGEND)


def _kept(receipt: Receipt, names: dict[str, str]) -> Iterator[Row]:
    for entry in receipt.kept:
        yield _row(entry, names)
    if receipt.kept and receipt.overhead:
        yield (NONE, "headings", f"{receipt.overhead:,}", NONE, NONE, "")


def _row(entry: Entry, names: dict[str, str]) -> Row:
    became: str = entry.level or entry.reason or ""
    if entry.other is not None:
        became = f"{_LINKS.get(became, became)} {names.get(entry.other, entry.other)}"
    needs = NONE if entry.admitted_at is None else f"{entry.admitted_at:,}"
    return (names[entry.id], became, f"{entry.cost:,}", needs, f"{entry.value:.3f}", entry.headline)
