"""What ranking reads, a table at a time: what belongs together is put together here."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from satchel.store.contract import Filter, Link, Match, Trace, TracedPassage
from satchel.store.postgres.connection import PostgresConnection
from satchel.store.postgres.vectors import bits
from satchel.store.sql.where import filter_sql, narrows

__all__ = ["links", "nearest", "traces"]

# How many more memories are looked for than are needed, since a filter may leave some out.
SPARE = 40


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
    """Exact: by the signs of all passages that a filter leaves."""
    current = db.vectors.generation()
    # Another process may have changed the embedder since the question was embedded.
    if current is None or not current.dimensions or len(code) != current.code_bytes:
        return []
    condition, values = filter_sql(db.dialect, where)
    if not narrows(where):
        sql = db.statement("nearest", **current.parts)
        rows = db.execute(sql, (bits(code), limit + SPARE)).fetchall()
        sql = db.statement("seqs_among", where=condition)
        passing = {row[0] for row in db.execute(sql, ([row[0] for row in rows], *values))}
        left = [row for row in rows if row[0] in passing]
        if len(left) >= limit or len(rows) < limit + SPARE:
            return [Match(row[0], -float(row[1])) for row in left[:limit]]
    seqs = [row[0] for row in db.execute(db.statement("matching_seqs", where=condition), values)]
    rows = db.execute(db.statement("nearest_among", **current.parts), (bits(code), seqs, limit)).fetchall()
    return [Match(key, -float(distance)) for key, distance in rows]
