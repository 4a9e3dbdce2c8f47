"""What ranking reads, a table at a time: what belongs together is put together here."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from satchel.model.filters import Filter
from satchel.store.contract import Link, Match, Trace, TracedPassage
from satchel.store.postgres import hnsw
from satchel.store.postgres.connection import PostgresConnection
from satchel.store.postgres.vectors import bits
from satchel.store.sql.vectors import Generation
from satchel.store.sql.where import filter_sql, narrows

__all__ = ["links", "nearest", "traces"]

# How many more memories are looked for than are needed, since a filter may leave some out.
SPARE = 40
WIDER = 8
# About how many passages a memory has at most, where they are many.
PASSAGES = 10


def traces(db: PostgresConnection, where: Filter, keys: Sequence[int] | None) -> list[Trace]:
    condition, values = filter_sql(db.dialect, where)
    if keys is not None:
        condition, values = f"m.seq = ANY (?::bigint[]) AND {condition}", [list(keys), *values]
    rows = db.execute(db.statement("traced_memories", where=condition), values).fetchall()
    seqs = [row[0] for row in rows]
    uses = dict(db.execute(db.statement("traced_uses"), (seqs,)).fetchall())
    passages = _passages(db, seqs)
    # A memory has passages, unless it is being written.
    return [
        Trace(*row, uses.get(row[0], 0), tuple(found))  # type: ignore[call-arg]
        for row in rows
        if (found := passages.get(row[0]))
    ]


def _passages(db: PostgresConnection, seqs: list[int]) -> dict[int, list[TracedPassage]]:
    current = db.vectors.generation()
    vectors: dict[tuple[int, int], bytes] = {}
    if current is not None and current.dimensions:
        for memory, place, vector in db.execute(db.statement("traced_vectors", **current.parts), (seqs,)):
            vectors[memory, place] = vector
    found: dict[int, list[TracedPassage]] = defaultdict(list)
    for memory, start, end, flags, codes in db.execute(db.statement("traced_passages"), (seqs,)):
        before = found[memory]
        before.append(TracedPassage(start, end, flags, codes, vectors.get((memory, len(before)))))
    return found


def links(db: PostgresConnection, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
    condition, values = filter_sql(db.dialect, where)
    origins = {id: seq for seq, id in db.execute(db.statement("ids_of_seqs"), (list(keys),))}

    def seen(near: str, far: str, *, outgoing: bool) -> Iterator[Link]:
        rows: list[Any] = db.execute(db.statement("relations_at", near=near, far=far), (list(origins),)).fetchall()
        sql = db.statement("seqs_of_ids", where=condition)
        others = dict(db.execute(sql, (list({row[1] for row in rows}), *values)).fetchall()) if rows else {}
        for origin, other, kind, strength in rows:
            if other in others:
                yield Link(origins[origin], others[other], kind, strength, outgoing)

    def in_order(found: Iterator[Link]) -> list[Link]:
        return sorted(found, key=lambda link: (link.key, link.origin, link.kind))[:limit]

    outgoing = in_order(seen("source", "target", outgoing=True))
    return outgoing + in_order(seen("target", "source", outgoing=False))


def nearest(db: PostgresConnection, where: Filter, code: bytes, *, limit: int) -> list[Match]:
    """Exact, by the signs of all passages that a filter leaves, but for a large tenant that has an index."""
    current = db.vectors.generation()
    # Another process may have changed the embedder since the question was embedded.
    if current is None or not current.dimensions or len(code) != current.code_bytes:
        return []
    condition, values = filter_sql(db.dialect, where)
    if not narrows(where):
        # Some of what is near may no longer hold.
        wide = limit + SPARE
        found = _by_memory(partial(_of_all, db, where.scope.org, current, bits(code)), wide)
        sql = db.statement("seqs_among", where=condition)
        passing = {row[0] for row in db.execute(sql, ([match.key for match in found], *values))}
        left = [match for match in found if match.key in passing]
        if len(left) >= limit or len(found) < wide:
            return left[:limit]
    seqs = [row[0] for row in db.execute(db.statement("matching_seqs", where=condition), values)]
    sql = db.statement("nearest_among", **current.parts)
    return _by_memory(lambda most: db.execute(sql, (bits(code), seqs, most)).fetchall(), limit)


def _by_memory(ask: Callable[[int], list[Any]], limit: int) -> list[Match]:
    """The nearest passage of each memory; several may belong to one, and then more are asked for."""
    wide = limit + SPARE
    while True:
        rows = ask(wide)
        nearest: dict[int, float] = {}
        for key, distance in rows:
            nearest.setdefault(key, float(distance))
        if len(nearest) >= limit or len(rows) < wide:
            found = sorted(nearest.items(), key=lambda item: (item[1], item[0]))
            return [Match(key, -distance) for key, distance in found[:limit]]
        wide *= WIDER


def _of_all(db: PostgresConnection, org: str, current: Generation, code: str, limit: int) -> list[Any]:
    memories, _ = db.execute(db.statement("tenant_counts")).fetchone() or (0, 0)
    if memories < hnsw.LARGE // PASSAGES or not hnsw.ready(db, org, current):
        return db.execute(db.statement("nearest", **current.parts), (code, limit)).fetchall()
    db.execute(db.statement("search_wider"))
    size = str(8 * current.code_bytes)
    sql = db.statement("nearest_by_index", bits=size, tenant=db.literal(org), **current.parts)
    return db.execute(sql, (code, limit)).fetchall()
