"""Indexes of the vectors of large tenants: one for each, since one for all would be walked for every tenant's rows.

A small tenant is compared with whole, which is exact and as fast.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from satchel.store.postgres.connection import PostgresConnection
from satchel.store.postgres.terms import sign
from satchel.store.sql.vectors import Generation

__all__ = ["LARGE", "Wanted", "build", "index_name", "ready", "wanted"]

# Passages of a tenant from which on an index pays.
LARGE = 50_000


class Wanted(NamedTuple):
    """An index that a tenant is large enough for."""

    org: str
    generation: int
    dimensions: int
    passages: int


def index_name(org: str, generation: int) -> str:
    return f"near_{sign(org)}_{generation}"


def ready(db: PostgresConnection, org: str, current: Generation) -> bool:
    """Whether this tenant has its index, and it is whole."""
    return bool(db.execute(db.statement("index_ready"), (index_name(org, current.number),)).get)


def wanted(raw: "psycopg.Connection[Any]", schema: str, *, least: int = LARGE) -> Iterator[Wanted]:
    """Which tenants are large, for a login that sees them all."""
    rows = raw.execute(
        sql.SQL(
            "SELECT e.org, e.generation, e.dimensions, count(*) FROM {s}.embedding e JOIN {s}.passage_vector v "
            "ON v.org = e.org AND v.generation = e.generation WHERE e.state = 'current' AND e.dimensions > 0 "
            "GROUP BY 1, 2, 3 HAVING count(*) >= %s ORDER BY 1"
        ).format(s=sql.Identifier(schema)),
        (least,),
    )
    yield from map(Wanted._make, rows.fetchall())


def build(raw: "psycopg.Connection[Any]", schema: str, each: Wanted) -> None:
    """Make an index while others go on writing; one that was left unfinished is made anew."""
    name = index_name(each.org, each.generation)
    raw.execute(
        sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}.{}").format(sql.Identifier(schema), sql.Identifier(name))
    )
    raw.execute(
        sql.SQL(
            "CREATE INDEX CONCURRENTLY {name} ON {schema}.passage_vector "
            "USING hnsw ((code::bit({bits})) bit_hamming_ops) WHERE org = {org} AND generation = {generation}"
        ).format(
            name=sql.Identifier(name),
            schema=sql.Identifier(schema),
            bits=sql.Literal(8 * -(-each.dimensions // 8)),
            org=sql.Literal(each.org),
            generation=sql.Literal(each.generation),
        )
    )
