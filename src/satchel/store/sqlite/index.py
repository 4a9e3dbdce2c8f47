"""The index beside the full-text one: the passages of each memory, and their vectors."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet

import apsw

from satchel.memory import Memory
from satchel.parts import Part, parts_of
from satchel.store.contract import Embedded, Embedding
from satchel.store.sqlite.rows import memory_from_row
from satchel.store.sqlite.statements import statement

__all__ = [
    "Index",
    "adopt",
    "backlog",
    "begin_generation",
    "build",
    "embed_backlog",
    "embedding",
    "fill_generation",
    "finish_generation",
    "load_vectors",
    "passage_number",
    "unembedded",
]

PLACE_BITS = 12
MOST_PLACES = 1 << PLACE_BITS
PAGE = 1000

_with_vectors: "WeakSet[apsw.Connection]" = WeakSet()


class Generation(NamedTuple):
    """The vectors of one embedder, as a store records them."""

    number: int
    name: str
    dimensions: int


def passage_number(memory: int, place: int) -> int:
    return (memory << PLACE_BITS) + place


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


def embedding(db: apsw.Connection) -> Embedding | None:
    found = generation(db)
    return None if found is None else Embedding(found.name, found.dimensions)


class Index:
    """What one write does to the index, with the vectors that were made before it began."""

    def __init__(self, db: apsw.Connection, embedded: Embedded | None = None) -> None:
        self._db = db
        self._embedded = embedded
        self._current = generation(db)
        if embedded is not None and self._current is None:
            self._current = _create(db, embedded.name, embedded.dimensions, state="current")
        # Vectors of another embedder cannot be compared with those that are here.
        usable = embedded is not None and self._current is not None and self._current.name == embedded.name
        self._vectors = embedded.vectors if embedded is not None and usable else {}
        self._parts = embedded.parts if embedded is not None else {}
        if self._current is not None and self._current.dimensions:
            load_vectors(db)

    def enter(self, seq: int, memory: Memory) -> None:
        """Index a new memory."""
        parts = self._parts.get(memory.id) or parts_of(memory)
        execute = self._db.execute
        for place, part in enumerate(parts):
            number = passage_number(seq, place)
            execute(statement("insert_passage"), (number, part.start, part.end, part.flags, part.codes))
        if not self.embed(seq, parts):
            execute(statement("insert_backlog"), (seq,))

    def replace(self, seq: int, memory: Memory) -> None:
        """Index a memory again, after its words changed."""
        self.remove(seq)
        self._db.execute(statement("delete_passages"), (passage_number(seq, 0), passage_number(seq + 1, 0)))
        self._parts = {}
        self.enter(seq, memory)

    def remove(self, seq: int) -> None:
        """Take a memory's passages out of what triggers cannot reach."""
        bounds = (passage_number(seq, 0), passage_number(seq + 1, 0))
        numbers = self._db.execute(statement("passages_of"), bounds).fetchall()
        for found in filter(None, (generation(self._db, state) for state in ("current", "building"))):
            if found.dimensions:
                load_vectors(self._db)
                self._db.executemany(f"DELETE FROM code_{found.number} WHERE rowid = ?", numbers)

    def embed(self, seq: int, parts: Sequence[Part]) -> bool:
        """Whether nothing is left to embed."""
        if self._current is None or not self._current.dimensions:
            return self._current is not None
        found = [self._vectors.get(part.text) for part in parts]
        for place, vector in enumerate(found):
            if vector is not None:
                _write_vector(self._db, self._current, passage_number(seq, place), *vector)
        return None not in found


def build(db: apsw.Connection) -> None:
    """The passages of every memory; their vectors wait in the backlog."""
    db.execute("DELETE FROM passage")
    last = -1
    while page := _rows(db, statement("memories_after"), last, PAGE):
        for row in page:
            last = row[-1]
            for place, part in enumerate(parts_of(memory_from_row(row))):
                number = passage_number(last, place)
                db.execute(statement("insert_passage"), (number, part.start, part.end, part.flags, part.codes))


def adopt(db: apsw.Connection, name: str, dimensions: int) -> None:
    """Record the embedder of a store that has none yet."""
    if generation(db) is None:
        _create(db, name, dimensions, state="current")
        if not dimensions:
            db.execute("DELETE FROM backlog")


def backlog(db: apsw.Connection, limit: int) -> list[tuple[int, Memory]]:
    return [(row[-1], memory_from_row(row)) for row in _rows(db, statement("backlog"), limit)]


