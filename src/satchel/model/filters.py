"""Which memories a read or a write means, as one value that every store understands."""

from datetime import datetime
from typing import Literal, get_args

import msgspec

from satchel.model.memory import Scope

__all__ = ["SORTS", "Filter", "Sort"]

Sort = Literal["at", "created", "updated", "used", "importance"]
"""By what memories are listed, the latest or highest first; `at` is the time that a memory speaks of."""
SORTS: tuple[str, ...] = get_args(Sort)


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which memories are meant: all fields together.

    Empty tuples and None leave a field open. A memory matches one of the kinds, tiers, statuses and ids, but must
    have all of the tags. The default leaves only what is active; `valid_at` also leaves out what did not hold then.
    """

    scope: Scope = Scope()
    kinds: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ("active",)
    valid_at: datetime | None = None
    since: datetime | None = None
    """Nothing that speaks of an earlier time than this moment."""
    until: datetime | None = None
    """Nothing that speaks of a later time than this moment."""
    metadata: tuple[str, ...] = ()
    """Keys with their values, as `metadata_lines` gives them, all of which a memory must have."""
    ids: tuple[str, ...] = ()
    pinned: bool = False
    """Only what is pinned."""
    important: bool = False
    """Only what is more important than most: above 0.7."""
    unchanged_since: datetime | None = None
    """Only memories none of whose fields was changed after this moment."""
