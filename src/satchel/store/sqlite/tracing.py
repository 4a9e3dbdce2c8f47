"""What ranking reads: traces of memories, their neighbours, and those whose vectors are near."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import apsw
import msgspec

from satchel.memory import Memory
from satchel.store.contract import Filter, Link, Match, Trace, TracedPassage
from satchel.store.sqlite.rows import memory_from_row, micros
from satchel.store.sqlite.statements import statement
from satchel.store.sqlite.vectors import generation, load_vectors
from satchel.store.sqlite.where import UNINDEXED, filter_sql, narrows

__all__ = ["beside", "between", "count", "links", "memories", "nearest", "traces"]

# sqlite-vec takes time for each of the k it looks for, and no more than 4,096 of them.
MOST_NEAREST = 1000
# How many more passages are looked for than memories are needed, since several may belong to one.
SPARE = 16
WIDER = 8

# Where the columns of the passage begin.
_PASSAGE = 12
_IN_KEYS = "json_each(?) j CROSS JOIN memory m ON m.seq = j.value"


def count(db: apsw.Connection, where: Filter, most: int) -> int:
    condition, values = filter_sql(where)
    return int(db.execute(statement("count_some", where=condition), (*values, most)).get)


def traces(db: apsw.Connection, where: Filter, keys: Sequence[int] | None) -> list[Trace]:
    condition, values = filter_sql(where, "m" if keys is None else UNINDEXED)
    current = generation(db)
    embedded = current is not None and current.dimensions
    sql = statement(
        "traces",
        memories="memory m" if keys is None else _IN_KEYS,
        vector="v.vector" if embedded else "NULL",
        vectors=f"LEFT JOIN vector_{current.number} v ON v.passage = p.seq" if current and embedded else "",
        where=condition,
    )
    rows = db.execute(sql, values if keys is None else (_json(keys), *values))
    return list(_traced(rows))


def _traced(rows: Iterable[Any]) -> Iterator[Trace]:
    """Rows of one memory stand together, one for each passage."""
    last: tuple[Any, ...] = ()
    passages: list[TracedPassage] = []
    for row in rows:
        if last and row[0] != last[0]:
            yield Trace._make((*last, tuple(passages)))
            passages = []
        last = row[:_PASSAGE]
        passages.append(TracedPassage(*row[_PASSAGE:]))
    if last:
        yield Trace._make((*last, tuple(passages)))


def memories(db: apsw.Connection, keys: Sequence[int]) -> dict[int, Memory]:
    sql = statement("memory_by_seq")
    found = ((key, db.execute(sql, (key,)).fetchone()) for key in keys)
    return {key: memory_from_row(row) for key, row in found if row is not None}


def nearest(db: apsw.Connection, where: Filter, code: bytes, *, limit: int) -> list[Match]:
    current = generation(db)
    # Another process may have changed the embedder since the question was embedded.
    if current is None or not current.dimensions or len(code) != current.code_bytes:
        return []
    load_vectors(db)
    condition, values = filter_sql(where)
    codes = f"code_{current.number}"
    wide = min(limit + SPARE, MOST_NEAREST)
    rows: list[Any] = []
    if not narrows(where):
        sql = statement("nearest", codes=codes, where=condition)
        rows = _all(db, sql, code, wide, *values)
    sql = statement("nearest_filtered", codes=codes, where=condition)
    while len(rows) < limit:
        rows = _all(db, sql, code, wide, *values)
        if wide == MOST_NEAREST or sum(row[2] for row in rows) < wide:
            break
        # A few long memories have taken all the places.
        wide = min(wide * WIDER, MOST_NEAREST)
    return [Match(key, -float(distance)) for key, distance, _ in rows[:limit]]


def between(db: apsw.Connection, where: Filter, start: datetime, end: datetime, *, limit: int) -> list[int]:
    condition, values = filter_sql(where)
    sql = statement("seqs_between", where=condition)
    return [row[0] for row in db.execute(sql, (*values, micros(start), micros(end), limit))]


def beside(db: apsw.Connection, near: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
    # Only tested: the way in is the index on sessions or documents, not the one on projects.
    condition, values = filter_sql(where, UNINDEXED)
    return [_run(db, trace, where.scope.org, condition, values, reach) for trace in near]


def _run(
    db: apsw.Connection, trace: Trace, org: str, condition: str, values: Sequence[Any], reach: int
) -> list[int]:
    if trace.thread is None:
        return [trace.key]
    kind, *place = msgspec.json.decode(trace.thread)
    same = "m.org = ? AND +m.project = ? AND +m.user = ? AND +m.agent = ? AND "
    same += (
        "m.session = ? AND m.session <> ''"
        if kind == "session"
        else "m.source = ? AND m.source IS NOT NULL AND m.session = ''"
    )
    bounds = (*values, org, *place, trace.at, trace.id, reach)
    earlier, later = (
        [row[0] for row in db.execute(statement(name, where=f"{condition} AND {same}"), bounds)]
        for name in ("seqs_before", "seqs_after")
    )
    return [*reversed(earlier), trace.key, *later]


def links(db: apsw.Connection, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
    condition, values = filter_sql(where, UNINDEXED)
    return list(_links(db, _json(keys), condition, values, limit))


def _links(db: apsw.Connection, keys: str, condition: str, values: Sequence[Any], limit: int) -> Iterator[Link]:
    for near, far, outgoing in (("source", "target", True), ("target", "source", False)):
        sql = statement("linked", near=near, far=far, where=condition)
        for key, origin, kind, strength in db.execute(sql, (keys, *values, limit)):
            yield Link(origin, key, kind, strength, outgoing)


def _all(db: apsw.Connection, sql: str, *values: Any) -> list[Any]:
    return db.execute(sql, values).fetchall()


def _json(keys: Sequence[int]) -> str:
    return msgspec.json.encode(list(keys)).decode()
