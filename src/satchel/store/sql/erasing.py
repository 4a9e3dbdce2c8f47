"""Removing an org with all that it has: rows, index, vectors, history, sessions and what they kept."""

from satchel.store.holdings import Held
from satchel.store.sql.database import Database
from satchel.store.sql.holdings import amounts

__all__ = ["erase"]

_STATEMENTS = ("erase_memories", "erase_sessions", "erase_contents", "erase_rest")


def erase(db: Database, org: str) -> dict[Held, int]:
    """How many rows of each kind there were; foreign keys and triggers take the rest along."""
    counts = amounts(db, org, every_vector=True)
    for name in _STATEMENTS:
        db.execute(db.statement(name), (org,))
    return counts
