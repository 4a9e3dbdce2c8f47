"""What ranking reads: traces of memories, and their neighbours in time and by relations."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from satchel.model.filters import Filter
from satchel.model.memory import Memory
from satchel.store.contract import Link, Trace, TracedPassage
from satchel.store.sql.database import Database
from satchel.store.sql.rows import memory_from_row, micros
from satchel.store.sql.where import filter_sql

__all__ = ["beside", "between", "count", "links", "memories", "traces"]

# Where the columns of the passage begin.
_PASSAGE = 12
_AMONG_KEYS = "json_each(?) j CROSS JOIN memory m ON m.seq = j.value"


def count(db: Database, where: Filter, most: int) -> int:
    condition, values = filter_sql(db.dialect, where)
    return int(db.execute(db.statement("count_some", where=condition), (*values, most)).get)


def traces(db: Database, where: Filter, keys: Sequence[int] | None) -> list[Trace]:
    condition, values = filter_sql(db.dialect, where, indexed=keys is None)
    current = db.vectors.generation()
    memories = "memory m" if keys is None else _AMONG_KEYS
    if current is None or not current.dimensions:
        sql = db.statement("traces", memories=memories, where=condition)
    else:
        sql = db.statement("traces_with_vectors", memories=memories, where=condition, **current.parts)
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


def memories(db: Database, keys: Sequence[int]) -> dict[int, Memory]:
    sql = db.statement("memories_by_seq")
    found = {row[-1]: memory_from_row(row) for row in db.execute(sql, (_json(keys),))}
    return {key: found[key] for key in keys if key in found}


def between(db: Database, where: Filter, start: datetime, end: datetime, *, limit: int) -> list[int]:
    condition, values = filter_sql(db.dialect, where)
    sql = db.statement("seqs_between", where=condition)
    return [row[0] for row in db.execute(sql, (*values, micros(start), micros(end), limit))]


def beside(db: Database, near: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
    # Only tested: the way in is the index on sessions or documents, not the one on projects.
    condition, values = filter_sql(db.dialect, where, indexed=False)
    return [_run(db, trace, where.scope.org, condition, values, reach) for trace in near]


def _run(db: Database, trace: Trace, org: str, condition: str, values: Sequence[Any], reach: int) -> list[int]:
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
        [row[0] for row in db.execute(db.statement(name, where=f"{condition} AND {same}"), bounds)]
        for name in ("seqs_before", "seqs_after")
    )
    return [*reversed(earlier), trace.key, *later]


def links(db: Database, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
    condition, values = filter_sql(db.dialect, where, indexed=False)
    return list(_links(db, _json(keys), condition, values, limit))


def _links(db: Database, keys: str, condition: str, values: Sequence[Any], limit: int) -> Iterator[Link]:
    for near, far, outgoing in (("source", "target", True), ("target", "source", False)):
        sql = db.statement("linked", near=near, far=far, where=condition)
        for key, origin, kind, strength in db.execute(sql, (keys, *values, limit)):
            yield Link(origin, key, kind, strength, outgoing)


def _json(keys: Sequence[int]) -> str:
    return msgspec.json.encode(list(keys)).decode()
