"""What became of every candidate of a pack, and what it would have cost."""

from typing import Literal

import msgspec

from satchel.model.fields import Tier
from satchel.model.item import Level

__all__ = ["Entry", "Reason", "Receipt"]

Reason = Literal["over budget", "duplicate", "superseded", "not relevant"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate: kept at a level of detail, or left out for a reason."""

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


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Every candidate of a pack in the order of rank, and the books of its budget."""

    budget: int | None
    counter: str
    policy: str
    format: str
    token_count: int
    """What the final text costs."""
    entries: tuple[Entry, ...]

    @property
    def kept(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.kept)

    @property
    def left_out(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if not entry.kept)

    @property
    def overhead(self) -> int:
        """The tokens of headings and of what stands around everything."""
        return max(0, self.token_count - sum(entry.cost for entry in self.kept))
