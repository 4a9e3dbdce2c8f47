"""Printing: exact bytes into a pipe, tables that fit a terminal, remarks on standard error.

Colours and progress bars are for terminals only. With `NO_COLOR` set, or `TERM=dumb`, no escape sequence is
written at all.
"""

import contextlib
import itertools
import os
import sys
import time
import unicodedata
from collections import Counter as Tally
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO

from satchel.api.satchel import Satchel
from satchel.errors import SatchelError
from satchel.fitting.hits import Hits
from satchel.fitting.listing import as_json, clean
from satchel.model.checks import repair_surrogates
from satchel.model.invisible import json_bytes
from satchel.model.memory import Hit
from satchel.model.packing import Receipt, ReceiptEntry

if TYPE_CHECKING:
    from satchel.fitting.context import ContextBlock
    from satchel.fitting.context_pack import ContextPack

__all__ = [
    "UNMATCHED",
    "PackOutcome",
    "aligned",
    "bar",
    "counting_bar",
    "explain_hits",
    "explain_receipt",
    "is_terminal",
    "legend",
    "note",
    "nothing_fitted_json",
    "nothing_kept",
    "on_hits",
    "on_words_alone",
    "print_json",
    "print_listing",
    "print_rows",
    "print_table",
    "print_text",
    "progress_bar",
    "spent",
    "terminal_width",
    "write_bytes",
]


def print_text(text: str) -> None:
    """Write a text to standard output in UTF-8 whatever the locale is, without control and hidden characters."""
    _write_text(clean(text))


def _write_text(text: str) -> None:
    write_bytes([text.encode("utf-8", "surrogateescape")])


def write_bytes(chunks: Iterable[bytes]) -> None:
    """Write bytes to standard output."""
    if sys.stdout is None:
        raise SatchelError("standard output is closed; there is nowhere to print to")
    sys.stdout.flush()
    sys.stdout.buffer.writelines(chunks)
    sys.stdout.buffer.flush()


def print_json(value: object) -> None:
    """Write a value to standard output as one line of JSON."""
    write_bytes([json_bytes(value) + b"\n"])


def note(text: str) -> None:
    """Write a remark for people to standard error, apart from the output."""
    _write_remark(clean(text))


