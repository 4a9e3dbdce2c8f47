"""Vectors of passages in a SQLite store, and their codes in chunks.

A code is the signs of a vector as bits. The nearest vectors are found by comparing all codes, which take an eighth
of the bytes. A chunk has the codes of 128 consecutive memories and is made when the first memory after them is
written, so most writes touch no chunk. Codes of the last memories are made from their vectors when they are read.

Triggers empty a chunk when one of its vectors comes, changes or goes. Until it is made again at the end of the
transaction, or if that fails to happen, its codes are made from the vectors as well.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from satchel.store.contract import Embedding
from satchel.store.database import Generation, VectorTables
from satchel.store.index import PLACE_BITS
from satchel.store.rows import json_array

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Codes", "SqliteVectors", "chunk_of", "signs"]

# A chunk has the codes of 128 memories. Making them from their vectors takes about a third of a millisecond.
CHUNK_BITS = 7
# Each passage of a chunk by its distance from the first possible one.
_OFFSET = "<u4"
_OFFSET_BYTES = 4

_POSITIVE = bytes(48 + (0 < value < 128) for value in range(256))


def signs(vector: bytes) -> bytes:
    """Return the code of a vector of int8: a bit for each number, set if it is positive, padded to whole bytes."""
    bits = vector.translate(_POSITIVE)
    size = -(-len(bits) // 8)
    return int(bits.ljust(8 * size, b"0"), 2).to_bytes(size) if bits else b""


def chunk_of(memory: int) -> int:
    """Return the number of the chunk that has the codes of a memory."""
    return memory >> CHUNK_BITS


def _first_passage(chunk: int) -> int:
    return chunk << CHUNK_BITS + PLACE_BITS


class Codes(NamedTuple):
    """The codes of passages, in no particular order."""

    memories: "NDArray[np.int64]"
    """Of each passage, the number of its memory."""
    codes: "NDArray[np.uint8]"
    """A row for each passage."""


class SqliteVectors(VectorTables):
    """Vectors in tables `vector_N`, and their codes in chunks in `code_N`."""

    unsettled = False
    """Whether chunks have to be made before the transaction ends."""

    def create(self, embedding: Embedding, *, state: str) -> Generation:
        made = super().create(embedding, state=state)
        if made.dimensions:
            self._db.execute(
                f"CREATE TABLE vector_{made.number} (passage INTEGER PRIMARY KEY "
                "REFERENCES passage (seq) ON DELETE CASCADE, vector BLOB NOT NULL) STRICT"
            )
            self.create_codes(made)
        return made

    def create_codes(self, of: Generation) -> None:
        """Create the table of chunks of a generation, and the triggers that keep it in step with the vectors."""
        self._db.execute(_CODE_TABLE.format(number=of.number, shift=CHUNK_BITS + PLACE_BITS))
        self.unsettled = True

    def drop(self, found: Generation) -> None:
        if found.dimensions:
            self._db.execute(
                f"DROP TABLE IF EXISTS vector_{found.number}; DROP TABLE IF EXISTS code_{found.number}"
            )
        self._db.execute(self._db.statement("delete_generation"), {"generation": found.number})

    def write(self, to: Generation, passages: Sequence[tuple[int, bytes, bytes]]) -> None:
        rows = [{"passage": passage, "vector": vector} for passage, vector, _ in passages]
        self._db.executemany(self._db.statement("insert_vector", **to.parts), rows)
        # The first memory of a chunk completes the one before.
        if any(
            passage >> PLACE_BITS == chunk_of(passage >> PLACE_BITS) << CHUNK_BITS for passage, _, _ in passages
        ):
            self.unsettled = True

    def delete(self, found: Generation, passages: Sequence[tuple[int]]) -> None:
        self._db.executemany(f"DELETE FROM vector_{found.number} WHERE passage = ?", passages)
        self.unsettled = True

    def passages_went(self) -> None:
        self.unsettled = True

    def settle(self) -> None:
        """Make the chunks that are complete and missing or emptied. Call this at the end of a transaction."""
        if self.unsettled:
            for each in self.generations():
                self._settle(each)
            self.unsettled = False

    def _settle(self, found: Generation) -> None:
        last = self._last_chunk(found)
        # The last one would be emptied by the next memory.
        self._db.execute(self._db.statement("delete_chunks", **found.parts), {"chunk": last})
        empty = self._db.execute(self._db.statement("empty_chunks", **found.parts)).fetchall()
        first: int = self._db.execute(self._db.statement("next_chunk", **found.parts)).get
        for chunk in (*(row[0] for row in empty), *range(first, last)):
            passages, codes = self._made(found, chunk)
            values = {"chunk": chunk, "passages": passages, "codes": codes}
            self._db.execute(self._db.statement("put_chunk", **found.parts), values)

    def empty_wrong_chunks(self, found: Generation) -> int:
        """Empty the chunks that differ from the vectors, and return how many."""
        wrong = self.wrong_chunks(found)
        for chunk in wrong:
            self._db.execute(self._db.statement("empty_chunk", **found.parts), {"chunk": chunk})
        self.unsettled = True
        return len(wrong)

    def wrong_chunks(self, found: Generation) -> list[int]:
        """Return the chunks that differ from the vectors."""
        rows = self._db.execute(self._db.statement("chunks", **found.parts)).fetchall()
        return [row[0] for row in rows if row[1] is not None and row[1:] != self._made(found, row[0])]

    def codes(self, found: Generation, memories: Iterable[int] | None = None) -> Codes:
        """Return the codes of all passages, or only of the chunks that have these memories."""
        import numpy as np

        if memories is None:
            chunks: Sequence[int] = range(self._last_chunk(found) + 1)
            rows = self._db.execute(self._db.statement("chunks", **found.parts)).fetchall()
        else:
            chunks = sorted({chunk_of(memory) for memory in memories})
            sql = self._db.statement("chunks_of", **found.parts)
            rows = self._db.execute(sql, {"chunks": json_array(chunks)}).fetchall()
        size = found.code_bytes
        packed = [row for row in rows if row[1] is not None and len(row[2]) * _OFFSET_BYTES == len(row[1]) * size]
        missing = sorted(set(chunks).difference(row[0] for row in packed))
        packed += [(chunk, *self._made(found, chunk)) for chunk in missing]
        starts = np.array([row[0] << CHUNK_BITS for row in packed], np.int64)
        counts = [len(row[1]) // _OFFSET_BYTES for row in packed]
        offsets = np.frombuffer(b"".join([row[1] for row in packed]), _OFFSET) >> PLACE_BITS
        codes = np.frombuffer(b"".join([row[2] for row in packed]), np.uint8)
        return Codes(np.repeat(starts, counts) + offsets, codes.reshape(-1, size))

    def _last_chunk(self, found: Generation) -> int:
        """Return the chunk of the last memory that has vectors; -1 if there is none."""
        newest = self._db.execute(self._db.statement("newest_vector", **found.parts)).get
        return -1 if newest is None else chunk_of(newest >> PLACE_BITS)

    def _made(self, found: Generation, chunk: int) -> tuple[bytes, bytes]:
        """Return the passages and the codes of a chunk, made from the vectors."""
        start = _first_passage(chunk)
        bounds = {"start": start, "stop": _first_passage(chunk + 1), "size": found.dimensions}
        vectors = self._db.execute(self._db.statement("vectors_between", **found.parts), bounds).fetchall()
        offsets = [passage - start for passage, _ in vectors]
        return struct.pack(f"<{len(offsets)}I", *offsets), b"".join([signs(vector) for _, vector in vectors])


# Passages as numbers of 4 bytes, from the first possible one of the chunk, and as many codes; NULL if emptied.
_CODE_TABLE = """
CREATE TABLE code_{number} (chunk INTEGER PRIMARY KEY, passages BLOB, codes BLOB) STRICT;
CREATE INDEX code_{number}_empty ON code_{number} (chunk) WHERE codes IS NULL;
CREATE TRIGGER vector_{number}_added AFTER INSERT ON vector_{number} BEGIN
    UPDATE code_{number} SET passages = NULL, codes = NULL
    WHERE chunk = new.passage >> {shift} AND codes IS NOT NULL;
END;
CREATE TRIGGER vector_{number}_changed AFTER UPDATE ON vector_{number} BEGIN
    UPDATE code_{number} SET passages = NULL, codes = NULL
    WHERE chunk IN (old.passage >> {shift}, new.passage >> {shift}) AND codes IS NOT NULL;
END;
CREATE TRIGGER vector_{number}_removed AFTER DELETE ON vector_{number} BEGIN
    UPDATE code_{number} SET passages = NULL, codes = NULL
    WHERE chunk = old.passage >> {shift} AND codes IS NOT NULL;
END;
"""
