"""The index beside the full-text one: the passages of each memory, and their vectors."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import apsw

from satchel.memory import Memory
from satchel.parts import Part, parts_of
from satchel.store.contract import Embedded, Embedding
from satchel.store.sqlite.rows import memory_from_row
from satchel.store.sqlite.statements import statement
from satchel.store.sqlite.vectors import (
    Generation,
    create_generation,
    delete_codes,
    delete_vectors,
    generation,
    generations,
    load_vectors,
    write_vector,
)

__all__ = ["PLACE_BITS", "Index", "adopt", "backlog", "build", "embed_backlog", "embedding", "passage_number"]

PLACE_BITS = 12
PAGE = 1000


def passage_number(memory: int, place: int) -> int:
    return (memory << PLACE_BITS) + place


def _bounds(memory: int) -> tuple[int, int]:
    return passage_number(memory, 0), passage_number(memory + 1, 0)


class Index:
    """What one write does to the index, with the vectors that were made before it began."""

    def __init__(self, db: apsw.Connection, embedded: Embedded | None = None) -> None:
        self._db = db
        if embedded is not None:
            adopt(db, Embedding(embedded.name, embedded.dimensions))
        self._current = generation(db)
        self._vectors = embedded.vectors if embedded is not None and self.holds(embedded) else {}
        self._parts = embedded.parts if embedded is not None else {}

    def holds(self, embedded: Embedded) -> bool:
        """Whether these vectors can be compared with those that are here."""
        return self._current is not None and self._current.embedding == (embedded.name, embedded.dimensions)

    def enter(self, seq: int, memory: Memory) -> None:
        """Index a new memory."""
        self._enter(seq, self._parts.get(memory.id) or parts_of(memory))

    def replace(self, seq: int, old: Memory, new: Memory) -> None:
        """Index a memory again, after its words changed; the tags alone change nothing that is embedded."""
        parts = parts_of(new)
        if (old.title, old.text) == (new.title, new.text):
            for place, part in enumerate(parts):
                self._db.execute(statement("update_codes"), (part.codes, passage_number(seq, place)))
        else:
            self.remove(seq)
            self._enter(seq, parts)

    def remake(self, seq: int, memory: Memory) -> None:
        """Index a memory again after a fault, also where vectors have outlived their passages."""
        for each in self._with_codes:
            sql = statement("vectors_of", vectors=f"vector_{each.number}")
            delete_vectors(self._db, each, _rows(self._db, sql, *_bounds(seq)))
        self.remove(seq)
        self._enter(seq, parts_of(memory))

    def remove(self, seq: int) -> None:
        """Take out a memory's passages, and with them their vectors."""
        if self._with_codes:
            delete_codes(self._db, self._with_codes, _rows(self._db, statement("passages_of"), *_bounds(seq)))
        self._db.execute(statement("delete_passages"), _bounds(seq))
        self._db.execute(statement("delete_backlog"), (seq,))

    def make_good(self, seq: int) -> bool:
        """Write the vectors a memory waits for; whether it is whole now."""
        row = self._db.execute(statement("waiting_memory"), (seq,)).fetchone()
        if row is None or self._current is None:
            return False
        if self._current.dimensions:
            # None are there, unless a fault was mended.
            delete_vectors(self._db, self._current, _rows(self._db, statement("passages_of"), *_bounds(seq)))
        if not self._embed(seq, parts_of(memory_from_row(row))):
            return False
        self._db.execute(statement("delete_backlog"), (seq,))
        return True

    @cached_property
    def _with_codes(self) -> list[Generation]:
        return generations(self._db)

    def _enter(self, seq: int, parts: Sequence[Part]) -> None:
        for place, part in enumerate(parts):
            number = passage_number(seq, place)
            self._db.execute(statement("insert_passage"), (number, part.start, part.end, part.flags, part.codes))
        if not self._embed(seq, parts):
            self._db.execute(statement("insert_backlog"), (seq,))

    def _embed(self, seq: int, parts: Sequence[Part]) -> bool:
        """Whether nothing is left to embed; all of its vectors are written or none, so none is written twice."""
        if self._current is None or not self._current.dimensions:
            return self._current is not None
        vectors = [found for part in parts if (found := self._vectors.get(part.text)) is not None]
        if len(vectors) < len(parts):
            return False
        load_vectors(self._db)
        for place, vector in enumerate(vectors):
            write_vector(self._db, self._current, passage_number(seq, place), *vector)
        return True


def embedding(db: apsw.Connection) -> Embedding | None:
    found = generation(db)
    return None if found is None else found.embedding


def adopt(db: apsw.Connection, wanted: Embedding) -> None:
    """Record the embedder of a store that has none yet."""
    if generation(db) is None:
        create_generation(db, wanted, state="current")
        if not wanted.dimensions:
            db.execute(statement("clear_backlog"))


def build(db: apsw.Connection) -> None:
    """The passages of every memory of a store that had none; their vectors wait in the backlog."""
    last = -1
    while page := _rows(db, statement("memories_after"), last, PAGE):
        for row in page:
            last = row[-1]
            for place, part in enumerate(parts_of(memory_from_row(row))):
                number = passage_number(last, place)
                db.execute(statement("insert_passage"), (number, part.start, part.end, part.flags, part.codes))


def backlog(db: apsw.Connection, limit: int) -> list[tuple[int, Memory]]:
    return [(row[-1], memory_from_row(row)) for row in _rows(db, statement("backlog"), limit)]


def embed_backlog(db: apsw.Connection, embedded: Embedded, seqs: Iterable[int]) -> int:
    """Write the vectors of memories that waited for them; how many are whole now."""
    index = Index(db, embedded)
    return sum(index.make_good(seq) for seq in seqs) if index.holds(embedded) else 0


def _rows(db: apsw.Connection, sql: str, *values: int) -> list[Any]:
    return db.execute(sql, values).fetchall()
