"""The engines below a store, queried without Satchel: one FTS5 query, and one exact scan with sqlite-vec."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import sqlite_vec

from satchel.store.database import Generation
from satchel.store.index import PLACE_BITS
from satchel.store.sqlite.connection import connect
from satchel.store.sqlite.search import match_expression

__all__ = ["BareText", "BareVectors"]

WANTED = 50
PAGE = 10_000

# Sorting by the value of bm25(): sorting by `rank` took 1.5 times as long.
MATCHING = (
    "SELECT rowid, bm25(memory_fts, 4.0, 1.0, 2.0) AS score FROM memory_fts "
    f"WHERE memory_fts MATCH ? ORDER BY score LIMIT {WANTED}"
)
NEAREST = f"SELECT rowid FROM exact WHERE vector MATCH ? AND k = {WANTED}"


class BareText:
    """The store's own full-text index, over a connection with the store's settings."""

    def __init__(self, store: Path) -> None:
        self._db = connect(str(store), readonly=True)

    def ready(self, words: Sequence[str]) -> str:
        """Return an FTS5 expression that matches any of the words."""
        return match_expression(words)

    def ask(self, expression: str) -> list[int]:
        """Return the row ids of the best memories."""
        return [row[0] for row in self._db.execute(MATCHING, (expression,))]

    def refs(self, numbers: Sequence[int]) -> list[str]:
        return _refs(self._db, numbers)

    def close(self) -> None:
        self._db.close()


class BareVectors:
    """The store's vectors as float32 in a vec0 table, in a separate file."""

    def __init__(self, store: Path, file: Path) -> None:
        self._store = connect(str(store), readonly=True)
        made = self._store.vectors.generation()
        if made is None or not made.dimensions:
            raise ValueError(f"{store} has no vectors")
        self.count = _fill(file, self._store, made)
        self._db = connect(str(file), readonly=True)
        _load_vec0(self._db)

    def ready(self, vector: Any) -> bytes:
        return bytes(np.asarray(vector, np.float32).tobytes())

    def ask(self, vector: bytes) -> list[int]:
        """Return the row ids of the memories with the nearest passages."""
        return [row[0] >> PLACE_BITS for row in self._db.execute(NEAREST, (vector,))]

    def refs(self, numbers: Sequence[int]) -> list[str]:
        return _refs(self._store, list(dict.fromkeys(numbers)))

    def close(self) -> None:
        self._db.close()
        self._store.close()


def _load_vec0(db: apsw.Connection) -> None:
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())


def _fill(file: Path, store: apsw.Connection, made: Generation) -> int:
    db = apsw.Connection(str(file))
    _load_vec0(db)
    db.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
    db.execute(f"CREATE VIRTUAL TABLE exact USING vec0 (vector float[{made.dimensions}])")
    count = 0
    with db:
        for numbers, rows in _pages(store, made):
            count += len(numbers)
            db.executemany(
                "INSERT INTO exact (rowid, vector) VALUES (?, ?)",
                zip(numbers, map(np.ndarray.tobytes, rows), strict=True),
            )
    db.close()
    return count


def _pages(store: apsw.Connection, made: Generation) -> Iterator[tuple[list[int], Any]]:
    """Yield passage ids with their vectors, normalised to length 1, so that the nearest are the most similar."""
    found = store.execute(f"SELECT passage, vector FROM vector_{made.number} ORDER BY passage")
    while page := list(itertools.islice(found, PAGE)):
        packed = b"".join(row[1] for row in page)
        rows = np.frombuffer(packed, np.int8).reshape(-1, made.dimensions).astype(np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        yield [row[0] for row in page], rows / np.where(lengths > 0, lengths, 1)


def _refs(db: apsw.Connection, numbers: Sequence[int]) -> list[str]:
    return [db.execute("SELECT ref FROM memory WHERE seq = ?", (number,)).get for number in numbers]
