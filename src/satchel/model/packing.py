"""The values of packing: items, their renditions in a block, and the receipt."""

from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from satchel.model.memory import Tier
from satchel.model.result import Result, quoted

__all__ = ["Item", "Level", "Placed", "Reason", "Receipt", "ReceiptEntry", "Span", "marked"]


Level = Literal["full", "passages", "excerpt", "summary", "title"]

Span = tuple[int, int]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate for packing: its text, where it belongs, and its value."""

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
    """What tells its session from all others; None where it belongs to none."""
    value: float = 1.0
    """How much it is worth whole, above 0."""
    relevant: bool = True
    """Whether it is taken at all, however much room there is."""
    pinned: bool = False
    tokens: int | None = None
    """What its text costs with the default counter, where that is known."""
    passages: tuple[Span, ...] = ()
    """The parts of a long text that matter, best first; none where that is not known."""
    needed: tuple[Span, ...] = ()
    """Those of them that are all a question needs; none where it needs the whole text."""
    sought: tuple[str, ...] = ()
    """Words that tell, of a passage that matched, which sentence did."""
    superseded_by: str | None = None
    overtaken_by: str | None = None
    """The id of a newer item that tells this anew; said in a block that has both."""

    def headline(self, width: int = 60) -> str:
        """The title, or the first words of the text where there is none."""
        line = " ".join((self.title or self.text[: 4 * width]).split())
        return line if len(line) <= width else line[: width - 1].rstrip() + "…"


class Placed(NamedTuple):
    """An item as included in a block: its level of detail and its text, which is empty at level "title"."""

    item: Item
    level: Level
    text: str

    @property
    def whole(self) -> bool:
        """Whether nothing that is needed of the item was cut."""
        return self.level in ("full", "passages")


def marked(placed: Sequence[Placed]) -> list[Placed]:
    """Return the same, with the mark "overtaken" removed where the newer item is not included."""
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
    """What it is worth whole: for a question, how likely it is that it is needed."""
    cost: int
    """The tokens of its lines as they stand, or of its whole text where it was left out; headings apart."""
    level: Level | None = None
    """How much of it was kept; None where it was left out."""
    reason: Reason | None = None
    other: str | None = None
    """The id of what it duplicates, or of what superseded it."""
    admitted_at: int | None = None
    """Where it was left out for want of room: the smallest budget that keeps it."""

    @property
    def kept(self) -> bool:
        return self.level is not None

    def _summary(self) -> str:
        return f"{self.id} {self.level or self.reason} {self.cost:,} tokens {quoted(self.headline)}"


class Receipt(Result, msgspec.Struct, frozen=True, kw_only=True):
    """What became of every candidate, in order of rank, and what the text costs."""

    budget: int | None
    counter: str
    policy: str
    format: str
    token_count: int
    """What the final text costs."""
    entries: tuple[ReceiptEntry, ...]

    @property
    def kept(self) -> tuple[ReceiptEntry, ...]:
        return tuple(entry for entry in self.entries if entry.kept)

    @property
    def left_out(self) -> tuple[ReceiptEntry, ...]:
        return tuple(entry for entry in self.entries if not entry.kept)

    @property
    def overhead(self) -> int:
        """The tokens of headings and of what stands around everything."""
        return max(0, self.token_count - sum(entry.cost for entry in self.kept))

    def _summary(self) -> str:
        limit = "" if self.budget is None else f" of {self.budget:,}"
        return f"{len(self.kept)} kept, {len(self.left_out)} left out, {self.token_count:,}{limit} tokens"
