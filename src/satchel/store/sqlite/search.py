"""Full-text search with FTS5, and nearest vectors by their codes."""

from collections.abc import Sequence
from typing import Any

from satchel.model.filters import Filter
from satchel.store.contract import Match
from satchel.store.database import Generation
from satchel.store.rows import filter_sql, json_array, narrows
from satchel.store.search import Search
from satchel.store.sqlite.connection import SqliteConnection
from satchel.store.sqlite.vectors import Codes

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
    """Search with FTS5, and by the codes of vectors."""

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

    def leading_matches(self, terms: Sequence[str], *, limit: int) -> list[Match] | None:
        if not terms:
            return []
        with self._read(self.org) as db:
            values = {"match": match_expression(terms), "limit": limit}
            return [Match(key, -score) for key, score in db.execute(db.statement("search_leading"), values)]

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
            return _nearest(db, current, where, code, limit)


def match_expression(terms: Sequence[str]) -> str:
    """Return an FTS5 expression that matches any of the terms. They are quoted, so they contain no syntax."""
    return " OR ".join('"' + term.translate(_NOT_QUOTABLE) + '"' for term in terms)


def _is_complete(rows: list[Any], *, limit: int) -> bool:
    # Unranked matches may tie with the last row, so the result is exact only if that row is not needed.
    return len(rows) > limit and rows[limit - 1][1] < rows[-1][1]


# Nearest vectors.


# How many memories are ranked before the filter is applied: enough for most filters.
SPARE_MEMORIES = 16
WIDER = 8
# A distance and a number of a memory in one integer, to sort by both.
_NUMBER_BITS = 44


def _nearest(db: SqliteConnection, current: Generation, where: Filter, code: bytes, limit: int) -> list[Match]:
    condition, values = filter_sql(db.dialect, where)
    if not narrows(where):
        best = _ranked(db.vectors.codes(current), code, limit + SPARE_MEMORIES)
        numbers = json_array(match.key for match in best)
        rows = db.execute(db.statement("seqs_among", where=condition), values | {"numbers": numbers})
        passing = {row[0] for row in rows}
        if len(passing) >= limit or len(best) < limit + SPARE_MEMORIES:
            return [match for match in best if match.key in passing][:limit]
    among = [row[0] for row in db.execute(db.statement("matching_seqs", where=condition), values)]
    return _ranked(db.vectors.codes(current, among), code, limit, among=among)


def _ranked(found: Codes, code: bytes, limit: int, *, among: Sequence[int] | None = None) -> list[Match]:
    """Return the memories with the nearest passages; of equally near ones, those stored first."""
    import numpy as np

    memories, codes = found
    if among is not None:
        wanted = np.isin(memories, np.array(among, np.int64))
        memories, codes = memories[wanted], codes[wanted]
    unit = np.uint64 if len(code) % 8 == 0 else np.uint8
    differing = np.bitwise_count(codes.view(unit) ^ np.frombuffer(code, unit))
    # Adding whole columns takes a sixth of the time of adding within rows.
    distance = np.ascontiguousarray(differing.T).sum(axis=0, dtype=np.int64)
    order = (distance << _NUMBER_BITS) | memories
    wide = limit + SPARE_MEMORIES
    while True:
        # Several passages may belong to one memory.
        nearest = np.sort(np.partition(order, wide)[:wide] if wide < len(order) else order).tolist()
        distances: dict[int, int] = {}
        for each in nearest:
            distances.setdefault(each & ((1 << _NUMBER_BITS) - 1), each >> _NUMBER_BITS)
        if len(distances) >= limit or wide >= len(order):
            return [Match(key, -float(distance)) for key, distance in list(distances.items())[:limit]]
        wide *= WIDER
