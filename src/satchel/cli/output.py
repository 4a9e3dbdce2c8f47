"""Printing: exact bytes into a pipe, a little colour on a terminal, remarks on stderr."""

import contextlib
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

import msgspec

from satchel.errors import SatchelError
from satchel.fitting.listing import clean
from satchel.model.surrogates import repair_surrogates

__all__ = [
    "aligned",
    "counting_bar",
    "note",
    "print_json",
    "print_listing",
    "print_rows",
    "print_table",
    "print_text",
    "progress_bar",
    "write_bytes",
]


def print_text(text: str) -> None:
    """Write a text as it is, in UTF-8 whatever the locale says."""
    write_bytes([text.encode("utf-8", "surrogateescape")])


def write_bytes(chunks: Iterable[bytes]) -> None:
    if sys.stdout is None:
        raise SatchelError("standard output is closed; there is nowhere to print to")
    sys.stdout.flush()
    sys.stdout.buffer.writelines(chunks)
    sys.stdout.buffer.flush()


def print_json(value: object) -> None:
    print_text(msgspec.json.encode(value).decode() + "\n")


def note(text: str) -> None:
    """A remark for the person, apart from the output."""
    if sys.stderr is not None:
        sys.stderr.write(repair_surrogates(text) + "\n")


def print_listing(text: str, *, apart: bool = False) -> None:
    """Entries whose headings stand at the margin, which a terminal sets off; `apart` puts them on stderr."""
    stream = sys.stderr if apart else sys.stdout
    if stream is None or not stream.isatty():
        if apart:
            note(text.removesuffix("\n"))
        else:
            print_text(text)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=apart, highlight=False, soft_wrap=True)
    for line in text.splitlines():
        console.print(Text(line, style="" if line.startswith(" ") else "bold cyan"))


def print_rows(rows: Sequence[Sequence[str]], *, right: int | None = None) -> None:
    """Columns under each other, one of them to the right."""
    print_text(aligned(rows, right=() if right is None else (right,)))


def print_table(rows: Sequence[Sequence[str]], *, right: Container[int], quiet_from: int) -> None:
    """Rows under their headings on stderr; a terminal cuts long ones, and those from a place on step back."""
    text = aligned(rows, right=right)
    if sys.stderr is None or not sys.stderr.isatty():
        note(text.removesuffix("\n"))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    for place, line in enumerate(text.splitlines()):
        style = "bold cyan" if place == 0 else "dim" if place >= quiet_from else ""
        console.print(Text(line, style=style), no_wrap=True, overflow="ellipsis")


def aligned(rows: Sequence[Sequence[str]], *, right: Container[int] = ()) -> str:
    """Lines of columns under each other, some of them to the right."""
    rows = [[" ".join(clean(cell).split()) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def progress_bar(total: int | None, label: str) -> Iterator[Callable[[int], None]]:
    """A function that takes progress in bytes; a bar is drawn on a terminal only."""
    done = 0

    def advance(amount: int) -> None:
        nonlocal done
        done += amount
        show(done, total)

    with counting_bar(label, total) as show:
        yield advance


@contextlib.contextmanager
def counting_bar(label: str, total: int | None = None) -> Iterator[Callable[[int, int | None], None]]:
    """A function that takes how many are done, and of how many; a bar is drawn on a terminal only."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done, total: progress.update(task, completed=done, total=total)
