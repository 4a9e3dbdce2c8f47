"""Health checks and repair of one tenant in a PostgreSQL store.

Foreign keys prevent stray rows. Only data that is derived from the memories is repaired, so nothing is lost.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from satchel.model.memory import Memory
from satchel.store.contract import Check
from satchel.store.index import Index, check, differing_memories, passages_check, vectors_check
from satchel.store.memories import by_number
from satchel.store.postgres.connection import Address, PostgresConnection
from satchel.store.postgres.schema import INSTALLING, OLDEST_SERVER, OLDEST_VECTOR, SCHEMA, SCHEMA_VERSION
from satchel.store.postgres.terms import SIGN, index_entry, tag_keys
from satchel.store.rows import memory_from_row

__all__ = [
    "Terms",
    "VectorHealth",
    "checks",
    "look_at_passages",
    "look_at_terms",
    "look_at_vectors",
    "mend",
    "repair",
]


PAGE = 1000

_ENTRIES = """
SELECT m.seq, m.tag_keys, m.words = e.words::tsvector AND m.length = e.length
FROM unnest(%(numbers)s::bigint[], %(words)s::text[], %(lengths)s::bigint[]) e(seq, words, length)
    JOIN memory m ON m.org = %(org)s AND m.seq = e.seq
"""
_TERMS = f"""
SELECT m.org, substr(w.lexeme, {SIGN} + 1) COLLATE "C" AS term, count(*) AS docs FROM memory m, unnest(m.words) w
WHERE m.org = %(org)s GROUP BY 1, 2
"""
_MISCOUNTED = f"""
SELECT count(*) FROM ({_TERMS}) held
    FULL JOIN (SELECT term, docs FROM word WHERE org = %(org)s) counted USING (term)
WHERE held.docs IS DISTINCT FROM counted.docs
"""
_TOTALS = "SELECT count(*), coalesce(sum(length), 0)::bigint FROM memory WHERE org = %(org)s"
_ENDS = """
SELECT m.seq, m.text, ends.places, ends.last,
    (SELECT p.start FROM passage p WHERE p.org = %(org)s AND p.memory = m.seq AND p.place = 0),
    (SELECT p.stop FROM passage p WHERE p.org = %(org)s AND p.memory = m.seq AND p.place = ends.last)
FROM memory m CROSS JOIN LATERAL (
    SELECT count(*) AS places, max(p.place) AS last FROM passage p WHERE p.org = %(org)s AND p.memory = m.seq
) ends WHERE m.org = %(org)s
"""
# Vectors without an embedder, or of the wrong size.
_STRAY = """
passage_vector v WHERE v.org = %(org)s AND NOT coalesce((
    SELECT length(v.vector) = e.dimensions AND bit_length(v.code) = 8 * ((e.dimensions + 7) / 8)
    FROM embedding e WHERE e.org = %(org)s AND e.generation = v.generation
), false)
"""
_STRAY_BACKLOG = """
backlog b WHERE b.org = %(org)s AND (
    SELECT true FROM embedding e WHERE e.org = %(org)s AND e.state = 'current' AND e.dimensions = 0
)
"""
_OVERLOOKED = """
SELECT DISTINCT p.memory FROM passage p WHERE p.org = %(org)s
    AND (SELECT true FROM backlog b WHERE b.org = %(org)s AND b.memory = p.memory) IS NULL
    AND (SELECT true FROM passage_vector v
        WHERE v.org = %(org)s AND v.memory = p.memory AND v.place = p.place AND v.generation = {generation}) IS NULL
