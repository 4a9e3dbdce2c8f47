"""The health of a tenant's part of a store: what `doctor` looks at, and what it can mend."""

from satchel.store.contract import Check
from satchel.store.postgres.address import Address
from satchel.store.postgres.audit import look_at_passages, look_at_terms, look_at_vectors, mend
from satchel.store.postgres.connection import PostgresConnection
from satchel.store.postgres.migrations import INSTALLING, OLDEST_VECTOR, SCHEMA_VERSION
from satchel.store.postgres.status import OLDEST_SERVER, SCHEMA
from satchel.store.sql.audit import check, passages_check, vectors_check

__all__ = ["checks", "repair"]

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
    """Mends what derives from the memories; the memories themselves are never rewritten."""
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
    """Each table has one policy and no other, since others would let more rows through."""
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
    total = int(db.execute("SELECT count(*) FROM memory WHERE org = @org").get)
    return check("search index", problem, f"in step with {total:,} memories")


def _passages(db: PostgresConnection) -> Check:
    total = int(db.execute("SELECT count(*) FROM passage WHERE org = @org").get)
    return passages_check(total, differing=len(look_at_passages(db)))


def _vectors(db: PostgresConnection) -> Check:
    found = look_at_vectors(db)
    current, building = db.vectors.generation(), db.vectors.generation("building")
    return vectors_check(current, building, broken=[], **found._asdict())
