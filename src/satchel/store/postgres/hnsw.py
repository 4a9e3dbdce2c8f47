"""Indexes of the vectors of large tenants: one for each, since one for all would be walked for every tenant's rows.

A small tenant is compared with whole, which is exact and as fast.
"""

from collections.abc import Iterator
from hashlib import blake2s
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from satchel.errors import StoreError
from satchel.store.postgres.address import Address
from satchel.store.postgres.connection import PostgresConnection, reading_errors
from satchel.store.postgres.status import SCHEMA, look, open_raw
from satchel.store.sql.vectors import Generation

__all__ = ["LARGE", "index_large_tenants", "index_name", "is_left", "ready"]

# Passages of a tenant from which on an index pays.
LARGE = 50_000


# Those that were made here, by their names.
_MADE = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "WHERE i.indrelid = to_regclass(%s) AND c.relname ~ '^near_[0-9a-f]{24}_[0-9]+$' ORDER BY 1"
)
_READY = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid AND indisready"


class Wanted(NamedTuple):
    """An index that a tenant is large enough for."""

    org: str
    generation: int
    dimensions: int
    passages: int


def index_name(org: str, generation: int) -> str:
    return f"{_stem(org)}{generation}"


def _stem(org: str) -> str:
    return f"near_{blake2s(org.encode(), digest_size=12).hexdigest()}_"


def ready(db: PostgresConnection, org: str, current: Generation) -> bool:
    """Whether this tenant has its index, and it is whole."""
    return bool(db.execute(db.statement("index_ready"), (index_name(org, current.number),)).get)


def is_left(address: Address, org: str) -> bool:
    """Whether there is an index for this tenant; any login may ask, and only the owner can drop it."""
    with reading_errors(address.shown), open_raw(address) as raw:
        return any(name.startswith(_stem(org)) for name in _made(raw))


def index_large_tenants(address: Address, *, least: int = LARGE, dry_run: bool = False) -> list[str]:
    """Make the indexes that tenants have grown to need, and drop those of tenants and vectors that are gone.

    As a login that sees all tenants; what was done.
    """
    with reading_errors(address.shown), open_raw(address) as raw:
        found = look(raw, address)
        if found.tenants is None:
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
    """Indexes of tenants that were erased, and of vectors that others have taken the place of."""
    # In this order: what is made current meanwhile has no index yet.
    made = _made(raw)
    current = raw.execute(
        sql.SQL("SELECT org, generation FROM {}.embedding WHERE state = 'current'").format(sql.Identifier(SCHEMA))
    )
    needed = {index_name(*row) for row in current.fetchall()}
    return [name for name in made if name not in needed]


def _wanted(raw: "psycopg.Connection[Any]", least: int) -> Iterator[Wanted]:
    """Which tenants are large, for a login that sees them all."""
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
    """Make an index while others go on writing; one that was left unfinished is made anew."""
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
