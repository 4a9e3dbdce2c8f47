"""Printing: exact bytes into a pipe, a little colour on a terminal, tables and remarks on stderr."""

import contextlib
import sys
from collections import Counter as Tally
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from satchel.api.satchel import Satchel
from satchel.errors import SatchelError
from satchel.fitting.context import ContextBlock
from satchel.fitting.context_pack import ContextPack
from satchel.fitting.hits import Hits
from satchel.fitting.listing import clean
from satchel.model.checks import repair_surrogates
from satchel.model.memory import Hit
from satchel.model.packing import Receipt, ReceiptEntry

__all__ = [
    "UNMATCHED",
    "PackOutcome",
    "aligned",
    "bar",
    "counting_bar",
    "explain_hits",
    "explain_receipt",
    "legend",
    "note",
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


# Why each hit was found


ACROSS = 3
EXPLANATION_LEGEND = "score: how likely it is needed; its parts: log-odds beside the average candidate"


def explain_hits(hits: Sequence[Hit], names: Sequence[str], *, apart: bool) -> None:
    """Print a table for each hit under its short id, after the hits or apart from them on stderr."""
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


# What became of every candidate of a context


HEADINGS = ("id", "kept as, or why not", "tokens", "needs", "score", "memory")
NUMBERS = (2, 3, 4)
NONE = "–"
RECEIPT_LEGEND = "tokens: as kept, or of the whole text; needs: a budget that keeps it"
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
    """What became of the candidates of a text."""

    kept: int
    left_out: int
    irrelevant: int
    """How many of those left out are not relevant enough."""
    wanted: int
    """How many there would be with room for all that is relevant."""
    tokens: int
    smallest_budget: int | None
    """Where nothing fitted: the least budget that holds something."""
    asked: bool
    """Whether there was a question."""

    @classmethod
    def of_block(cls, block: ContextBlock, *, asked: bool) -> "PackOutcome":
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
    def of_pack(cls, pack: ContextPack, *, asked: bool) -> "PackOutcome":
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
    """Nothing matched, nothing fitted, or something did not fit; None without a budget to speak of."""
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
    """Why a text is empty; None where it is not."""
    if outcome.kept:
        return None
    if not outcome.left_out:
        return "nothing matched" if outcome.asked else "no memories here"
    if outcome.smallest_budget is None:
        return _nothing_relevant(outcome.irrelevant)
    candidates = _relevant(outcome.wanted) if outcome.asked else f"{outcome.wanted:,} candidates"
    needed = f"the smallest needs a budget of {outcome.smallest_budget:,}"
    return f"nothing fitted into {budget:,} tokens: {candidates}, {needed}"


def spent(outcome: PackOutcome, budget: int, receipt: Receipt | None = None) -> str:
    """How much of the budget is used, and how many did not fit; with a receipt all that were left out, and why."""
    used = f"{outcome.tokens:,} of {budget:,} tokens"
    if outcome.asked:
        used = f"{_relevant(outcome.kept)}, {used}"
    missed = outcome.wanted - outcome.kept
    if receipt is None or not outcome.left_out:
        return f"{used}; {missed:,} more did not fit; --explain says which" if missed > 0 else used
    reasons = Tally(entry.reason for entry in receipt.left_out).most_common()
    return f"{used}; {outcome.left_out:,} left out: " + ", ".join(f"{count:,} {why}" for why, count in reasons)


def on_words_alone(bag: Satchel, embedder: str | None) -> str | None:
    """That no vectors were used: a question is sent to a server only if its address is given, not recorded."""
    if bag.embedder_trouble:
        return f"searched by words alone: {bag.embedder_trouble}"
    if embedder is None and (own := bag.embedder) and own.startswith("openai:"):
        return f"searched by words alone; by meaning too with --embedder {own}"
    return None


# A bar of what fills a context window

_MARKS = {"system": "▒", "history": "▓", "tool_results": "█", "user": "▞", "response_reserve": "·"}


def bar(used: Mapping[str, int], total: int, *, width: int = 50) -> str:
    """One bar whose length is the total; what goes beyond it is marked at its end."""
    drawn = ""
    so_far = 0
    for name, tokens in used.items():
        so_far += tokens
        # A category that has anything is seen, and rounding never makes the bar longer.
        wanted = round(width * so_far / max(1, total)) - len(drawn)
        drawn += _MARKS[name] * max(wanted, 1 if tokens else 0)
    over = "!" if so_far > total else ""
    return f"[{drawn[:width].ljust(width)}]{over}"


def legend(titles: Mapping[str, str]) -> str:
    return "  ".join(f"{_MARKS[name]} {title}" for name, title in titles.items())