def embed_backlog(db: apsw.Connection, embedded: Embedded, seqs: Iterable[int]) -> int:
    """Write the vectors of memories that waited for them; how many are whole now."""
    index = Index(db, embedded)
    current = generation(db)
    done = 0
    for seq in seqs:
        row = db.execute(statement("memory_by_seq"), (seq,)).fetchone()
        if row is None or current is None or not current.dimensions:
            continue
        # Some of its passages may have their vectors already.
        index.remove(seq)
        bounds = (passage_number(seq, 0), passage_number(seq + 1, 0))
        db.execute(f"DELETE FROM vector_{current.number} WHERE passage >= ? AND passage < ?", bounds)
        if index.embed(seq, parts_of(memory_from_row(row))):
            db.execute("DELETE FROM backlog WHERE memory = ?", (seq,))
            done += 1
    return done


def begin_generation(db: apsw.Connection, name: str, dimensions: int) -> int:
    """Start vectors of another embedder beside the current ones, or go on with those begun."""
    building = generation(db, "building")
    if building is not None and (building.name, building.dimensions) != (name, dimensions):
        _drop(db, building)
        building = None
    if building is None:
        _create(db, name, dimensions, state="building")
    return int(db.execute("SELECT count(*) FROM passage").get)


def unembedded(db: apsw.Connection, after: int, limit: int) -> list[tuple[int, str]]:
    """Passages that the generation being built does not have, and what is to be embedded of them."""
    building = generation(db, "building")
    if building is None or not building.dimensions:
        return []
    load_vectors(db)
    missing = (
        f"SELECT p.seq FROM passage p WHERE p.seq > ? AND NOT EXISTS "
        f"(SELECT 1 FROM vector_{building.number} v WHERE v.passage = p.seq) ORDER BY p.seq LIMIT ?"
    )
    return list(_texts(db, [row[0] for row in _rows(db, missing, after, limit)]))


def fill_generation(db: apsw.Connection, numbers: Sequence[int], vectors: Sequence[tuple[bytes, bytes]]) -> None:
    building = generation(db, "building")
    if building is None:
        return
    load_vectors(db)
    for number, vector in zip(numbers, vectors, strict=True):
        if db.execute("SELECT 1 FROM passage WHERE seq = ?", (number,)).fetchone():
            _write_vector(db, building, number, *vector)


def finish_generation(db: apsw.Connection) -> bool:
    """Let the new vectors take the old ones' place, if none is missing."""
    building = generation(db, "building")
    if building is None:
        return False
    if building.dimensions and unembedded(db, -1, 1):
        return False
    old = generation(db)
    if old is not None:
        _drop(db, old)
    db.execute("UPDATE embedding SET state = 'current' WHERE generation = ?", (building.number,))
    db.execute("DELETE FROM backlog")
    return True


def _rows(db: apsw.Connection, sql: str, *values: int) -> list[Any]:
    return db.execute(sql, values).fetchall()


def _texts(db: apsw.Connection, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
    parts: list[Part] = []
    known = None
    for number in numbers:
        seq = number >> PLACE_BITS
        if seq != known:
            row = db.execute(statement("memory_by_seq"), (seq,)).fetchone()
            parts, known = (parts_of(memory_from_row(row)) if row else []), seq
        place = number & (MOST_PLACES - 1)
        if place < len(parts):
            yield number, parts[place].text


def _create(db: apsw.Connection, name: str, dimensions: int, *, state: str) -> Generation:
    db.execute("INSERT INTO embedding (name, dimensions, state) VALUES (?, ?, ?)", (name, dimensions, state))
    number = db.last_insert_rowid()
    if dimensions:
        load_vectors(db)
        bits = -(-dimensions // 8) * 8
        db.execute(
            f"CREATE TABLE vector_{number} (passage INTEGER PRIMARY KEY "
            "REFERENCES passage (seq) ON DELETE CASCADE, vector BLOB NOT NULL) STRICT"
        )
        db.execute(f"CREATE VIRTUAL TABLE code_{number} USING vec0 (code bit[{bits}])")
    return Generation(number, name, dimensions)


def _drop(db: apsw.Connection, found: Generation) -> None:
    if found.dimensions:
        load_vectors(db)
        db.execute(f"DROP TABLE vector_{found.number}; DROP TABLE code_{found.number}")
    db.execute("DELETE FROM embedding WHERE generation = ?", (found.number,))


def _write_vector(db: apsw.Connection, to: Generation, number: int, vector: bytes, code: bytes) -> None:
    db.execute(f"INSERT INTO vector_{to.number} (passage, vector) VALUES (?, ?)", (number, vector))
    db.execute(f"INSERT INTO code_{to.number} (rowid, code) VALUES (?, vec_bit(?))", (number, code))