def _write_remark(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(repair_surrogates(text) + "\n")


# Terminals.


DEFAULT_WIDTH = 80


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is there and is a terminal."""
    return stream is not None and stream.isatty()


def terminal_width(stream: TextIO) -> int:
    """How many columns a terminal has: $COLUMNS, or what the terminal says, or 80."""
    with contextlib.suppress(ValueError):
        if (columns := int(os.environ.get("COLUMNS", ""))) > 0:
            return columns
    with contextlib.suppress(OSError):
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
    return DEFAULT_WIDTH


def _takes_escapes(stream: TextIO | None) -> bool:
    """Whether escape sequences may be written: a terminal that knows them, whose user did not switch them off."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


Look = Literal["heading", "dim", "plain"]
_STYLES: dict[Look, dict[str, Any]] = {"heading": {"fg": "cyan", "bold": True}, "dim": {"dim": True}, "plain": {}}


def _print_lines(lines: Sequence[tuple[str, Look]], *, stderr: bool = False) -> None:
    """Write lines with their looks, which only a terminal shows."""
    stream = sys.stderr if stderr else sys.stdout
    if not lines:
        return
    lines = [(clean(line), look) for line, look in lines]
    if _takes_escapes(stream):
        from click import style

        text = "\n".join(style(line, **_STYLES[look]) if _STYLES[look] else line for line, look in lines)
    else:
        text = "\n".join(line for line, _ in lines)
    if stderr:
        _write_remark(text)
    else:
        _write_text(text + "\n")


def print_listing(text: str, *, apart: bool = False) -> None:
    """Print entries whose headings begin at the margin; a terminal highlights those. `apart` is standard error."""
    lines = text.removesuffix("\n").split("\n") if text else []
    _print_lines(
        [(line, "plain" if line.startswith(" ") or not line else "heading") for line in lines], stderr=apart
    )


# Tables.


def print_rows(rows: Sequence[Sequence[str]], *, right: Container[int] = ()) -> None:
    """Print rows in columns, some of them aligned to the right. A terminal wraps the last column."""
    wrap = terminal_width(sys.stdout) if is_terminal(sys.stdout) else None
    print_text(aligned(rows, right=right, wrap=wrap))


def print_table(
    rows: Sequence[Sequence[str]],
    *,
    headings: Sequence[str],
    right: Container[int] = (),
    cut: Sequence[int] | None = None,
    dim_from: int | None = None,
    stderr: bool = False,
) -> None:
    """Print a table. On a terminal it has headings and is cut to the terminal's width.

    The columns in `cut` are cut first; without it the last one. In a pipe nothing is cut. Standard output then has
    no headings, so that each line is one row. Rows from `dim_from` on are dimmed.
    """
    stream = sys.stderr if stderr else sys.stdout
    on_terminal = stream is not None and is_terminal(stream)
    headed = on_terminal or stderr
    width = terminal_width(stream) if stream is not None and on_terminal else None
    lines = aligned([headings, *rows] if headed else rows, right=right, width=width, cut=cut).splitlines()
    looks: list[Look] = ["plain" if dim_from is None or place < dim_from else "dim" for place in range(len(rows))]
    _print_lines(list(zip(lines, ["heading", *looks] if headed else looks, strict=True)), stderr=stderr)


def aligned(
    rows: Sequence[Sequence[str]],
    *,
    right: Container[int] = (),
    width: int | None = None,
    cut: Sequence[int] | None = None,
    wrap: int | None = None,
) -> str:
    """Return rows as lines of columns, some of them aligned to the right.

    Columns are aligned by their width on a screen, where Chinese characters and emoji take two cells. With `width`
    no line is longer: the columns in `cut` are cut first, or the last one, and then all but the first. With `wrap`
    the last column is wrapped at that width.
    """
    if not rows:
        return ""
    rows = [[" ".join(clean(cell).split()) for cell in row] for row in rows]
    widths = [max(map(_cell_width, column)) for column in zip(*rows, strict=True)]
    gaps = len(GAP) * (len(widths) - 1)
    if width is not None:
        last = len(widths) - 1
        widths = _narrowed(widths, width - gaps, cut or [last], least=LEAST_CUT)
        widths = _narrowed(widths, width - gaps, range(1, last + 1), least=1)
    indent = sum(widths[:-1]) + gaps
    lines = []
    for row in rows:
        ends = _wrapped(row[-1], wrap - indent) if wrap is not None else [row[-1]]
        cells = [*row[:-1], ends[0]]
        padded = [
            _padded(_cut(cell, width), width, right=column in right)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        lines.append(GAP.join(padded).rstrip())
        lines += [" " * indent + end for end in ends[1:]]
    return "\n".join(lines) + "\n"


GAP = "  "
LEAST_WRAP = 20
LEAST_CUT = 8


def _narrowed(widths: Sequence[int], room: int, cut: Sequence[int], *, least: int) -> list[int]:
    """Take from the widest of some columns until all have room, or each has only the least width."""
    found = list(widths)
    while sum(found) > room and (wide := [column for column in cut if found[column] > least]):
        found[max(wide, key=lambda column: found[column])] -= 1
    return found


def _wrapped(text: str, width: int) -> list[str]:
    """Break a text at spaces into lines of a width, unless that is too narrow to read."""
    if width < LEAST_WRAP or _cell_width(text) <= width:
        return [text]
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and _cell_width(lines[-1]) + 1 + _cell_width(word) > width:
            lines.append(word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _padded(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - _cell_width(text))
    return space + text if right else text + space


def _cell_width(text: str) -> int:
    """How many cells of a terminal a text takes."""
    return len(text) if text.isascii() else sum(_cells(text))


_JOINER, _EMOJI_FORM = "\u200d", "\ufe0f"
_NO_CELL = ("Mn", "Me", "Cf")


def _cells(text: str) -> Iterator[int]:
    """Yield how many cells each character adds: 2 for Chinese and emoji, 0 for accents and parts of an emoji."""
    before, joined = 0, False
    for character in text:
        added = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if character == _EMOJI_FORM:
            # The symbol before it is drawn as an emoji.
            added = 1 if before == 1 else 0
        elif joined or (before and _is_skin_tone(character)) or unicodedata.category(character) in _NO_CELL:
            added = 0
        joined = character == _JOINER
        before = added or before
        yield added


def _is_skin_tone(character: str) -> bool:
    return "\U0001f3fb" <= character <= "\U0001f3ff"


def _cut(text: str, width: int) -> str:
    """Cut a text to a number of cells; an ellipsis says that it was cut."""
    if _cell_width(text) <= width:
        return text
    fits = sum(1 for end in itertools.accumulate(_cells(text)) if end <= width - 1)
    return text[:fits].rstrip() + "…"


# Progress.


@contextlib.contextmanager
def progress_bar(total: int | None, label: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes progress in bytes. A bar is drawn on a terminal only."""
    done = 0

    def advance(amount: int) -> None:
        nonlocal done
        done += amount
        show(done, total)

    with counting_bar(label, total) as show:
        yield advance


@contextlib.contextmanager
def counting_bar(label: str, total: int | None = None) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function that takes how many are done, and of how many. A bar is drawn on a terminal only."""
    if not _takes_escapes(sys.stderr):
        yield lambda done, total: None
        return
    drawn = 0.0

    def show(done: int, total: int | None) -> None:
        nonlocal drawn
        if time.monotonic() - drawn > SECONDS_PER_DRAWING:
            drawn = time.monotonic()
            sys.stderr.write(f"\r\x1b[K{_progress(label, done, total)}")
            sys.stderr.flush()

    show(0, total)
    try:
        yield show
    finally:
        # The line is cleared: what follows says how it ended.
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


SECONDS_PER_DRAWING = 0.1
PROGRESS_WIDTH = 40


def _progress(label: str, done: int, total: int | None) -> str:
    if not total:
        return f"{label} {done:,}" if done else label
    share = min(done / total, 1)
    full = round(PROGRESS_WIDTH * share)
    return f"{label} {'━' * full}{' ' * (PROGRESS_WIDTH - full)} {share:4.0%}"


# Why each hit was found


ACROSS = 3
EXPLANATION_LEGEND = "score: how likely it is needed; parts: log-odds against the average candidate"


def explain_hits(hits: Sequence[Hit], names: Sequence[str], *, apart: bool) -> None:
    """Print the parts of each hit's score as a table, after the hits or `apart` on standard error."""
    if not hits:
        return
    tables = _tables([hit.parts or {} for hit in hits])
    blocks = [_heading(hit, name) + table for hit, name, table in zip(hits, names, tables, strict=True)]
    print_listing(("" if apart else "\n") + "\n".join(blocks), apart=apart)
    note(EXPLANATION_LEGEND)


def _heading(hit: Hit, name: str) -> str:
    words = [name, f"score {hit.score:.3f}"]
    if hit.passage:
        words.append(f"characters {hit.passage[0]:,}–{hit.passage[1]:,} of {len(hit.memory.text):,}")
    return "  ".join(words) + "\n"


def _tables(parts: Sequence[dict[str, float]]) -> list[str]:
    """Return a table for each hit, with each part at the same place in all of them."""
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


# What became of every candidate of a context


HEADINGS = ("id", "kept as, or why not", "tokens", "needs", "score", "memory")
NUMBERS = (2, 3, 4)
NONE = "–"
RECEIPT_LEGEND = "tokens: as kept, or of the whole text; needs: a budget that keeps it"
# Rows on a terminal; a file gets them all.
ON_A_SCREEN = 40

_LINKS = {"duplicate": "duplicate of", "superseded": "superseded by"}

Row = tuple[str, ...]


def explain_receipt(bag: Satchel, receipt: Receipt) -> None:
    """Print a table on standard error: what was kept, best first, then what was left out, best first."""
    if not receipt.entries:
        return
    names = dict(zip((entry.id for entry in receipt.entries), bag.short_ids(receipt.entries), strict=True))
    kept = list(_kept(receipt, names))
    left_out = [_row(entry, names) for entry in receipt.left_out]
    shown = left_out[:ON_A_SCREEN] if is_terminal(sys.stderr) else left_out
    print_table([*kept, *shown], headings=HEADINGS, right=NUMBERS, dim_from=len(kept), stderr=True)
    if more := len(left_out) - len(shown):
        note(f"… and {more:,} more left out; `2>FILE` has them all")
    note(RECEIPT_LEGEND)


def _kept(receipt: Receipt, names: dict[str, str]) -> Iterator[Row]:
    for entry in receipt.kept:
        yield _row(entry, names)
    if receipt.kept and receipt.overhead:
        yield (NONE, "headings", f"{receipt.overhead:,}", NONE, NONE, "")


def _row(entry: ReceiptEntry, names: dict[str, str]) -> Row:
    became: str = entry.level or entry.reason or ""
    if entry.other is not None:
        became = f"{_LINKS.get(became, became)} {names.get(entry.other, entry.other)}"
    needs = NONE if entry.admitted_at is None else f"{entry.admitted_at:,}"
    return (names[entry.id], became, f"{entry.cost:,}", needs, f"{entry.value:.3f}", entry.headline)


# Remarks on what was found


UNMATCHED = "nothing matched the query; these are the newest and most important that pass the filters"


class PackOutcome(NamedTuple):
    """The numbers of a context or a pack that remarks state."""

    kept: int
    left_out: int
    irrelevant: int
    """How many of those left out are below `min_relevance`."""
    wanted: int
    """How many there would be if all relevant ones fitted."""
    tokens: int
    smallest_budget: int | None
    """If nothing fitted: the smallest budget that holds something."""
    asked: bool
    """Whether there was a query."""

    @classmethod
    def of_block(cls, block: "ContextBlock", *, asked: bool) -> "PackOutcome":
        return cls(
            block.included,
            block.facts.left_out,
            block.irrelevant,
            block.included + block.omitted,
            block.token_count,
            block.smallest_budget,
            asked and block.matched,
        )

    @classmethod
    def of_pack(cls, pack: "ContextPack", *, asked: bool) -> "PackOutcome":
        return cls(
            pack.included,
            pack.facts.left_out,
            pack.irrelevant,
            pack.included + pack.omitted,
            pack.token_count,
            pack.smallest_budget,
            asked,
        )


def on_hits(hits: Hits, budget: int | None) -> str | None:
    """Return a remark on a search: nothing matched, nothing fitted, or how much of the budget is used."""
    if not hits and not hits.omitted:
        return _nothing_relevant(hits.irrelevant) if hits.irrelevant else "nothing matched"
    if budget is None:
        return None if hits.matched else UNMATCHED
    if not hits:
        needed = f"the smallest needs a budget of {hits.smallest_budget:,}"
        return f"nothing fitted into {budget:,} tokens: {hits.omitted:,} matched, {needed}"
    more = f"; {hits.omitted:,} more did not fit" if hits.omitted else ""
    found = f"{_relevant(len(hits))}, " if hits.matched else f"{UNMATCHED}; "
    return f"{found}{hits.token_count:,} of {budget:,} tokens{more}"


def _relevant(number: int) -> str:
    return "1 relevant memory" if number == 1 else f"{number:,} relevant memories"


def _nothing_relevant(weak: int) -> str:
    matches = "1 weak match" if weak == 1 else f"{weak:,} weak matches"
    return f"nothing relevant: {matches} left out; --min-relevance 0 shows them"


def nothing_kept(outcome: PackOutcome, budget: int) -> str | None:
    """Return why a text is empty, or None if it is not."""
    if outcome.kept:
        return None
    if not outcome.left_out:
        return "nothing matched" if outcome.asked else "no memories here"
    if outcome.smallest_budget is None:
        return _nothing_relevant(outcome.irrelevant)
    candidates = _relevant(outcome.wanted) if outcome.asked else f"{outcome.wanted:,} candidates"
    needed = f"the smallest needs a budget of {outcome.smallest_budget:,}"
    return f"nothing fitted into {budget:,} tokens: {candidates}, {needed}"


def nothing_fitted_json(result: "Hits | ContextBlock | ContextPack", **empty: object) -> str:
    """Return why there is nothing, as JSON for a program, which cannot parse an empty output.

    It is a message like an error, and may need more tokens than the budget. A budget of 0 asks for no output.
    """
    if result.token_budget == 0:
        return ""
    told = {"omitted": result.omitted, "smallest_budget": result.smallest_budget}
    return as_json(empty | told) + "\n"


def spent(outcome: PackOutcome, budget: int, receipt: Receipt | None = None) -> str:
    """Return how much of the budget is used and how many did not fit; with a receipt also why."""
    used = f"{outcome.tokens:,} of {budget:,} tokens"
    if outcome.asked:
        used = f"{_relevant(outcome.kept)}, {used}"
    missed = outcome.wanted - outcome.kept
    if receipt is None or not outcome.left_out:
        return f"{used}; {missed:,} more did not fit; --explain says which" if missed > 0 else used
    reasons = Tally(entry.reason for entry in receipt.left_out).most_common()
    return f"{used}; {outcome.left_out:,} left out: " + ", ".join(f"{count:,} {why}" for why, count in reasons)


def on_words_alone(bag: Satchel, embedder: str | None) -> str | None:
    """Return a remark if a search used no vectors.

    A query is sent to an embedding server only if the command line or the environment names it; the name that the
    store has recorded is not enough.
    """
    if bag.embedder_trouble:
        return f"searched by words only: {bag.embedder_trouble}"
    if embedder is None and (own := bag.embedder) and own.startswith("openai:"):
        return f"searched by words only; --embedder {own} also searches by meaning"
    return None


# A bar of what fills a context window

_MARKS = {"system": "▒", "history": "▓", "tool_results": "█", "user": "▞", "response_reserve": "·"}


def bar(used: Mapping[str, int], total: int, *, width: int = 50) -> str:
    """Return a bar whose length is the total; `!` at its end says that more is used."""
    drawn = ""
    so_far = 0
    for name, tokens in used.items():
        so_far += tokens
        # Every category that is used gets a mark, and rounding never makes the bar longer.
        wanted = round(width * so_far / max(1, total)) - len(drawn)
        drawn += _MARKS[name] * max(wanted, 1 if tokens else 0)
    over = "!" if so_far > total else ""
    return f"[{drawn[:width].ljust(width)}]{over}"


def legend(titles: Mapping[str, str]) -> str:
    return "  ".join(f"{_MARKS[name]} {title}" for name, title in titles.items())
