"""Spreading the tables over the nodes of a Citus cluster: by org, all rows of a tenant on one of them."""

from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from satchel.errors import StoreError
from satchel.store.postgres.address import Address
from satchel.store.postgres.connection import reading_errors
from satchel.store.postgres.migrations import LOCK, SCHEMA_VERSION, refuse_newer
from satchel.store.postgres.status import ROLE, SCHEMA, look, open_raw

__all__ = ["distribute", "spread"]

# The others are put beside it.
FIRST = "tenant"
OLDEST_CITUS = (11, 3)

_TABLES = """
SELECT c.relname FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org' AND NOT a.attisdropped
WHERE c.relnamespace = {schema}::regnamespace AND c.relkind = 'r'
    AND NOT EXISTS (SELECT 1 FROM pg_dist_partition d WHERE d.logicalrelid = c.oid)
ORDER BY c.relname <> {first}, c.relname
"""
_REFERENCES = """
SELECT c.relname, k.conname, pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
WHERE k.contype = 'f' AND c.relnamespace = {schema}::regnamespace
    AND NOT EXISTS (SELECT 1 FROM pg_dist_partition d WHERE d.logicalrelid = c.oid)
ORDER BY c.relname, k.conname
"""


class _Reference(NamedTuple):
    table: str
    name: str
    definition: str


def distribute(address: Address, *, dry_run: bool = False) -> list[str]:
    """Make every tenant's table a distributed one, all or none; what was done."""
    with reading_errors(address.shown), open_raw(address) as raw, raw.transaction(force_rollback=dry_run):
        raw.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        found = look(raw, address)
        if found.citus is None:
            raise StoreError(
                f"{address.shown} has no Citus; install it on every node and run `CREATE EXTENSION citus`, or stay "
                "with one server, which needs none"
            )
        if tuple(int(part) for part in found.citus.split("-")[0].split(".")[:2]) < OLDEST_CITUS:
            raise StoreError(
                f"{address.shown} has Citus {found.citus}; {'.'.join(map(str, OLDEST_CITUS))} or newer is needed"
            )
        refuse_newer(found)
        if found.version < SCHEMA_VERSION:
            raise StoreError(f"{address.shown} has no store of this version; run `satchel db init` first")
        return spread(raw)


def spread(raw: "psycopg.Connection[Any]") -> list[str]:
    """Those tables that are not yet, so that it can be done again after an upgrade has brought more.

    References are taken away meanwhile: Citus refuses those between a table that it has spread and one that is not.
    """
    schema = sql.Literal(SCHEMA)
    tables = [row[0] for row in raw.execute(sql.SQL(_TABLES).format(schema=schema, first=sql.Literal(FIRST)))]
    references = [_Reference(*row) for row in raw.execute(sql.SQL(_REFERENCES).format(schema=schema))]
    if not tables:
        return []
    # A transaction that changes several tables goes to their parts one after the other.
    raw.execute("SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
    for each in references:
        raw.execute(
            sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(_name(each.table), sql.Identifier(each.name))
        )
    for table in tables:
        beside = "none" if table == FIRST else f"{SCHEMA}.{FIRST}"
        raw.execute(
            "SELECT create_distributed_table(%s::regclass, 'org', colocate_with => %s::text)",
            (_name(table).as_string(raw), beside),
        )
    for each in references:
        raw.execute(
            sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} {}").format(
                _name(each.table),
                sql.Identifier(each.name),
                sql.SQL(each.definition),
            )
        )
    raw.execute("SELECT create_distributed_function(%s::regprocedure)", (f"{SCHEMA}.matching(tsquery)",))
    # The policies are tested on the nodes, which have to know whose transaction it is.
    raw.execute(
        sql.SQL("ALTER DATABASE {} SET citus.propagate_set_commands TO 'local'").format(
            sql.Identifier(raw.info.dbname)
        )
    )
    return [
        f"distributed {len(tables)} tables by org, all beside {SCHEMA}.{FIRST}",
        f"from now on use logins that are members of {ROLE}: its nodes know only whoever may log in",
    ]


def _name(table: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, table)
