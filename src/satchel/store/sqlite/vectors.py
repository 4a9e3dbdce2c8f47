"""The tables of vectors: one pair for each generation, which is what one embedder made."""

from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakSet

import apsw

from satchel.store.contract import Embedding
from satchel.store.sqlite.statements import statement

__all__ = [
    "Generation",
    "create_generation",
    "delete_codes",
    "delete_vectors",
    "drop_generation",
    "generation",
    "generations",
    "load_vectors",
    "write_vector",
]

_with_vectors: "WeakSet[apsw.Connection]" = WeakSet()


class Generation(NamedTuple):
    """The vectors of one embedder, as a store records them."""

    number: int
    name: str
    dimensions: int

    @property
    def embedding(self) -> Embedding:
        return Embedding(self.name, self.dimensions)

    @property
    def code_bytes(self) -> int:
        return -(-self.dimensions // 8)


def load_vectors(db: apsw.Connection) -> None:
    """Make sqlite-vec known to a connection; most commands of a command line never need it."""
    if db in _with_vectors:
        return
    import sqlite_vec

    db.enable_load_extension(True)
    try:
        db.load_extension(sqlite_vec.loadable_path())
    finally:
        db.enable_load_extension(False)
    _with_vectors.add(db)


def generation(db: apsw.Connection, state: str = "current") -> Generation | None:
    row = db.execute(statement("generation"), (state,)).fetchone()
    return None if row is None else Generation(*row)


def generations(db: apsw.Connection) -> list[Generation]:
    """Those that have tables, with sqlite-vec loaded if there are any."""
    found = [each for state in ("current", "building") if (each := generation(db, state)) and each.dimensions]
    if found:
        load_vectors(db)
    return found


def create_generation(db: apsw.Connection, embedding: Embedding, *, state: str) -> Generation:
    db.execute(statement("insert_generation"), (*embedding, state))
    made = Generation(db.last_insert_rowid(), *embedding)
    if made.dimensions:
        load_vectors(db)
        db.execute(
            f"CREATE TABLE vector_{made.number} (passage INTEGER PRIMARY KEY "
            "REFERENCES passage (seq) ON DELETE CASCADE, vector BLOB NOT NULL) STRICT"
        )
        db.execute(f"CREATE VIRTUAL TABLE code_{made.number} USING vec0 (code bit[{8 * made.code_bytes}])")
    return made


def drop_generation(db: apsw.Connection, found: Generation) -> None:
    if found.dimensions:
        load_vectors(db)
        db.execute(f"DROP TABLE IF EXISTS vector_{found.number}; DROP TABLE IF EXISTS code_{found.number}")
    db.execute(statement("delete_generation"), (found.number,))


def write_vector(db: apsw.Connection, to: Generation, passage: int, vector: bytes, code: bytes) -> None:
    db.execute(f"INSERT INTO vector_{to.number} (passage, vector) VALUES (?, ?)", (passage, vector))
    db.execute(f"INSERT INTO code_{to.number} (rowid, code) VALUES (?, vec_bit(?))", (passage, code))


def delete_codes(db: apsw.Connection, found: Iterable[Generation], passages: list[tuple[int]]) -> None:
    """Before the passages go: a virtual table has no foreign key that would take its rows along."""
    for each in found:
        db.executemany(f"DELETE FROM code_{each.number} WHERE rowid = ?", passages)


def delete_vectors(db: apsw.Connection, found: Generation, passages: list[tuple[int]]) -> None:
    load_vectors(db)
    delete_codes(db, [found], passages)
    db.executemany(f"DELETE FROM vector_{found.number} WHERE passage = ?", passages)
