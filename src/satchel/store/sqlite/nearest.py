"""The memories whose vectors are near a question's."""

from typing import Any

from satchel.model.filters import Filter
from satchel.store.contract import Match
from satchel.store.sql.where import filter_sql, narrows
from satchel.store.sqlite.connection import SqliteConnection

__all__ = ["nearest"]

# sqlite-vec takes time for each of the k it looks for, and no more than 4,096 of them.
MOST_NEAREST = 1000
# How many more passages are looked for than memories are needed, since several may belong to one.
SPARE = 16
WIDER = 8


def nearest(db: SqliteConnection, where: Filter, code: bytes, *, limit: int) -> list[Match]:
    current = db.vectors.generation()
    # Another process may have changed the embedder since the question was embedded.
    if current is None or not current.dimensions or len(code) != current.code_bytes:
        return []
    db.vectors.load()
    condition, values = filter_sql(db.dialect, where)
    wide = min(limit + SPARE, MOST_NEAREST)
    rows: list[Any] = []
    if not narrows(where):
        sql = db.statement("nearest", where=condition, **current.parts)
        rows = _all(db, sql, code, wide, *values)
    sql = db.statement("nearest_filtered", where=condition, **current.parts)
    while len(rows) < limit:
        rows = _all(db, sql, code, wide, *values)
        if wide == MOST_NEAREST or sum(row[2] for row in rows) < wide:
            break
        # A few long memories have taken all the places.
        wide = min(wide * WIDER, MOST_NEAREST)
    return [Match(key, -float(distance)) for key, distance, _ in rows[:limit]]


def _all(db: SqliteConnection, sql: str, *values: Any) -> list[Any]:
    return db.execute(sql, values).fetchall()
