"""Printing tables."""

from collections.abc import Sequence

__all__ = ["print_table"]


def print_table(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a title and aligned columns; the first row is the heading."""
    print(f"\n{title}")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  " + "  ".join(cells).rstrip())
        if number == 0:
            print("  " + "  ".join("-" * width for width in widths))
