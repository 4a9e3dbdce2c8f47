"""Full-text search: the best BM25 matches that pass a filter, and the words of the index."""

from collections.abc import Sequence
from typing import Any

from satchel.model.filters import Filter
from satchel.store.contract import Match
from satchel.store.sql.where import filter_sql, narrows
from satchel.store.sqlite.connection import SqliteConnection

__all__ = ["frequencies", "match_expression", "matches", "words_like"]

# How many matches are ranked before the filter is tried on them: enough for most filters, and the
# sort stays small.
HEADROOM = 4
SPARE = 50
# A term is a stem, and may be some letters shorter than the word it was.
LONGER_BY = 4

# A quote would end the string, and a NUL byte the whole expression.
_NOT_QUOTABLE = {ord('"'): " ", 0: " "}
_LAST = "\U0010ffff"


def matches(db: SqliteConnection, where: Filter, terms: Sequence[str], *, limit: int) -> list[Match]:
    """Filtered before the limit, ties by time and id."""
    if not terms:
        return []
    match = match_expression(terms)
    condition, values = filter_sql(db.dialect, where)
    rows: list[Any] = []
    if not narrows(where):
        depth = limit + max(SPARE, min(limit, 100) * (HEADROOM - 1))
        rows = db.execute(db.statement("search_best", where=condition), (match, depth, *values)).fetchall()
    if not _is_complete(rows, limit=limit):
        found = db.execute(db.statement("search_filtered", where=condition), (match, *values, limit))
        rows = found.fetchall()
    return [Match(row[0], -row[1]) for row in rows[:limit]]


def match_expression(terms: Sequence[str]) -> str:
    """Any of the terms; quoted, so that nothing in them is query syntax."""
    return " OR ".join('"' + term.translate(_NOT_QUOTABLE) + '"' for term in terms)


def frequencies(db: SqliteConnection, terms: Sequence[str]) -> tuple[int, list[int]]:
    """Ended memories are counted too: what is common does not change with them."""
    found = [db.execute(db.statement("word_frequency"), (term,)).fetchone() for term in terms]
    return db.execute(db.statement("newest_seq")).get, [row[0] if row else 0 for row in found]


def words_like(db: SqliteConnection, word: str, *, start: str) -> list[str]:
    lengths = (max(1, len(word) - LONGER_BY), len(word) + LONGER_BY)
    rows: list[Any] = db.execute(db.statement("words_between"), (start, start + _LAST, *lengths)).fetchall()
    return [row[0] for row in rows]


def _is_complete(rows: list[Any], *, limit: int) -> bool:
    # What was not ranked may tie with the last row, so that row must not be needed.
    return len(rows) > limit and rows[limit - 1][1] < rows[-1][1]
