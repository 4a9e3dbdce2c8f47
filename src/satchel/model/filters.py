"""Which memories a read or a write means, as one value that every store understands."""

from datetime import datetime

import msgspec

from satchel.model.memory import Scope

__all__ = ["Filter"]


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which memories are meant. Empty tuples and None leave a field open; all tags must be there."""

    scope: Scope = Scope()
    kinds: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ("active",)
    valid_at: datetime | None = None
    since: datetime | None = None
    """Nothing that speaks of an earlier time; what speaks of this very moment is meant."""
    until: datetime | None = None
    """Nothing that speaks of a later time; what speaks of this very moment is meant."""
    ids: tuple[str, ...] = ()
    pinned: bool = False
    """Only what is pinned."""
    important: bool = False
    """Only what is more important than most: above 0.7."""
    unchanged_since: datetime | None = None
    """Only what no field of was changed after this moment."""
