"""Reading memories: by id, by time, page by page."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from satchel.errors import AmbiguousIdError, UnknownIdError
from satchel.model.filters import Filter
from satchel.model.ids import normalise_prefix, unique_prefix
from satchel.model.memory import Change, Memory, Relation, Scope
from satchel.store.contract import Changed, Record, Stats
from satchel.store.sql.database import Database, Dialect
from satchel.store.sql.rows import from_micros, memory_from_row, micros, read_change, read_relation
from satchel.store.sql.where import filter_sql, scope_sql

__all__ = [
    "around",
    "changed",
    "history",
    "memory_in_scope",
    "records",
    "related_since",
    "relation_pages",
    "relations",
    "resolve",
    "select",
    "select_ids",
    "short_ids",
    "stats",
]

PAGE = 500

Reader = Callable[[], AbstractContextManager[Database]]


def resolve(db: Database, scope: Scope, prefix: str) -> str:
    start = normalise_prefix(prefix)
    condition, values = scope_sql(db.dialect, scope, indexed=False)
    rows = db.execute(db.statement("ids_with_prefix", where=condition), (start, start + "g", *values, 4)).fetchall()
    if not rows:
        raise UnknownIdError(f"no memory has the id {prefix!r} here")
    if len(rows) > 1:
        some = ", ".join(str(row[0]) for row in rows[:3]) + (", …" if len(rows) > 3 else "")
        raise AmbiguousIdError(f"several memories have ids that start with {prefix!r}: {some}")
    return str(rows[0][0])


def short_ids(db: Database, ids: Sequence[str]) -> list[str]:
    sql = db.statement("id_neighbours")
    return [unique_prefix(each, *db.execute(sql, (each,)).get) for each in ids]


def memory_in_scope(db: Database, scope: Scope, identifier: str) -> Memory:
    condition, values = scope_sql(db.dialect, scope, indexed=False)
    row = db.execute(db.statement("memory_in_scope", where=condition), (identifier, *values)).fetchone()
    if row is None:
        raise UnknownIdError(f"no memory has the id {identifier!r} here")
    return memory_from_row(row)


def select(db: Database, where: Filter, *, limit: int) -> list[Memory]:
    condition, values = filter_sql(db.dialect, where)
    rows = db.execute(db.statement("newest", where=condition), (*values, limit))
    return [memory_from_row(row) for row in rows]


def select_ids(db: Database, where: Filter) -> list[str]:
    condition, values = filter_sql(db.dialect, where)
    return [row[0] for row in db.execute(db.statement("matching_ids", where=condition), values)]


def around(db: Database, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
    condition, values = filter_sql(db.dialect, where)
    place = (micros(memory.at), memory.id)
    earlier = db.execute(db.statement("before", where=condition), (*values, *place, before))
    found = [memory_from_row(row) for row in earlier]
    found.reverse()
    later = db.execute(db.statement("after", where=condition), (*values, *place, after))
    found.extend(memory_from_row(row) for row in later)
    return found


def relations(db: Database, scope: Scope, ids: Sequence[str]) -> list[Relation]:
    source, values = scope_sql(db.dialect, scope, indexed=False)
    target, _ = scope_sql(db.dialect, scope, "o", indexed=False)
    sql = db.statement("relations_of", where=source, where_target=target)
    rows = {row: None for each in ids for row in db.execute(sql, (scope.org, each, each, *values, *values))}
    return [read_relation(row) for row in rows]


def history(db: Database, org: str, identifier: str) -> list[Change]:
    return [read_change(row) for row in db.execute(db.statement("history_of"), (org, identifier))]


def changed(db: Database, where: Filter, since: datetime) -> list[Changed]:
    # Only tested: the way in is the index on changes, not the one on projects.
    condition, values = filter_sql(db.dialect, where, indexed=False)
    values = [where.scope.org, micros(since), *values]
    rows = db.execute(db.statement("changed_memories", where=condition), values).fetchall()
    if not rows:
        return []
    told: dict[str, list[Change]] = {}
    for row in db.execute(db.statement("history_of_changed", where=condition), values):
        told.setdefault(row[0], []).append(read_change(row))
    return [Changed(row[-1], memory_from_row(row), tuple(told.get(row[0], ()))) for row in rows]


def related_since(db: Database, org: str, since: datetime) -> bool:
    return bool(db.execute(db.statement("related_since"), (org, micros(since))).get)


def stats(db: Database, where: Filter, moment: datetime) -> Stats:
    condition, values = filter_sql(db.dialect, where)
    now = micros(moment)
    count, tokens, oldest, newest, current = db.execute(
        db.statement("totals", where=condition), (now, now, *values)
    ).get

    def by(column: str) -> dict[str, int]:
        rows: list[Any] = db.execute(db.statement("count_by", column=column, where=condition), values).fetchall()
        return dict(rows)

    return Stats(
        memories=count,
        current=current,
        tokens=tokens,
        relations=_count_relations(db, where),
        by_kind=by("kind"),
        by_tier=by("tier"),
        by_status=by("status"),
        by_project=by("project"),
        oldest=None if oldest is None else from_micros(oldest),
        newest=None if newest is None else from_micros(newest),
    )


def _count_relations(db: Database, where: Filter) -> int:
    source, values = filter_sql(db.dialect, where, indexed=False)
    target, _ = filter_sql(db.dialect, where, "o", indexed=False)
    sql = db.statement("relations_inside", where=source, where_target=target)
    return int(db.execute(sql, (where.scope.org, *values, *values)).get)


def records(dialect: Dialect, reader: Reader, where: Filter) -> Iterator[Record]:
    """Pages by id, each its own short transaction, so that no log grows while someone exports."""
    condition, values = filter_sql(dialect, where, indexed=False)
    last = ""
    while True:
        with reader() as db:
            sql = db.statement("page_by_id", where=condition)
            page = [memory_from_row(row) for row in db.execute(sql, (*values, last, PAGE))]
            found = [
                Record(memory=memory, history=tuple(history(db, memory.scope.org, memory.id))) for memory in page
            ]
        yield from found
        if len(page) < PAGE:
            return
        last = page[-1].id


def relation_pages(dialect: Dialect, reader: Reader, where: Filter) -> Iterator[Relation]:
    condition, values = filter_sql(dialect, where, indexed=False)
    target, _ = filter_sql(dialect, where, alias="o")
    last: tuple[Any, ...] = ("", "", "")
    while True:
        with reader() as db:
            sql = db.statement("relations_between", where=condition, where_target=target)
            page = db.execute(sql, (*values, *last, *values, PAGE)).fetchall()
        yield from map(read_relation, page)
        if len(page) < PAGE:
            return
        last = page[-1][:3]
