"""What anyone can write in thirty lines: FTS5 and sqlite-vec in one file, fused by reciprocal rank."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw
import sqlite_vec

from bench.peers.system import Hit, Memory, System
from bench.peers.vectors import DIMENSIONS, VectorTable

__all__ = ["Adapter"]

DEPTH = 200
# The usual constant of reciprocal rank fusion.
K = 60

SCHEMA = f"""
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS memory (number INTEGER PRIMARY KEY, id TEXT UNIQUE, text TEXT, at TEXT, session TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, content = '', tokenize = 'porter unicode61');
CREATE VIRTUAL TABLE IF NOT EXISTS near USING vec0 (vector float[{DIMENSIONS}]);
"""


class Adapter(System):
    packages = ("apsw", "sqlite-vec")
    setup = (
        f"FTS5 (Porter stems, any word) and sqlite-vec (exact), the {DEPTH} best of each, reciprocal rank fusion"
    )

    def __init__(self, folder: Path, vectors: VectorTable) -> None:
        self._vectors = vectors
        self._db = apsw.Connection(str(folder / "memory.db"))
        self._db.enable_load_extension(True)
        self._db.load_extension(sqlite_vec.loadable_path())
        self._db.execute(SCHEMA).fetchall()

    def ingest(self, memories: Sequence[Memory]) -> None:
        with self._db:
            for memory in memories:
                self._insert(memory)

    def add(self, memory: Memory) -> None:
        with self._db:
            self._insert(memory)

    def _insert(self, memory: Memory) -> None:
        row = (memory.id, memory.searched, memory.at, memory.session)
        self._db.execute("INSERT INTO memory (id, text, at, session) VALUES (?, ?, ?, ?)", row)
        number = self._db.last_insert_rowid()
        self._db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, memory.searched))
        vector = self._vectors.packed(memory.searched)
        self._db.execute("INSERT INTO near (rowid, vector) VALUES (?, ?)", (number, vector))

    def search(self, query: str, limit: int) -> list[Hit]:
        scores: dict[int, float] = {}
        for ranked in (self._by_words(query), self._by_meaning(query)):
            for rank, number in enumerate(ranked, start=1):
                scores[number] = scores.get(number, 0) + 1 / (K + rank)
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:limit]
        return [Hit(*self._row(number), scores[number]) for number in best]

    def _by_words(self, query: str) -> Iterator[int]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query.lower()))
        found = f"SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT {DEPTH}"
        return (row[0] for row in self._db.execute(found, (words,)))

    def _by_meaning(self, query: str) -> Iterator[int]:
        found = f"SELECT rowid FROM near WHERE vector MATCH ? AND k = {DEPTH}"
        return (row[0] for row in self._db.execute(found, (self._vectors.packed(query),)))

    def _row(self, number: int) -> tuple[str, str]:
        found: tuple[str, str] = self._db.execute("SELECT id, text FROM memory WHERE number = ?", (number,)).get
        return found

    def close(self) -> None:
        self._db.close()
