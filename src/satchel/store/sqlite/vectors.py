"""The tables of vectors: one pair for each generation, since sqlite-vec has a table for each size."""

from collections.abc import Iterable, Sequence

import apsw

from satchel.store.contract import Embedding
from satchel.store.sql.vectors import Generation, Vectors

__all__ = ["SqliteVectors", "load_vectors"]


def load_vectors(db: apsw.Connection) -> None:
    """Make sqlite-vec known to a connection."""
    import sqlite_vec

    db.enable_load_extension(True)
    try:
        db.load_extension(sqlite_vec.loadable_path())
    finally:
        db.enable_load_extension(False)


class SqliteVectors(Vectors):
    """Vectors in `vector_N` and, as one bit for each number, in `code_N`."""

    _loaded = False

    def load(self) -> None:
        """Most commands of a command line never need it."""
        if not self._loaded:
            load_vectors(self._db)  # type: ignore[arg-type]
            self._loaded = True

    def generations(self) -> list[Generation]:
        if found := super().generations():
            self.load()
        return found

    def create(self, embedding: Embedding, *, state: str) -> Generation:
        made = super().create(embedding, state=state)
        if made.dimensions:
            self.load()
            self._db.execute(
                f"CREATE TABLE vector_{made.number} (passage INTEGER PRIMARY KEY "
                "REFERENCES passage (seq) ON DELETE CASCADE, vector BLOB NOT NULL) STRICT"
            )
            self._db.execute(
                f"CREATE VIRTUAL TABLE code_{made.number} USING vec0 (code bit[{8 * made.code_bytes}])"
            )
        return made

    def drop(self, found: Generation) -> None:
        if found.dimensions:
            self.load()
            self._db.execute(
                f"DROP TABLE IF EXISTS vector_{found.number}; DROP TABLE IF EXISTS code_{found.number}"
            )
        self._db.execute(self._db.statement("delete_generation"), (found.number,))

    def write(self, to: Generation, passages: Sequence[tuple[int, bytes, bytes]]) -> None:
        self.load()
        for passage, vector, code in passages:
            self._db.execute(f"INSERT INTO vector_{to.number} (passage, vector) VALUES (?, ?)", (passage, vector))
            self._db.execute(f"INSERT INTO code_{to.number} (rowid, code) VALUES (?, vec_bit(?))", (passage, code))

    def delete(self, found: Generation, passages: Sequence[tuple[int]]) -> None:
        self.load()
        self.before_passages_go([found], passages)
        self._db.executemany(f"DELETE FROM vector_{found.number} WHERE passage = ?", passages)

    def before_org_goes(self, org: str) -> None:
        if found := self.generations():
            passages = self._db.execute(self._db.statement("passages_of_org"), (org,)).fetchall()
            self.before_passages_go(found, passages)

    def before_passages_go(self, found: Iterable[Generation], passages: Sequence[tuple[int]]) -> None:
        """A virtual table has no foreign key that would take its rows along."""
        for each in found:
            self._db.executemany(f"DELETE FROM code_{each.number} WHERE rowid = ?", passages)
