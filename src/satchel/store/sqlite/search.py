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


# How many matches are ranked before the filter is applied: enough for most filters, and cheap to sort.
HEADROOM = 4
SPARE_MATCHES = 50
# Terms are stems, which can be shorter than the word.
LONGER_BY = 4

# A quotation mark would end the string, and NUL the whole expression.
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
            # Another process may have changed the embedder after the query was embedded.
            if current is None or not current.dimensions or len(code) != current.code_bytes:
                return []
            db.vectors.load()
            return _nearest(db, current, where, code, limit)


def match_expression(terms: Sequence[str]) -> str:
    """Return an FTS5 expression that matches any of the terms. They are quoted, so they contain no syntax."""
    return " OR ".join('"' + term.translate(_NOT_QUOTABLE) + '"' for term in terms)


def _is_complete(rows: list[Any], *, limit: int) -> bool:
    # Unranked matches may tie with the last row, so the result is exact only if that row is not needed.
    return len(rows) > limit and rows[limit - 1][1] < rows[-1][1]


# Nearest vectors.


# sqlite-vec takes longer for a larger k, and limits k to 4,096.
MOST_NEAREST = 1000
# How many passages are requested per memory, because several may belong to one memory.
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
        # All results belong to a few long memories.
        wide = min(wide * WIDER, MOST_NEAREST)
    return [Match(key, -float(distance)) for key, distance, _ in rows[:limit]]
