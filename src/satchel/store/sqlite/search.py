"""Full-text and vector search in SQLite: FTS5 and sqlite-vec."""

from collections.abc import Sequence
from typing import Any

from satchel.model.filters import Filter
from satchel.store.contract import Match
from satchel.store.database import Generation
from satchel.store.rows import filter_sql, narrows
from satchel.store.search import Search
from satchel.store.sqlite.connection import SqliteConnection

__all__ = [
    "SqliteSearch",
    "match_expression",
]


# How many matches are ranked before the filter is tried on them: enough for most filters, and the
# sort stays small.
HEADROOM = 4
SPARE_MATCHES = 50
# A term is a stem, and may be some letters shorter than the word it was.
LONGER_BY = 4

# A quote would end the string, and a NUL byte the whole expression.
_NOT_QUOTABLE = {ord('"'): " ", 0: " "}
_LAST = "\U0010ffff"


class SqliteSearch(Search[SqliteConnection]):
    """Search with FTS5 and sqlite-vec."""

    def matches(self, where: Filter, terms: Sequence[str], *, limit: int) -> list[Match]:
        if not terms:
            return []
        match = match_expression(terms)
        rows: list[Any] = []
        with self._read(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            if not narrows(where):
                depth = limit + max(SPARE_MATCHES, min(limit, 100) * (HEADROOM - 1))
                sql = db.statement("search_best", where=condition)
                rows = db.execute(sql, values | {"match": match, "depth": depth}).fetchall()
            if not _is_complete(rows, limit=limit):
                sql = db.statement("search_filtered", where=condition)
                rows = db.execute(sql, values | {"match": match, "limit": limit}).fetchall()
        return [Match(row[0], -row[1]) for row in rows[:limit]]

    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        with self._read(self.org) as db:
            sql = db.statement("word_frequency")
            found = [db.execute(sql, {"term": term}).fetchone() for term in terms]
            return db.execute(db.statement("newest_seq")).get, [row[0] if row else 0 for row in found]

    def words_like(self, word: str, *, start: str) -> list[str]:
        lengths = {"shortest": max(1, len(word) - LONGER_BY), "longest": len(word) + LONGER_BY}
        with self._read(self.org) as db:
            sql = db.statement("words_between")
            rows: list[Any] = db.execute(sql, lengths | {"start": start, "stop": start + _LAST}).fetchall()
        return [row[0] for row in rows]

    def nearest(self, where: Filter, code: bytes, *, limit: int) -> list[Match]:
        with self._snapshot(where.scope.org) as db:
            current = db.vectors.generation()
            # Another process may have changed the embedder since the question was embedded.
            if current is None or not current.dimensions or len(code) != current.code_bytes:
                return []
            db.vectors.load()
            return _nearest(db, current, where, code, limit)


def match_expression(terms: Sequence[str]) -> str:
    """Any of the terms; quoted, so that nothing in them is query syntax."""
    return " OR ".join('"' + term.translate(_NOT_QUOTABLE) + '"' for term in terms)


def _is_complete(rows: list[Any], *, limit: int) -> bool:
    # What was not ranked may tie with the last row, so that row must not be needed.
    return len(rows) > limit and rows[limit - 1][1] < rows[-1][1]


# The memories whose vectors are near a question's.


# sqlite-vec takes time for each of the k it looks for, and no more than 4,096 of them.
MOST_NEAREST = 1000
# How many more passages are looked for than memories are needed, since several may belong to one.
SPARE_PASSAGES = 16
WIDER = 8


def _nearest(db: SqliteConnection, current: Generation, where: Filter, code: bytes, limit: int) -> list[Match]:
    condition, values = filter_sql(db.dialect, where)
    wide = min(limit + SPARE_PASSAGES, MOST_NEAREST)
    rows: list[Any] = []
    if not narrows(where):
        sql = db.statement("nearest", where=condition, **current.parts)
        rows = db.execute(sql, values | {"code": code, "limit": wide}).fetchall()
    sql = db.statement("nearest_filtered", where=condition, **current.parts)
    while len(rows) < limit:
        rows = db.execute(sql, values | {"code": code, "limit": wide}).fetchall()
        if wide == MOST_NEAREST or sum(int(row[2] or 0) for row in rows) < wide:
            break
        # A few long memories have taken all the places.
        wide = min(wide * WIDER, MOST_NEAREST)
    return [Match(key, -float(distance)) for key, distance, _ in rows[:limit]]
