"""Full-text search: the best BM25 matches that pass a filter."""

from collections.abc import Sequence
from typing import Any

import apsw

from satchel.memory import Hit
from satchel.store.contract import Filter
from satchel.store.sqlite.rows import memory_from_row
from satchel.store.sqlite.statements import statement
from satchel.store.sqlite.where import filter_sql

__all__ = ["match_expression", "search"]

# How many matches are ranked before the filter is tried on them: enough for most filters, and the
# sort stays small.
HEADROOM = 4
SPARE = 50

# A quote would end the string, and a NUL byte the whole expression.
_NOT_QUOTABLE = {ord('"'): " ", 0: " "}


def search(db: apsw.Connection, where: Filter, terms: Sequence[str], *, limit: int) -> list[Hit]:
    """Filtered before the limit, ties by time and id."""
    if not terms:
        return []
    match = match_expression(terms)
    condition, values = filter_sql(where)
    rows: list[Any] = []
    if not _narrows(where):
        depth = HEADROOM * limit + SPARE
        rows = db.execute(statement("search_best", where=condition), (match, depth, *values)).fetchall()
    if not _is_complete(rows, limit=limit):
        found = db.execute(statement("search_filtered", where=condition), (match, *values, limit))
        rows = found.fetchall()
    fetch = statement("memory_by_seq")
    memories = ((db.execute(fetch, row[:1]).fetchone(), -row[1]) for row in rows[:limit])
    return [Hit(memory_from_row(row), score) for row, score in memories if row is not None]


def match_expression(terms: Sequence[str]) -> str:
    """Any of the terms; quoted, so that nothing in them is query syntax."""
    return " OR ".join('"' + term.translate(_NOT_QUOTABLE) + '"' for term in terms)


def _narrows(where: Filter) -> bool:
    """Whether it is likely to leave little: then testing each match costs less than ranking them all."""
    scope = where.scope
    return bool(
        scope.project
        or scope.user
        or scope.agent
        or scope.session
        or where.kinds
        or where.tiers
        or where.tags
        or where.ids
    )


def _is_complete(rows: list[Any], *, limit: int) -> bool:
    # What was not ranked may tie with the last row, so that row must not be needed.
    return len(rows) > limit and rows[limit - 1][1] < rows[-1][1]
