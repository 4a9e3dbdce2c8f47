"""The index beside the full-text one: the passages of each memory, and their vectors."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from satchel.model.memory import Memory
from satchel.store.contract import Embedded, Embedding
from satchel.store.sql.database import Database
from satchel.store.sql.rows import memory_from_row
from satchel.store.sql.vectors import Generation
from satchel.text.passages import Part, parts_of

__all__ = [
    "PLACE_BITS",
    "Index",
    "adopt",
    "backlog",
    "backlog_size",
    "build",
    "embed_backlog",
    "embedding",
    "passage_number",
]

PLACE_BITS = 12
PAGE = 1000


def passage_number(memory: int, place: int) -> int:
    return (memory << PLACE_BITS) + place


def _bounds(memory: int) -> tuple[int, int]:
    return passage_number(memory, 0), passage_number(memory + 1, 0)


class Index:
    """What one write does to the index, with the vectors that were made before it began."""

    def __init__(self, db: Database, embedded: Embedded | None = None) -> None:
        self._db = db
        if embedded is not None:
            adopt(db, Embedding(embedded.name, embedded.dimensions))
        self._current = db.vectors.generation()
        self._vectors = embedded.vectors if embedded is not None and self.holds(embedded) else {}
        self._parts = embedded.parts if embedded is not None else {}

    def holds(self, embedded: Embedded) -> bool:
        """Whether these vectors can be compared with those that are here."""
        return self._current is not None and self._current.embedding == (embedded.name, embedded.dimensions)

    def enter(self, seq: int, memory: Memory) -> None:
        """Index a new memory."""
        self._enter(seq, self._parts.get(memory.id) or parts_of(memory))

    def replace(self, seq: int, memory: Memory) -> None:
        """Index a memory again, after its title, text or tags changed."""
        self.remove(seq)
        self._enter(seq, parts_of(memory))

    def remake(self, seq: int, memory: Memory) -> None:
        """Index a memory again after a fault, also where vectors have outlived their passages."""
        for each in self._with_codes:
            sql = self._db.statement("vectors_of", **each.parts)
            self._db.vectors.delete(each, _rows(self._db, sql, *_bounds(seq)))
        self.remove(seq)
        self._enter(seq, parts_of(memory))

    def remove(self, seq: int) -> None:
        """Take out a memory's passages, and with them their vectors."""
        if self._with_codes:
            self._db.vectors.before_passages_go(self._with_codes, self._passages(seq))
        self._db.execute(self._db.statement("delete_passages"), _bounds(seq))
        self._db.execute(self._db.statement("delete_backlog"), (seq,))

    def make_good(self, seq: int) -> bool:
        """Write the vectors a memory waits for; whether it is whole now."""
        row = self._db.execute(self._db.statement("waiting_memory"), (seq,)).fetchone()
        if row is None or self._current is None:
            return False
        if self._current.dimensions:
            # None are there, unless a fault was mended.
            self._db.vectors.delete(self._current, self._passages(seq))
        if not self._embed(seq, parts_of(memory_from_row(row))):
            return False
        self._db.execute(self._db.statement("delete_backlog"), (seq,))
        return True

    @cached_property
    def _with_codes(self) -> list[Generation]:
        return self._db.vectors.generations()

    def _passages(self, seq: int) -> list[tuple[int]]:
        return _rows(self._db, self._db.statement("passages_of"), *_bounds(seq))

    def _enter(self, seq: int, parts: Sequence[Part]) -> None:
        write_passages(self._db, seq, parts)
        if not self._embed(seq, parts):
            self._db.execute(self._db.statement("insert_backlog"), (seq,))

    def _embed(self, seq: int, parts: Sequence[Part]) -> bool:
        """Whether nothing is left to embed; all of its vectors are written or none, so none is written twice."""
        if self._current is None or not self._current.dimensions:
            return self._current is not None
        vectors = [found for part in parts if (found := self._vectors.get(part.text)) is not None]
        if len(vectors) < len(parts):
            return False
        numbered = [(passage_number(seq, place), *vector) for place, vector in enumerate(vectors)]
        self._db.vectors.write(self._current, numbered)
        return True


def write_passages(db: Database, seq: int, parts: Sequence[Part]) -> None:
    sql = db.statement("insert_passage")
    for place, part in enumerate(parts):
        db.execute(sql, (passage_number(seq, place), part.start, part.end, part.flags, part.codes))


def embedding(db: Database) -> Embedding | None:
    found = db.vectors.generation()
    return None if found is None else found.embedding


def adopt(db: Database, wanted: Embedding) -> None:
    """Record the embedder of a store that has none yet."""
    if db.vectors.generation() is None:
        db.vectors.create(wanted, state="current")
        if not wanted.dimensions:
            db.execute(db.statement("clear_backlog"))


def build(db: Database) -> None:
    """The passages of every memory of a store that had none; their vectors wait in the backlog."""
    last = -1
    while page := _rows(db, db.statement("memories_after"), last, PAGE):
        for row in page:
            last = row[-1]
            write_passages(db, last, parts_of(memory_from_row(row)))


def backlog(db: Database, limit: int) -> list[tuple[int, Memory]]:
    return [(row[-1], memory_from_row(row)) for row in _rows(db, db.statement("backlog"), limit)]


def backlog_size(db: Database) -> int:
    return int(db.execute(db.statement("count_backlog")).get)


def embed_backlog(db: Database, embedded: Embedded, seqs: Iterable[int]) -> int:
    """Write the vectors of memories that waited for them; how many are whole now."""
    index = Index(db, embedded)
    return sum(index.make_good(seq) for seq in seqs) if index.holds(embedded) else 0


def _rows(db: Database, sql: str, *values: int) -> list[Any]:
    return db.execute(sql, values).fetchall()
