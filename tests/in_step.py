"""Check that the indexes of recall match the memories exactly."""

from collections.abc import Iterator, Sequence

import numpy as np

import satchel
from call_by_call import CallByCall
from satchel.embed.embedder import Embedder, resolve_embedder
from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.recall.indexer import packed
from satchel.store.database import Generation
from satchel.store.index import PLACE_BITS, passage_number
from satchel.store.rows import memory_from_row
from satchel.store.sqlite.store import SqliteStore
from satchel.store.sqlite.vectors import chunk_of
from satchel.text.passages import parts_of


class Letters:
    """A custom embedder: the frequency of each of the first letters of the alphabet."""

    name = "letters"
    dimensions = 20

    def embed(self, texts: Sequence[str]) -> "np.ndarray":
        rows = np.array([[text.count(chr(97 + place)) for place in range(20)] for text in texts], np.float32)
        rows = rows.reshape(len(texts), 20) - 0.5
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def differences(bag: satchel.Satchel) -> list[str]:
    """Return all inconsistencies as text; passages by content, vectors if the embedder is known."""
    if not isinstance(bag._store, SqliteStore):
        return list(_visible_differences(bag))
    with bag._store._read() as db, db:
        return list(_differences(db))


def _visible_differences(bag: satchel.Satchel) -> Iterator[str]:
    """Return the inconsistencies that are visible through the store's interface, without reading its tables."""
    store = CallByCall(bag._store.within(bag.scope.org))
    everything = Filter(scope=Scope(org=bag.scope.org), statuses=())
    traces = store.traces(everything)
    memories = store.memories([trace.key for trace in traces])
    waiting = {key for key, _ in store.backlog(limit=1_000_000)}
    current = store.embedding()
    if len(traces) != store.count(everything, most=1_000_000) or waiting - memories.keys():
        yield "passages or the backlog are not of the memories that are here"
    embedder = None if current is None else _known(current.name)
    for trace in traces:
        parts = parts_of(memories[trace.key])
        if [passage[:4] for passage in trace.passages] != [(*part[:2], part.flags, part.codes) for part in parts]:
            yield f"the passages of {trace.key} are not those of its text"
        vectors = [passage.vector for passage in trace.passages]
        waits = current is None or (bool(current.dimensions) and None in vectors)
        if waits != (trace.key in waiting) or (any(vectors) and None in vectors):
            yield f"{trace.key} waits for its vectors: {trace.key in waiting}, and has them: {vectors}"
        made = packed(embedder.embed([part.text for part in parts])) if embedder is not None else []
        if any(vectors) and made and [vector for vector, _ in made] != vectors:
            yield f"the vectors of {trace.key} are not those of its text"


def _known(name: str) -> Embedder | None:
    if name.startswith("static:"):
        return resolve_embedder("static")
    return Letters() if name == Letters.name else None


def _differences(db) -> Iterator[str]:
    expected, texts = {}, {}
    for row in db.execute(db.statement("memories_after"), (-1, 1_000_000)):
        for place, part in enumerate(parts_of(memory_from_row(row))):
            number = passage_number(row[-1], place)
            expected[number] = (part.start, part.end, part.flags, part.codes)
            texts[number] = part.text
    memories = {row[0] for row in db.execute("SELECT seq FROM memory")}
    stored = {row[0]: row[1:] for row in db.execute("SELECT seq, start, stop, flags, codes FROM passage")}
    if stored != expected:
        yield f"passages: {len(stored)} are stored where {len(expected)} are needed, or they differ"
    waiting = {row[0] for row in db.execute("SELECT memory FROM backlog")}
    if waiting - memories:
        yield "the backlog has memories that are gone"
    current = db.vectors.generation()
    if current is None:
        if waiting != memories:
            yield "without an embedder not all memories wait"
    elif not current.dimensions and waiting:
        yield "memories wait for an embedder that embeds nothing"
    for each in db.vectors.generations():
        vectors = dict(db.execute(f"SELECT passage, vector FROM vector_{each.number}").fetchall())
        yield from _wrong_codes(db, each)
        if vectors.keys() - expected.keys():
            yield f"{each.name} has vectors of passages that are gone"
        if each == current:
            unmet = {number >> PLACE_BITS for number in expected.keys() - vectors.keys()}
            if unmet != waiting:
                yield f"memories without vectors: {sorted(unmet)}, waiting: {sorted(waiting)}"
        yield from _wrong_vectors(each.name, texts, vectors)
    tables = {
        row[0]
        for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'vector_[0-9]*'")
    }
    if tables != {f"vector_{each.number}" for each in db.vectors.generations()}:
        yield f"tables of vectors without a generation: {sorted(tables)}"


def _wrong_codes(db, found: Generation) -> Iterator[str]:
    """Compare the codes that a search reads with those of the vectors. The last chunk is never made."""
    rows = db.execute(f"SELECT passage >> {PLACE_BITS}, vector FROM vector_{found.number}").fetchall()
    signs = [np.packbits(np.frombuffer(vector, np.int8) > 0).tobytes() for _, vector in rows]
    memories, codes = db.vectors.codes(found)
    read = sorted(zip(memories.tolist(), map(bytes, codes), strict=True))
    if read != sorted(zip([row[0] for row in rows], signs, strict=True)):
        yield f"the codes of {found.name} are not those of its vectors"
    made = {row[0] for row in db.execute(f"SELECT chunk FROM code_{found.number}")}
    if made - set(range(chunk_of(max((row[0] for row in rows), default=0)))):
        yield f"{found.name} has chunks that are not complete: {sorted(made)}"


def _wrong_vectors(name: str, texts: dict, vectors: dict) -> Iterator[str]:
    embedder = _known(name)
    numbers = sorted(vectors.keys() & texts.keys())
    if embedder is None or not numbers:
        return
    made = packed(embedder.embed([texts[number] for number in numbers]))
    wrong = [number for number, pair in zip(numbers, made, strict=True) if pair[0] != vectors[number]]
    if wrong:
        yield f"{name}: the vectors of {wrong} are not those of their texts"
