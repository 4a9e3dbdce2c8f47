"""Full-text and vector search in PostgreSQL: tsvector ranked by BM25, pgvector, indexes of large tenants.

Each large tenant has its own index of vectors, because an index of all tenants would visit rows of others. For a
small tenant all vectors are compared, which is exact and as fast.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2s
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg import sql

from satchel.errors import StoreError
from satchel.model.filters import Filter
from satchel.store.contract import Link, Match, Trace, TracedPassage
from satchel.store.database import Generation
from satchel.store.postgres.connection import Address, PostgresConnection, bits, reading_errors
from satchel.store.postgres.schema import SCHEMA, look, open_raw
from satchel.store.postgres.terms import LONGEST_TERM, query_text
from satchel.store.rows import filter_sql, narrows
from satchel.store.search import Search
from satchel.text.terms import term_codes
from satchel.text.terms import terms as index_terms

__all__ = [
    "LARGE_TENANT",
    "PostgresSearch",
    "index_is_left",
    "index_is_ready",
    "index_large_tenants",
    "index_name",
]


# The number of passages from which an index is worth it.
LARGE_TENANT = 50_000


# The indexes that this module creates, by their names.
_MADE = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "WHERE i.indrelid = to_regclass(%s) AND c.relname ~ '^near_[0-9a-f]{24}_[0-9]+$' ORDER BY 1"
)
_READY = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid AND indisready"


class Wanted(NamedTuple):
    """The vector index of a large tenant."""

    org: str
    generation: int
    dimensions: int
    passages: int


def index_name(org: str, generation: int) -> str:
    return f"{_stem(org)}{generation}"


def _stem(org: str) -> str:
    return f"near_{blake2s(org.encode(), digest_size=12).hexdigest()}_"


def index_is_ready(db: PostgresConnection, org: str, current: Generation) -> bool:
    """Return whether this tenant has a complete index."""
    return bool(db.execute(db.statement("index_ready"), {"index": index_name(org, current.number)}).get)


def index_is_left(address: Address, org: str) -> bool:
    """Return whether there is an index for this tenant. Any login may ask; only the owner can drop it."""
    with reading_errors(address.shown), open_raw(address) as raw:
        return any(name.startswith(_stem(org)) for name in _made(raw))


def index_large_tenants(address: Address, *, least: int = LARGE_TENANT, dry_run: bool = False) -> list[str]:
    """Create missing indexes of large tenants, and drop those of deleted tenants and vectors.

    The login must see all tenants. Returns what was done.
    """
    with reading_errors(address.shown), open_raw(address) as raw:
        found = look(raw, address)
        if not found.sees_all:
            raise StoreError(
                f"{address.shown}: the login {found.login} sees only the tenant it names; use "
                "that of the tables' owner"
            )
        done = []
        for each in list(_wanted(raw, least)):
            name = index_name(each.org, each.generation)
            if not raw.execute(_READY, (f"{SCHEMA}.{name}",)).fetchone():
                if not dry_run:
                    _build(raw, each)
                done.append(f"indexed the {each.passages:,} vectors of {each.org!r}")
        for name in _unneeded(raw):
            if not dry_run:
                _drop(raw, name)
            done.append(f"dropped an index that no tenant needs: {name}")
        return done


def _made(raw: "psycopg.Connection[Any]") -> list[str]:
    return [name for (name,) in raw.execute(_MADE, (f"{SCHEMA}.passage_vector",)).fetchall()]


def _unneeded(raw: "psycopg.Connection[Any]") -> list[str]:
    """Return indexes of erased tenants and of vectors that were replaced."""
    # In this order: a generation that becomes current meanwhile has no index yet.
    made = _made(raw)
    current = raw.execute(
        sql.SQL("SELECT org, generation FROM {}.embedding WHERE state = 'current'").format(sql.Identifier(SCHEMA))
    )
    needed = {index_name(*row) for row in current.fetchall()}
    return [name for name in made if name not in needed]


def _wanted(raw: "psycopg.Connection[Any]", least: int) -> Iterator[Wanted]:
    """Return the large tenants. The login must see all tenants."""
    rows = raw.execute(
        sql.SQL(
            "SELECT e.org, e.generation, e.dimensions, count(*) FROM {s}.embedding e JOIN {s}.passage_vector v "
            "ON v.org = e.org AND v.generation = e.generation WHERE e.state = 'current' AND e.dimensions > 0 "
            "GROUP BY 1, 2, 3 HAVING count(*) >= %s ORDER BY 1"
        ).format(s=sql.Identifier(SCHEMA)),
        (least,),
    )
    yield from map(Wanted._make, rows.fetchall())


def _build(raw: "psycopg.Connection[Any]", each: Wanted) -> None:
    """Create an index while others write. An unfinished one is dropped first."""
    name = index_name(each.org, each.generation)
    _drop(raw, name)
    raw.execute(
        sql.SQL(
            "CREATE INDEX CONCURRENTLY {name} ON {schema}.passage_vector "
            "USING hnsw ((code::bit({bits})) bit_hamming_ops) WHERE org = {org} AND generation = {generation}"
        ).format(
            name=sql.Identifier(name),
            schema=sql.Identifier(SCHEMA),
            bits=sql.Literal(8 * -(-each.dimensions // 8)),
            org=sql.Literal(each.org),
            generation=sql.Literal(each.generation),
        )
    )


def _drop(raw: "psycopg.Connection[Any]", name: str) -> None:
    raw.execute(
        sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}.{}").format(sql.Identifier(SCHEMA), sql.Identifier(name))
    )


# Full-text search: tsvector finds matches, and BM25 ranks them as FTS5 does, with counts of the tenant.


# The values of FTS5.
K1, B = 1.2, 0.75
LEAST_RARITY = 1e-6
# The rarest terms should match this many times the wanted number of memories.
AMPLE = 5
# Terms are stems, which can be shorter than the word.
LONGER_BY = 4

_LAST = "\U0010ffff"
# ts_rank of one term with n positions is the sum of 1/i² for i = 1…n, divided by the infinite sum.
_WEIGHT = "round(0.6079271 / (1 - ts_rank('{{1,1,1,1}}', m.words, {term}::tsquery)) - 0.5)"


class _Sought(NamedTuple):
    """One term of a query; several words are a phrase."""

    words: tuple[str, ...]
    codes: bytes
    holding: int
    """In how many memories it occurs; for a phrase, the count of its rarest word, an upper bound."""
    rarity: float

    @property
    def most(self) -> float:
        """Its weight: the most it can add to a score."""
        return self.rarity * (K1 + 1)


def _sought(db: PostgresConnection, terms: Sequence[str], memories: int) -> list[_Sought]:
    """Return the distinct terms that occur in any memory, in their order."""
    read = {tuple(words): term_codes(term) for term in terms if (words := index_terms(term))}
    asked = list({word for words in read for word in words if len(word.encode()) <= LONGEST_TERM})
    counts = dict(db.execute(db.statement("word_counts"), {"terms": asked}).fetchall())
    rarest = {words: min(counts.get(word, 0) for word in words) for words in read}
    return [
        _Sought(words, codes, rarest[words], _rarity(memories, rarest[words]))
        for words, codes in read.items()
        if rarest[words]
    ]


def _telling(sought: Sequence[_Sought], *, enough: int) -> list[_Sought]:
    """Return the rarest terms that together match enough memories."""
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
    """Return the best memories with at least one of the needed terms, ranked by all terms."""
    org = where.scope.org
    scores: list[str] = []
    condition, values = filter_sql(db.dialect, where)

    def placed(name: str, value: object) -> str:
        values[name] = value
        return db.dialect.value(name)

    for number, each in enumerate(sought):
        weights = [
            _WEIGHT.format(term=placed(f"term_{number}_{place}", query_text(org, [word])))
            for place, word in enumerate(each.words)
        ]
        frequency = f"least({', '.join(weights)})"
        if len(each.words) > 1:
            codes = placed(f"codes_{number}", each.codes)
            following = _FOLLOWING.format(org=db.dialect.value("org"), codes=codes)
            frequency = f"CASE WHEN {following} THEN {frequency} ELSE 0 END"
        scores.append(
            f"(SELECT {each.rarity!r} * f * {K1 + 1} / (f + {K1} * ({1 - B} + {B} * m.length / {average!r})) "
            f"FROM (SELECT {frequency} AS f) one)"
        )
    query = " | ".join(f"({query_text(org, each.words)})" for each in needed)
    lookup = db.statement("matching")
    if db.distributed:
        # Citus sends only a call that stands alone to the node of its tenant.
        values["numbers"] = db.execute(lookup, {"query": query}).get or []
        matching = f"m.seq = ANY ({db.dialect.value('numbers')}::bigint[])"
    else:
        values["query"] = query
        matching = f"m.seq = ANY (({lookup})::bigint[])"
    sql = db.statement("search", score=" + ".join(scores), matching=matching, where=condition)
    rows = db.execute(sql, values | {"limit": limit})
    return [Match(key, score) for key, score in rows if score > 0]


# The codes of a passage show whether the words of a phrase follow each other.
_FOLLOWING = (
    "EXISTS (SELECT 1 FROM passage p WHERE p.org = {org} AND p.memory = m.seq "
    "AND position({codes}::bytea IN p.codes) > 0)"
)


def _rarity(memories: int, holding: int) -> float:
    return max(math.log((memories - holding + 0.5) / (holding + 0.5)), LEAST_RARITY) if memories else LEAST_RARITY


# How many times as many memories are requested, because a filter may exclude some.
SPARE = 40
WIDER = 8
# About how many passages a long memory has.
PASSAGES = 10


def _passages(db: PostgresConnection, seqs: list[int]) -> dict[int, list[TracedPassage]]:
    current = db.vectors.generation()
    vectors: dict[tuple[int, int], bytes] = {}
    if current is not None and current.dimensions:
        for memory, place, vector in db.execute(db.statement("traced_vectors", **current.parts), {"numbers": seqs}):
            vectors[memory, place] = vector
    found: dict[int, list[TracedPassage]] = defaultdict(list)
    for memory, start, end, flags, codes in db.execute(db.statement("traced_passages"), {"numbers": seqs}):
        before = found[memory]
        before.append(TracedPassage(start, end, flags, codes, vectors.get((memory, len(before)))))
    return found


def _by_memory(ask: Callable[[int], list[Any]], limit: int) -> list[Match]:
    """Return the nearest passage of each memory. If many passages belong to one memory, more are requested."""
    wide = limit + SPARE
    while True:
        rows = ask(wide)
        nearest: dict[int, float] = {}
        for key, distance in rows:
            nearest.setdefault(key, float(distance))
        if len(nearest) >= limit or len(rows) < wide:
            found = sorted(nearest.items(), key=lambda item: (item[1], item[0]))
            return [Match(key, -distance) for key, distance in found[:limit]]
        wide *= WIDER


def _of_all(db: PostgresConnection, org: str, current: Generation, code: str, limit: int) -> list[Any]:
    memories, _ = db.execute(db.statement("tenant_counts")).fetchone() or (0, 0)
    if memories < LARGE_TENANT // PASSAGES or not index_is_ready(db, org, current):
        return db.execute(db.statement("nearest", **current.parts), {"code": code, "limit": limit}).fetchall()
    # Not by set_config(), which Citus does not pass on to its nodes.
    for setting in _WIDER:
        db.raw.execute(setting)
    size = str(8 * current.code_bytes)
    sql = db.statement("nearest_by_index", bits=size, tenant=db.literal(org), **current.parts)
    return db.execute(sql, {"code": code, "limit": limit}).fetchall()


_WIDER = ("SET LOCAL hnsw.ef_search TO 400", "SET LOCAL hnsw.iterative_scan TO strict_order")

_SAME = {
    "session": "m.session = t.thread AND m.session <> ''",
    "source": "m.source = t.thread AND m.source IS NOT NULL AND m.session = ''",
}


def _asked(
    db: PostgresConnection,
    asked: Sequence[tuple[Trace, Sequence[str]]],
    where: Filter,
    same: str,
    reach: int,
) -> list[tuple[int, int, bool]]:
    condition, values = filter_sql(db.dialect, where)
    sql = db.statement("beside", same=same, where=condition, reach=str(reach))
    columns = [list(column) for column in zip(*(place for _, place in asked), strict=True)]
    values |= dict(zip(("projects", "users", "agents", "threads"), columns, strict=True))
    values |= {
        name: [getattr(trace, field) for trace, _ in asked]
        for name, field in (("origins", "key"), ("ats", "at"), ("ids", "id"))
    }
    return db.execute(sql, values).fetchall()


class PostgresSearch(Search[PostgresConnection]):
    """Search with tsvector and pgvector. Tables are read one by one and joined in Python."""

    def matches(self, where: Filter, terms: Sequence[str], *, limit: int) -> list[Match]:
        with self._read(where.scope.org) as db:
            db.settle()
            memories, length = db.execute(db.statement("tenant_counts")).fetchone() or (0, 0)
            sought = _sought(db, terms, memories) if memories else []
            average = max(length / max(memories, 1), 1e-9)
            # Common terms match most memories. Memories with only common terms are read only if they could
            # still be among the best.
            telling = _telling(sought, enough=AMPLE * limit)
            found = _search(db, where, sought, telling, average, limit=limit) if telling else []
            others = sum(each.most for each in sought if each not in telling)
            if len(telling) < len(sought) and (len(found) < limit or found[-1].score <= others):
                found = _search(db, where, sought, sought, average, limit=limit)
            return found

    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        """Return term counts. Ended memories are included, since they hardly change which terms are common."""
        with self._read(self.org) as db:
            db.settle()
            memories, _ = db.execute(db.statement("tenant_counts")).fetchone() or (0, 0)
            counts = dict(db.execute(db.statement("word_counts"), {"terms": list(terms)}).fetchall())
            return memories, [counts.get(term, 0) for term in terms]

    def words_like(self, word: str, *, start: str) -> list[str]:
        with self._read(self.org) as db:
            db.settle()
            lengths = {"shortest": max(1, len(word) - LONGER_BY), "longest": len(word) + LONGER_BY}
            span = {"start": start, "stop": start + _LAST}
            rows = db.execute(db.statement("words_between"), lengths | span).fetchall()
            return [row[0] for row in rows]

    def traces(self, where: Filter, keys: Sequence[int] | None = None) -> list[Trace]:
        with self._snapshot(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            if keys is not None:
                condition = f"m.seq = ANY ({db.dialect.value('numbers')}::bigint[]) AND {condition}"
                values["numbers"] = list(keys)
            rows = db.execute(db.statement("traced_memories", where=condition), values).fetchall()
            seqs = [row[0] for row in rows]
            uses = dict(db.execute(db.statement("traced_uses"), {"numbers": seqs}).fetchall())
            passages = _passages(db, seqs)
            # A memory without passages is just being written.
            return [
                Trace(*row, uses.get(row[0], 0), tuple(found))  # type: ignore[call-arg]
                for row in rows
                if (found := passages.get(row[0]))
            ]

    def links(self, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
        with self._snapshot(where.scope.org) as db:
            condition, values = filter_sql(db.dialect, where)
            origins = {id: seq for seq, id in db.execute(db.statement("ids_of_seqs"), {"numbers": list(keys)})}

            def seen(near: str, far: str, *, outgoing: bool) -> Iterator[Link]:
                sql = db.statement("relations_at", near=near, far=far)
                rows: list[Any] = db.execute(sql, {"ids": list(origins)}).fetchall()
                sql = db.statement("seqs_of_ids", where=condition)
                ids = list({row[1] for row in rows})
                others = dict(db.execute(sql, values | {"ids": ids}).fetchall()) if rows else {}
                for origin, other, kind, strength in rows:
                    if other in others:
                        yield Link(origins[origin], others[other], kind, strength, outgoing)

            def in_order(found: Iterator[Link]) -> list[Link]:
                return sorted(found, key=lambda link: (link.key, link.origin, link.kind))[:limit]

            outgoing = in_order(seen("source", "target", outgoing=True))
            return outgoing + in_order(seen("target", "source", outgoing=False))

    def nearest(self, where: Filter, code: bytes, *, limit: int) -> list[Match]:
        """Return the nearest memories. The result is exact, except for a large tenant with an index."""
        with self._snapshot(where.scope.org) as db:
            current = db.vectors.generation()
            # Another process may have changed the embedder after the query was embedded.
            if current is None or not current.dimensions or len(code) != current.code_bytes:
                return []
            condition, values = filter_sql(db.dialect, where)
            if not narrows(where):
                # The filter may exclude some of the nearest.
                wide = limit + SPARE
                found = _by_memory(partial(_of_all, db, where.scope.org, current, bits(code)), wide)
                sql = db.statement("seqs_among", where=condition)
                among = {"numbers": [match.key for match in found]}
                passing = {row[0] for row in db.execute(sql, values | among)}
                left = [match for match in found if match.key in passing]
                if len(left) >= limit or len(found) < wide:
                    return left[:limit]
            seqs = [row[0] for row in db.execute(db.statement("matching_seqs", where=condition), values)]
            sql = db.statement("nearest_among", **current.parts)
            asked = {"code": bits(code), "numbers": seqs}
            return _by_memory(lambda most: db.execute(sql, asked | {"limit": most}).fetchall(), limit)

    def beside(self, traces: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
        """Return the neighbours of all memories with two queries, to save round trips."""
        with self._read(where.scope.org) as db:
            threads = {trace.key: msgspec.json.decode(trace.thread) for trace in traces if trace.thread is not None}
            earlier: dict[int, list[int]] = {trace.key: [] for trace in traces}
            later: dict[int, list[int]] = {trace.key: [] for trace in traces}
            for kind, same in _SAME.items():
                asked = [
                    (trace, threads[trace.key][1:]) for trace in traces if threads.get(trace.key, [None])[0] == kind
                ]
                for origin, seq, comes_later in _asked(db, asked, where, same, reach) if asked else ():
                    (later if comes_later else earlier)[origin].append(seq)
            return [[*earlier[trace.key], trace.key, *later[trace.key]] for trace in traces]
