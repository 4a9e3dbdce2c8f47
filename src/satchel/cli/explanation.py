"""Why each hit was found: the parts of its score, as a small table."""

from collections.abc import Sequence

from satchel.cli.output import aligned, note, print_listing
from satchel.model.memory import Hit

__all__ = ["explain_hits"]

ACROSS = 3
LEGEND = "score: how likely it is needed; its parts: log-odds beside the average candidate"


def explain_hits(hits: Sequence[Hit], names: Sequence[str], *, apart: bool) -> None:
    """Print a table for each hit under its short id, after the hits or apart from them on stderr."""
    if not hits:
        return
    tables = _tables([hit.parts or {} for hit in hits])
    blocks = [_heading(hit, name) + table for hit, name, table in zip(hits, names, tables, strict=True)]
    print_listing(("" if apart else "\n") + "\n".join(blocks), apart=apart)
    note(LEGEND)


def _heading(hit: Hit, name: str) -> str:
    words = [name, f"score {hit.score:.3f}"]
    if hit.passage:
        words.append(f"characters {hit.passage[0]:,}–{hit.passage[1]:,} of {len(hit.memory.text):,}")
    return "  ".join(words) + "\n"


def _tables(parts: Sequence[dict[str, float]]) -> list[str]:
    """One for each hit; the same part stands at the same place in all of them."""
    rows = []
    for each in parts:
        cells = [(part, f"{value:+.2f}" if round(value, 2) else "0.00") for part, value in each.items()]
        cells += [("", "")] * (-len(cells) % ACROSS)
        rows += [
            ["", *(text for cell in cells[start : start + ACROSS] for text in cell)]
            for start in range(0, len(cells), ACROSS)
        ]
    lines = aligned(rows, right=range(2, 2 * ACROSS + 1, 2)).splitlines(keepends=True)
    height = len(lines) // len(parts)
    return [
        "".join(f"  {line}" for line in lines[start : start + height]) for start in range(0, len(lines), height)
    ]
