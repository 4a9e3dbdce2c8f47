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
    """The store at a location: a file, ":memory:", or the URL of a PostgreSQL database."""
    if "://" in location:
        try:
            from satchel.store.postgres import PostgresStore
        except ModuleNotFoundError as error:
            if error.name != "psycopg":
                raise
            raise InputError("for a store on a server install `satchel[postgres]`: psycopg is missing") from None
        return PostgresStore(location, create=create)
    from satchel.store.sqlite import SqliteStore

    return SqliteStore(location, create=create)


def restore_store(backup: Path, location: str, *, replace: bool = False) -> Path | None:
    """Put a backup in place of the store at a location; where the old one was kept, if any."""
    from satchel.store.sqlite import restore

    if location == ":memory:":
        raise InputError("a backup is restored to a file, not to ':memory:'")
    if "://" in location:
        raise InputError("a backup is restored to a file; `satchel migrate` copies that to a server")
    return restore(backup, location, replace=replace)
