"""Full-text search: tsvector finds, and BM25 ranks as SQLite's FTS5 does, over the tenant's own counts."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from satchel.store.contract import Filter, Match
from satchel.store.postgres.connection import PostgresConnection
from satchel.store.postgres.terms import LONGEST_TERM, query_text
from satchel.store.sql.where import filter_sql
from satchel.terms import term_codes
from satchel.terms import terms as index_terms

__all__ = ["frequencies", "matches", "words_like"]

# Those of FTS5.
K1, B = 1.2, 0.75
LEAST_RARITY = 1e-6
# A term is a stem, and may be some letters shorter than the word it was.
LONGER_BY = 4

_LAST = "\U0010ffff"
# ts_rank of one term that has n positions is the sum of 1/i² for i up to n, as a share of the sum of all.
_WEIGHT = "round(0.6079271 / (1 - ts_rank('{{1,1,1,1}}', m.words, ?::tsquery)) - 0.5)"


class _Sought(NamedTuple):
    """One term of a question; several words are a phrase."""

    words: tuple[str, ...]
    codes: bytes


def matches(db: PostgresConnection, where: Filter, terms: Sequence[str], *, limit: int) -> list[Match]:
    org = where.scope.org
    found = dict.fromkeys(_Sought(tuple(words), term_codes(term)) for term in terms if (words := index_terms(term)))
    sought = [each for each in found if all(len(word.encode()) <= LONGEST_TERM for word in each.words)]
    if not sought:
        return []
    memories, length = db.execute(db.statement("tenant_counts")).fetchone() or (0, 0)
    counts = dict(db.execute(db.statement("word_counts"), ([w for each in sought for w in each.words],)).fetchall())
    average = max(length / max(memories, 1), 1e-9)
    condition, values = filter_sql(db.dialect, where)
    scores: list[str] = []
    scored: list[str | bytes] = []
    queries: list[str] = []
    for each in sought:
        if not all(counts.get(word) for word in each.words):
            continue
        queries.append(query_text(org, each.words))
        # In how many memories a phrase stands is not counted; its rarest word stands in no fewer.
        rarity = _rarity(memories, min(counts[word] for word in each.words))
        weights = [_WEIGHT.format() for _ in each.words]
        frequency = weights[0] if len(weights) == 1 else f"least({', '.join(weights)})"
        scored += [query_text(org, [word]) for word in each.words]
        if len(each.words) > 1:
            frequency = f"CASE WHEN {_FOLLOWING} THEN {frequency} ELSE 0 END"
            scored.insert(-len(each.words), each.codes)
        scores.append(
            f"(SELECT {rarity!r} * f * {K1 + 1} / (f + {K1} * ({1 - B} + {B} * m.length / {average!r})) "
            f"FROM (SELECT {frequency} AS f) one)"
        )
    if not queries:
        return []
    sql = db.statement("search", score=" + ".join(scores), where=condition)
    query = " | ".join(f"({each})" for each in queries)
    rows = db.execute(sql, (*scored, query, *values, limit))
    return [Match(key, score) for key, score in rows if score > 0]


# The words of a phrase stand one after the other in a passage, as its codes say.
_FOLLOWING = (
    "EXISTS (SELECT 1 FROM passage p WHERE p.org = m.org AND p.memory = m.seq "
    "AND position(?::bytea IN p.codes) > 0)"
)


def _rarity(memories: int, holding: int) -> float:
    return max(math.log((memories - holding + 0.5) / (holding + 0.5)), LEAST_RARITY) if memories else LEAST_RARITY


def frequencies(db: PostgresConnection, terms: Sequence[str]) -> tuple[int, list[int]]:
    """Ended memories are counted too: what is common does not change with them."""
    memories, _ = db.execute(db.statement("tenant_counts")).fetchone() or (0, 0)
    counts = dict(db.execute(db.statement("word_counts"), (list(terms),)).fetchall())
    return memories, [counts.get(term, 0) for term in terms]


def words_like(db: PostgresConnection, word: str, *, start: str) -> list[str]:
    lengths = (max(1, len(word) - LONGER_BY), len(word) + LONGER_BY)
    rows = db.execute(db.statement("words_between"), (start, start + _LAST, *lengths)).fetchall()
    return [row[0] for row in rows]
