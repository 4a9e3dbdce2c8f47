"""Vectors of all generations in one table."""

from collections.abc import Iterable, Sequence

from satchel.store.sql.vectors import Generation, Vectors

__all__ = ["PostgresVectors", "bits"]


def bits(code: bytes) -> str:
    """A code as PostgreSQL writes it."""
    return f"{int.from_bytes(code, 'big'):0{8 * len(code)}b}" if code else ""


class PostgresVectors(Vectors):
    """Vectors and codes go with their passages."""

    def drop(self, found: Generation) -> None:
        self._db.execute(self._db.statement("delete_vectors", **found.parts))
        self._db.execute(self._db.statement("delete_generation"), (found.number,))

    def write(self, to: Generation, passages: Sequence[tuple[int, bytes, bytes]]) -> None:
        sql = self._db.statement("write_vector", **to.parts)
        for number, vector, code in passages:
            self._db.execute(sql, (number, vector, bits(code)))

    def delete(self, found: Generation, passages: Sequence[tuple[int]]) -> None:
        self._db.executemany(self._db.statement("delete_vector", **found.parts), passages)

    def before_passages_go(self, found: Iterable[Generation], passages: Sequence[tuple[int]]) -> None:
        """Foreign keys take them along."""
