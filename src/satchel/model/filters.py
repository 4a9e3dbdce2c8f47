"""`Filter`: which memories a read or a write is about. Every store turns it into its own query."""

from datetime import datetime
from typing import Literal, get_args

import msgspec

from satchel.model.memory import Scope

__all__ = ["SORTS", "Filter", "Sort"]

Sort = Literal["at", "created", "updated", "used", "importance"]
"""The order of a list, latest or highest first. `at` is the time that a memory is about."""
SORTS: tuple[str, ...] = get_args(Sort)


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on memories, all of which must hold.

    An empty tuple or None sets no condition. A memory must have one of the kinds, tiers, statuses and ids, but all
    of the tags and metadata. By default only active memories match; `valid_at` also excludes those not valid then.
    """

    scope: Scope = Scope()
    kinds: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ("active",)
    valid_at: datetime | None = None
    since: datetime | None = None
    """Only memories about this time or later."""
    until: datetime | None = None
    """Only memories about this time or earlier."""
    metadata: tuple[str, ...] = ()
    """Keys with their values, in the form that `metadata_lines` returns."""
    ids: tuple[str, ...] = ()
    pinned: bool = False
    """Only pinned memories."""
    important: bool = False
    """Only memories with an importance above 0.7."""
    unchanged_since: datetime | None = None
    """Only memories that were not changed after this moment."""
