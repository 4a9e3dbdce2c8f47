"""Full-text search: tsvector finds, and BM25 ranks as SQLite's FTS5 does, over the tenant's own counts."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from satchel.model.filters import Filter
from satchel.store.contract import Match
from satchel.store.postgres.connection import PostgresConnection
from satchel.store.postgres.terms import LONGEST_TERM, query_text
from satchel.store.sql.where import filter_sql
from satchel.text.terms import term_codes
from satchel.text.terms import terms as index_terms

__all__ = ["frequencies", "matches", "words_like"]

# Those of FTS5.
K1, B = 1.2, 0.75
LEAST_RARITY = 1e-6
# How many times the memories that are wanted the rarest terms should stand in.
AMPLE = 5
# A term is a stem, and may be some letters shorter than the word it was.
LONGER_BY = 4

_LAST = "\U0010ffff"
# ts_rank of one term that has n positions is the sum of 1/i² for i up to n, as a share of the sum of all.
_WEIGHT = "round(0.6079271 / (1 - ts_rank('{1,1,1,1}', m.words, ?::tsquery)) - 0.5)"


class _Sought(NamedTuple):
    """One term of a question; several words are a phrase."""

    words: tuple[str, ...]
    codes: bytes
    holding: int
    """In how many memories it stands; for a phrase, its rarest word, which stands in no fewer."""
    rarity: float

    @property
    def most(self) -> float:
        """What it can add to a score."""
        return self.rarity * (K1 + 1)


def matches(db: PostgresConnection, where: Filter, terms: Sequence[str], *, limit: int) -> list[Match]:
    db.settle()
    memories, length = db.execute(db.statement("tenant_counts")).fetchone() or (0, 0)
    sought = _sought(db, terms, memories) if memories else []
    average = max(length / max(memories, 1), 1e-9)
    # Common terms are in most memories: those that have no other term are looked at only where they could still
    # be among the best.
    telling = _telling(sought, enough=AMPLE * limit)
    found = _search(db, where, sought, telling, average, limit=limit) if telling else []
    others = sum(each.most for each in sought if each not in telling)
    if len(telling) < len(sought) and (len(found) < limit or found[-1].score <= others):
        found = _search(db, where, sought, sought, average, limit=limit)
    return found


def _sought(db: PostgresConnection, terms: Sequence[str], memories: int) -> list[_Sought]:
    """The terms that stand somewhere, each once, in their order."""
    read = {tuple(words): term_codes(term) for term in terms if (words := index_terms(term))}
    asked = list({word for words in read for word in words if len(word.encode()) <= LONGEST_TERM})
    counts = dict(db.execute(db.statement("word_counts"), (asked,)).fetchall())
    rarest = {words: min(counts.get(word, 0) for word in words) for words in read}
    return [
        _Sought(words, codes, rarest[words], _rarity(memories, rarest[words]))
        for words, codes in read.items()
        if rarest[words]
    ]


def _telling(sought: Sequence[_Sought], *, enough: int) -> list[_Sought]:
    """The rarest terms, until they stand in enough memories."""
    telling: list[_Sought] = []
    held = 0
    for each in sorted(sought, key=lambda each: each.holding):
        if held >= enough or (telling and each.rarity == LEAST_RARITY):
            break
        telling.append(each)
        held += each.holding
    return telling


def _search(
    db: PostgresConnection,
    where: Filter,
    sought: Sequence[_Sought],
    needed: Sequence[_Sought],
    average: float,
    *,
    limit: int,
) -> list[Match]:
    """The best of the memories that have one of the needed terms, by all terms."""
    org = where.scope.org
    scores: list[str] = []
    scored: list[str | bytes] = []
    for each in sought:
        frequency = f"least({', '.join([_WEIGHT] * len(each.words))})"
        if len(each.words) > 1:
            frequency = f"CASE WHEN {_FOLLOWING} THEN {frequency} ELSE 0 END"
            scored.append(each.codes)
        scored += [query_text(org, [word]) for word in each.words]
        scores.append(
            f"(SELECT {each.rarity!r} * f * {K1 + 1} / (f + {K1} * ({1 - B} + {B} * m.length / {average!r})) "
            f"FROM (SELECT {frequency} AS f) one)"
        )
    condition, values = filter_sql(db.dialect, where)
    query = " | ".join(f"({query_text(org, each.words)})" for each in needed)
    # A node of a cluster looks up nothing of its own while it answers for another.
    matching = "m.words @@ ?::tsquery" if db.distributed else "m.seq = ANY (ARRAY(SELECT matching(?::tsquery)))"
    sql = db.statement("search", score=" + ".join(scores), matching=matching, where=condition)
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
    db.settle()
    memories, _ = db.execute(db.statement("tenant_counts")).fetchone() or (0, 0)
    counts = dict(db.execute(db.statement("word_counts"), (list(terms),)).fetchall())
    return memories, [counts.get(term, 0) for term in terms]


def words_like(db: PostgresConnection, word: str, *, start: str) -> list[str]:
    db.settle()
    lengths = (max(1, len(word) - LONGER_BY), len(word) + LONGER_BY)
    rows = db.execute(db.statement("words_between"), (start, start + _LAST, *lengths)).fetchall()
    return [row[0] for row in rows]