"""
_OVERLOOKED_BY_ALL = """
SELECT m.seq FROM memory m
WHERE m.org = %(org)s AND (SELECT true FROM backlog b WHERE b.org = %(org)s AND b.memory = m.seq) IS NULL
"""


class Terms(NamedTuple):
    """Problems of the full-text index."""

    differing: list[int]
    """Memories whose index entry does not match their words and tags."""
    miscounted: int
    """Terms with a wrong count of memories, and wrong totals."""


class VectorHealth(NamedTuple):
    """Problems of the vectors."""

    stray: int
    overlooked: int
    waiting: int
    """Memories in the backlog. This is not an error."""


def look_at_terms(db: PostgresConnection) -> Terms:
    differing = [seq for seq, _ in _differing_entries(db)]
    miscounted = int(db.execute(_MISCOUNTED).get)
    held, counted = db.execute(_TOTALS).fetchone(), db.execute(db.statement("tenant_counts")).fetchone()
    return Terms(differing, miscounted + (tuple(held) != tuple(counted or (0, 0))))


def look_at_passages(db: PostgresConnection) -> list[int]:
    return differing_memories(db, _ENDS)


def look_at_vectors(db: PostgresConnection) -> VectorHealth:
    stray = int(db.execute(f"SELECT count(*) FROM {_STRAY}").get)
    stray += int(db.execute(f"SELECT count(*) FROM {_STRAY_BACKLOG}").get)
    return VectorHealth(stray, len(_overlooked(db)), int(db.execute(db.statement("count_backlog")).get))


def mend(db: PostgresConnection) -> list[str]:
    """Rebuild derived data that differs from the memories, and delete stray rows. Returns what was done."""
    done = []
    terms = look_at_terms(db)
    if terms.differing or terms.miscounted:
        _mend_terms(db)
        done.append(f"made the search index anew, with the entries of {len(terms.differing):,} memories")
    differing = look_at_passages(db)
    if differing:
        index = Index(db)
        for seq, memory in by_number(db, differing).items():
            index.remake(seq, memory)
        done.append(f"made the passages of {len(differing):,} memories anew")
    vectors = look_at_vectors(db)
    if vectors.stray or vectors.overlooked:
        db.execute(f"DELETE FROM {_STRAY}")
        db.execute(f"DELETE FROM {_STRAY_BACKLOG}")
        db.executemany(db.statement("insert_backlog"), [{"memory": memory} for (memory,) in _overlooked(db)])
        # Nobody knows which vectors these were, so everybody reads everything again.
        db.execute(db.statement("trim_changes"), {"number": db.execute(db.statement("count_change")).get})
        db.log_changes([0])
        waiting = int(db.execute(db.statement("count_backlog")).get)
        done.append(f"took out vectors that belong to nothing; {waiting:,} memories wait for theirs")
    return done


def _mend_terms(db: PostgresConnection) -> None:
    for seq, memory in _differing_entries(db):
        entry = index_entry(memory)
        db.execute(
            "UPDATE memory SET words = %(words)s::tsvector, length = %(length)s, tag_keys = %(tags)s "
            "WHERE org = %(org)s AND seq = %(seq)s",
            {"words": entry.vector, "length": entry.length, "tags": tag_keys(memory), "seq": seq},
        )
    db.execute("DELETE FROM word WHERE org = %(org)s")
    # With the org of the rows, so that Citus inserts where it reads.
    db.execute(f"INSERT INTO word (org, term, docs) {_TERMS}")
    memories, words = db.execute(_TOTALS).fetchone()
    sql = "UPDATE tenant SET memories = %(memories)s, words = %(words)s WHERE org = %(org)s"
    db.execute(sql, {"memories": memories, "words": words})


def _differing_entries(db: PostgresConnection) -> Iterator[tuple[int, Memory]]:
    last = -1
    sql = db.statement("memories_after")
    while page := db.execute(sql, {"after": last, "limit": PAGE}).fetchall():
        found = {row[-1]: memory_from_row(row) for row in page}
        last = page[-1][-1]
        entries = [index_entry(memory) for memory in found.values()]
        given = {
            "numbers": list(found),
            "words": [entry.vector for entry in entries],
            "lengths": [entry.length for entry in entries],
        }
        for seq, keys, same in db.execute(_ENTRIES, given).fetchall():
            if not same or keys != tag_keys(found[seq]):
                yield seq, found[seq]


def _overlooked(db: PostgresConnection) -> list[Any]:
    current = db.vectors.generation()
    if current is None:
        return db.execute(_OVERLOOKED_BY_ALL).fetchall()
    if not current.dimensions:
        return []
    return db.execute(_OVERLOOKED.format(**current.parts)).fetchall()


# Checks and repair.


_TABLES = f"""
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org' AND NOT a.attisdropped
WHERE c.relnamespace = '{SCHEMA}'::regnamespace AND c.relkind IN ('r', 'p')
"""


def checks(db: PostgresConnection, address: Address) -> list[Check]:
    return [
        _server(db),
        _vector(db),
        _schema(db),
        _policies(db),
        _indexes(db),
        _terms(db),
        _passages(db),
        _vectors(db),
    ]


def repair(db: PostgresConnection) -> list[str]:
    """Repair derived data. The memories themselves are never changed. Returns what was done."""
    return mend(db)


def _server(db: PostgresConnection) -> Check:
    version = db.raw.info.server_version
    old = version < OLDEST_SERVER
    problem = f"{version // 10000} is too old; {OLDEST_SERVER // 10000} or newer is needed" if old else None
    return check("postgresql version", problem, str(db.execute("SELECT current_setting('server_version')").get))


def _vector(db: PostgresConnection) -> Check:
    version = db.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").get
    if version is None:
        return check("pgvector version", f"there is no pgvector; {INSTALLING}", "")
    old = tuple(int(part) for part in version.split(".")[:2]) < OLDEST_VECTOR
    problem = f"{version} is too old; install a newer one and run `ALTER EXTENSION vector UPDATE`" if old else None
    return check("pgvector version", problem, version)


def _schema(db: PostgresConnection) -> Check:
    version = int(db.execute("SELECT max(number) FROM migration").get)
    problem = None
    if version < SCHEMA_VERSION:
        problem = f"{version}, {SCHEMA_VERSION} is due; run `satchel db upgrade` with the owner of the tables"
    elif version > SCHEMA_VERSION:
        problem = f"{version}, made by a newer Satchel than this one, which knows {SCHEMA_VERSION}; upgrade it"
    return check("schema version", problem, str(version))


def _policies(db: PostgresConnection) -> Check:
    """Check that each table has exactly one policy: further policies would allow more rows."""
    who = str(db.execute("SELECT current_user::text").get)
    unbound = db.execute(
        f"SELECT c.relname::text {_TABLES} AND NOT (row_security_active(c.oid) AND EXISTS "
        "(SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'tenant')) ORDER BY 1"
    ).fetchall()
    if unbound:
        names = ", ".join(row[0] for row in unbound)
        return check(
            "row-level security", f"does not bind {who} on {names}; run `satchel db init` as the owner", ""
        )
    others = db.execute(
        f"SELECT c.relname::text {_TABLES} AND EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid "
        "AND p.polname <> 'tenant' AND p.polpermissive) ORDER BY 1"
    ).fetchall()
    names = ", ".join(row[0] for row in others)
    problem = f"there are more policies than Satchel's on {names}, which let through what it would not"
    return check("row-level security", problem if others else None, f"binds {who}", bad="warning")


def _indexes(db: PostgresConnection) -> Check:
    unfinished = db.execute(
        "SELECT i.relname::text FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid "
        f"WHERE i.relnamespace = '{SCHEMA}'::regnamespace AND NOT (x.indisvalid AND x.indisready) ORDER BY 1"
    ).fetchall()
    names = ", ".join(row[0] for row in unfinished)
    problem = f"not finished: {names}; the owner runs REINDEX INDEX CONCURRENTLY for each" if unfinished else None
    return check("indexes", problem, "all finished", bad="warning")


def _terms(db: PostgresConnection) -> Check:
    found = look_at_terms(db)
    wrong = []
    if found.differing:
        wrong.append(f"{len(found.differing):,} memories are entered by other words than they have")
    if found.miscounted:
        wrong.append(f"{found.miscounted:,} counts are wrong")
    problem = f"{'; '.join(wrong)}; `satchel doctor --fix` rebuilds it" if wrong else None
    total = int(db.execute("SELECT count(*) FROM memory WHERE org = %(org)s").get)
    return check("search index", problem, f"in step with {total:,} memories")


def _passages(db: PostgresConnection) -> Check:
    total = int(db.execute("SELECT count(*) FROM passage WHERE org = %(org)s").get)
    return passages_check(total, differing=len(look_at_passages(db)))


def _vectors(db: PostgresConnection) -> Check:
    found = look_at_vectors(db)
    current, building = db.vectors.generation(), db.vectors.generation("building")
    return vectors_check(current, building, broken=[], **found._asdict())
