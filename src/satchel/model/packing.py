"""The values of packing: what can be chosen, items, their renditions in a block, and the receipt."""

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from satchel.model.memory import Tier
from satchel.model.result import Result, quoted

__all__ = [
    "FORMATS",
    "PACK_FORMATS",
    "PINS",
    "Format",
    "Item",
    "Level",
    "PackFormat",
    "Pins",
    "Placed",
    "PolicyName",
    "Reason",
    "Receipt",
    "ReceiptEntry",
    "Span",
    "Unread",
    "marked",
]

# Here, because the signatures of `Satchel` need them and a search does not need the rest of packing.
Format = Literal["system_prompt", "markdown", "raw", "messages"]
FORMATS: tuple[str, ...] = get_args(Format)
PackFormat = Literal["markdown", "json", "system_prompt", "raw"]
PACK_FORMATS: tuple[str, ...] = get_args(PackFormat)
PolicyName = Literal["best", "greedy", "tier"]
Pins = Literal["strict", "best_effort"]
PINS: tuple[str, ...] = get_args(Pins)

Level = Literal["full", "passages", "excerpt", "summary", "title"]

Span = tuple[int, int]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate for packing: its text, the fields that decide its position in a block, and its value."""

    id: str
    text: str
    short_id: str | None = None
    """If given, every format shows it and the kind beside the text. None shows neither in a block of text."""
    title: str | None = None
    speaker: str | None = None
    kind: str | None = None
    tier: Tier = "knowledge"
    confidence: float | None = None
    at: datetime | None = None
    thread: Hashable = None
    """Identifies its session among all sessions; None if it belongs to none."""
    value: float = 1.0
    """The value of the whole item, above 0."""
    relevant: bool = True
    """Whether it may be included. An irrelevant item is left out, however much room there is."""
    pinned: bool = False
    tokens: int | None = None
    """The token count of its text with the default counter, if known."""
    passages: tuple[Span, ...] = ()
    """The passages of a long text that matched, best first; empty if unknown."""
    needed: tuple[Span, ...] = ()
    """The passages that are enough to answer the question; empty if the whole text is needed."""
    sought: tuple[str, ...] = ()
    """Stems of the query's words. They select the sentence of a passage that matched."""
    superseded_by: str | None = None
    overtaken_by: str | None = None
    """The id of a newer item about the same thing. A block that has both marks this one as older."""

    def headline(self, width: int = 60) -> str:
        """Return the title, or the first words of the text if there is none, in at most `width` characters."""
        line = " ".join((self.title or self.text[: 4 * width]).split())
        return line if len(line) <= width else line[: width - 1].rstrip() + "…"


class Placed(NamedTuple):
    """An item included in a block: its level of detail and its text, which is empty at level "title"."""

    item: Item
    level: Level
    text: str

    @property
    def whole(self) -> bool:
        """Whether the item has all its text, or all passages that are needed."""
        return self.level in ("full", "passages")


def marked(placed: Sequence[Placed]) -> list[Placed]:
    """Return the same items, with `overtaken_by` removed if the newer item is not among them."""
    there = {each.item.id for each in placed}
    return [
        each
        if each.item.overtaken_by is None or each.item.overtaken_by in there
        else each._replace(item=replace(each.item, overtaken_by=None))
        for each in placed
    ]


# The receipt.


Reason = Literal["over budget", "duplicate", "superseded", "not relevant"]


class ReceiptEntry(Result, msgspec.Struct, frozen=True, kw_only=True):
    """One candidate of a receipt: kept at a level of detail, or left out for a reason."""

    id: str
    headline: str
    tier: Tier
    value: float
    """The value of the whole item: with a query, the probability that it is needed."""
    cost: int
    """The tokens of its lines in the block, or of the whole item if it was left out; without headings."""
    level: Level | None = None
    """The level of detail at which it was kept; None if it was left out."""
    reason: Reason | None = None
    other: str | None = None
    """The id of the item that it duplicates, or that superseded it."""
    admitted_at: int | None = None
    """If it was left out as over budget: the smallest budget that includes it."""

    @property
    def kept(self) -> bool:
        """Whether it is in the text, whole or in part."""
        return self.level is not None

    def _summary(self) -> str:
        return f"{self.id} {self.level or self.reason} {self.cost:,} tokens {quoted(self.headline)}"


class Receipt(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What a packing did with every candidate, in order of rank, and the token count of the text."""

    budget: int | None
    counter: str
    policy: str
    format: str
    token_count: int
    """The tokens of the final text."""
    entries: tuple[ReceiptEntry, ...]

    @property
    def kept(self) -> tuple[ReceiptEntry, ...]:
        """The candidates that are in the text."""
        return tuple(entry for entry in self.entries if entry.kept)

    @property
    def left_out(self) -> tuple[ReceiptEntry, ...]:
        """The candidates that are not in the text."""
        return tuple(entry for entry in self.entries if not entry.kept)

    @property
    def overhead(self) -> int:
        """The tokens of headings and of the text around all items."""
        return max(0, self.token_count - sum(entry.cost for entry in self.kept))

    def _summary(self) -> str:
        limit = "" if self.budget is None else f" of {self.budget:,}"
        return f"{len(self.kept)} kept, {len(self.left_out)} left out, {self.token_count:,}{limit} tokens"


class Unread(NamedTuple):
    """Candidates that are not relevant enough. Only a receipt needs them, so they are read when it is asked for."""

    total: int
    read: Callable[[], Sequence[tuple[int, Item]]]
    """Reads them, each with the number of items that rank before it."""
