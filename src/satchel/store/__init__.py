"""Where memories are kept: the contract of a store, and the stores that fulfil it."""

from pathlib import Path

from satchel.errors import InputError
from satchel.store.contract import (
    Candidate,
    Check,
    Embedded,
    Embedding,
    Filter,
    Link,
    Match,
    Record,
    Stats,
    Store,
    Trace,
    TracedPassage,
)
from satchel.store.ledger import CATEGORIES, Books, Category, Content, Ledgers, Level, Posted, Role, TurnRow

__all__ = [
    "CATEGORIES",
    "Books",
    "Candidate",
    "Category",
    "Check",
    "Content",
    "Embedded",
    "Embedding",
    "Filter",
    "Ledgers",
    "Level",
    "Link",
    "Match",
    "Posted",
    "Record",
    "Role",
    "Stats",
    "Store",
    "Trace",
    "TracedPassage",
    "TurnRow",
    "open_store",
    "restore_store",
]


def open_store(location: str, *, create: bool = True) -> Store:
    """The store at a location: a file, or ":memory:"."""
    from satchel.store.sqlite import SqliteStore

    return SqliteStore(_local(location), create=create)


def restore_store(backup: Path, location: str, *, replace: bool = False) -> Path | None:
    """Put a backup in place of the store at a location; where the old one was kept, if any."""
    from satchel.store.sqlite import restore

    if location == ":memory:":
        raise InputError("a backup is restored to a file, not to ':memory:'")
    return restore(backup, _local(location), replace=replace)


def _local(location: str) -> str:
    if "://" in location:
        # Without the rest of the address: it may hold a password.
        scheme = location.partition("://")[0]
        raise InputError(f"stores at {scheme}:// are not known; give a file or ':memory:'")
    return location
