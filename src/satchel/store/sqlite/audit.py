"""Whether passages and vectors are in step with the memories, and how they are brought back.

All of it is made from the memories, so nothing is lost by making it again.
"""

from typing import Any, NamedTuple

import apsw

from satchel.store.sql.audit import differing_memories
from satchel.store.sql.index import Index
from satchel.store.sql.tracing import memories
from satchel.store.sql.vectors import Generation
from satchel.store.sqlite.connection import SqliteConnection

__all__ = [
    "Passages",
    "Vectors",
    "look_at_passages",
    "look_at_vectors",
    "mend",
]


class Passages(NamedTuple):
    """What is wrong with the passages."""

    stray: list[tuple[int]]
    """Passages of memories that are gone."""
    differing: list[int]
    """Memories whose passages do not reach from one end of their text to the other."""


class Vectors(NamedTuple):
    """What is wrong with the vectors."""

    broken: list[Generation]
    """Those whose tables are missing or cannot be read."""
    stray: int
    """Vectors, codes and places in the backlog that belong to nothing."""
    overlooked: int
    """Memories that lack a vector, and do not wait for it."""
    waiting: int
    """Memories that wait for their vectors, as they may."""


def look_at_passages(db: SqliteConnection) -> Passages:
    stray: list[Any] = db.execute(db.statement("stray_passages")).fetchall()
    return Passages(stray, differing_memories(db, db.statement("passage_ends")))


def look_at_vectors(db: SqliteConnection) -> Vectors:
    broken, stray = [], len(db.execute(db.statement("stray_backlog")).fetchall())
    for each in db.vectors.generations():
        try:
            stray += len(_stray_codes(db, each)) + len(_stray_vectors(db, each))
        except (apsw.SQLError, apsw.CorruptError):
            broken.append(each)
    current = db.vectors.generation()
    overlooked = 0 if current in broken else len(_overlooked(db, current))
    return Vectors(broken, stray, overlooked, int(db.execute(db.statement("count_backlog")).get))


def mend(db: SqliteConnection) -> list[str]:
    """Make anew what differs from the memories, and take out what belongs to none; what was done.

    The tables of vectors come first, since passages cannot be changed beside broken ones.
    """
    vectors = look_at_vectors(db)
    for broken in vectors.broken:
        _renew(db, broken)
    passages = look_at_passages(db)
    _mend_passages(db, passages)
    _mend_vectors(db)
    done = []
    if concerned := len(passages.differing) + len(passages.stray):
        done.append(f"made the passages of {concerned:,} memories anew")
    if vectors.broken or vectors.stray or vectors.overlooked:
        waiting = int(db.execute(db.statement("count_backlog")).get)
        done.append(f"took out vectors that belong to nothing; {waiting:,} memories wait for theirs")
    return done


def _renew(db: SqliteConnection, broken: Generation) -> None:
    current = broken == db.vectors.generation()
    db.vectors.drop(broken)
    if current:
        db.vectors.create(broken.embedding, state="current")


def _mend_passages(db: SqliteConnection, found: Passages) -> None:
    db.vectors.before_passages_go(db.vectors.generations(), found.stray)
    db.executemany(db.statement("delete_passage"), found.stray)
    index = Index(db)
    for seq, memory in memories(db, found.differing).items():
        index.remake(seq, memory)


def _mend_vectors(db: SqliteConnection) -> None:
    for each in db.vectors.generations():
        db.vectors.delete(each, _stray_codes(db, each) + _stray_vectors(db, each))
    db.executemany(db.statement("delete_backlog"), db.execute(db.statement("stray_backlog")).fetchall())
    db.executemany(db.statement("insert_backlog"), _overlooked(db, db.vectors.generation()))


def _stray_codes(db: SqliteConnection, found: Generation) -> list[Any]:
    return db.execute(
        f"SELECT rowid FROM code_{found.number} EXCEPT SELECT passage FROM vector_{found.number}"
    ).fetchall()


def _stray_vectors(db: SqliteConnection, found: Generation) -> list[Any]:
    """Vectors without a code or passage, or of a wrong size."""
    number = found.number
    return db.execute(
        f"SELECT passage FROM vector_{number} EXCEPT SELECT rowid FROM code_{number} "
        f"UNION SELECT v.passage FROM vector_{number} v WHERE length(v.vector) <> ? "
        "OR NOT EXISTS (SELECT 1 FROM passage p WHERE p.seq = v.passage)",
        (found.dimensions,),
    ).fetchall()


def _overlooked(db: SqliteConnection, current: Generation | None) -> list[Any]:
    if current is None:
        return db.execute(db.statement("overlooked_memories")).fetchall()
    if not current.dimensions:
        return []
    return db.execute(db.statement("overlooked_passages", **current.parts)).fetchall()
