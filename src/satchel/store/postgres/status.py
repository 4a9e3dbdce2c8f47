"""What there is at an address: the server, the schema, and whether its policies bind whoever asks."""

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
from psycopg import errors, sql

from satchel.errors import StoreError, StoreFormatError
from satchel.store.postgres.address import Address
from satchel.store.postgres.connection import Access, connect, reading_errors

__all__ = ["OLDEST_SERVER", "ROLE", "SCHEMA", "Status", "look", "open_raw", "status"]

SCHEMA = "satchel"
ROLE = "satchel_app"
OLDEST_SERVER = 150000


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Of one database, as one login sees it."""

    place: str
    server: str
    encoding: str
    read_only: bool
    """Whether it is a replica."""
    vector: str | None
    """The version of pgvector in this database; None where it is not there."""
    extensions: str
    """The schema in which pgvector is."""
    version: int
    """Of Satchel's schema; 0 where there is none."""
    login: str
    role: str | None
    """The role that the store acts as; None where it acts as its login."""
    bound: bool
    """Whether the policies bind the store, on every table: they bind neither a superuser nor the tables' owner."""
    tenants: int | None
    """None where the login sees only the one that it is bound to."""
    citus: str | None
    distributed: bool
    """Whether Citus has spread the tables."""

    @property
    def access(self) -> Access:
        return Access(SCHEMA, self.role, self.extensions, self.distributed)


# May another role be acted as? Since PostgreSQL 16 a member may be kept from it.
_CATALOGUE = """
SELECT current_setting('server_version') AS server,
    (SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()) AS encoding,
    pg_is_in_recovery() AS read_only,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS vector,
    (SELECT extversion FROM pg_extension WHERE extname = 'citus') AS citus,
    coalesce((SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector'), 'public') AS extensions,
    current_user::text AS login,
    coalesce((SELECT pg_has_role(oid, CASE WHEN current_setting('server_version_num')::integer >= 160000
        THEN 'SET' ELSE 'MEMBER' END) FROM pg_roles WHERE rolname = {role}), false) AS may_act,
    (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace({schema})
        AND relkind IN ('r', 'p', 'v', 'm')) AS relations,
    coalesce((SELECT has_schema_privilege(relnamespace, 'USAGE') AND has_table_privilege(oid, 'SELECT')
        FROM pg_class WHERE relnamespace = to_regnamespace({schema}) AND relname = 'tenant'), false) AS may_count,
    coalesce((SELECT has_schema_privilege(relnamespace, 'USAGE') AND has_table_privilege(oid, 'SELECT')
        FROM pg_class WHERE relnamespace = to_regnamespace({schema}) AND relname = 'migration'), false) AS may_read,
    EXISTS (SELECT 1 FROM pg_class
        WHERE relnamespace = to_regnamespace({schema}) AND relname = 'migration') AS ours,
    (SELECT bool_and(row_security_active(c.oid)
            AND EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = c.oid AND polname = 'tenant')) FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org' AND NOT a.attisdropped
        WHERE c.relnamespace = to_regnamespace({schema}) AND c.relkind IN ('r', 'p')) AS bound
"""


def status(address: Address) -> Status:
    """Look, and change nothing."""
    with reading_errors(address.shown), open_raw(address) as raw:
        return look(raw, address)


def open_raw(address: Address) -> "psycopg.Connection[Any]":
    """A connection that acts as its login."""
    return connect(address, Access(SCHEMA, None, "public")).raw


def look(raw: "psycopg.Connection[Any]", address: Address) -> Status:
    if raw.info.server_version < OLDEST_SERVER:
        raise StoreError(
            f"{address.shown} is PostgreSQL {raw.info.server_version // 10000}, which is too old; version "
            f"{OLDEST_SERVER // 10000} or newer is needed"
        )
    found = _catalogue(raw)
    if found["encoding"] != "UTF8":
        raise StoreError(
            f"{address.shown} keeps text as {found['encoding']}; memories need a database made with ENCODING 'UTF8'"
        )
    version = _version(raw, address, found)
    distributed = version > 0 and found["citus"] is not None and _distributed(raw)
    # Citus goes to its nodes as whoever acts here, and the role may not log in.
    acting = found["may_act"] and not distributed
    bound = found["bound"]
    if acting and version:
        with _acting(raw):
            bound = _catalogue(raw)["bound"]
    return Status(
        place=address.shown,
        **{
            name: found[name]
            for name in ("server", "encoding", "read_only", "vector", "extensions", "login", "citus")
        },
        version=version,
        role=ROLE if acting else None,
        bound=bool(bound),
        tenants=_tenants(raw) if version and found["may_count"] and not found["bound"] else None,
        distributed=distributed,
    )


@contextlib.contextmanager
def _acting(raw: "psycopg.Connection[Any]") -> Iterator[None]:
    with raw.transaction(force_rollback=True):
        raw.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(ROLE)))
        yield


def _catalogue(raw: "psycopg.Connection[Any]") -> dict[str, Any]:
    cursor = raw.execute(sql.SQL(_CATALOGUE).format(schema=sql.Literal(SCHEMA), role=sql.Literal(ROLE)))
    row = cursor.fetchone()
    assert row is not None
    assert cursor.description is not None
    return {column.name: value for column, value in zip(cursor.description, row, strict=True)}


def _version(raw: "psycopg.Connection[Any]", address: Address, found: dict[str, Any]) -> int:
    if not found["relations"]:
        return 0
    foreign = StoreFormatError(
        f"{address.shown} has a schema {SCHEMA} with tables that are not Satchel's; rename it, or name another "
        "database"
    )
    if not found["ours"]:
        raise foreign
    # A login may have been made so that it has the rights of its roles only when it acts as them.
    acting = found["may_act"] and not found["may_read"]
    try:
        with _acting(raw) if acting else contextlib.nullcontext():
            row = raw.execute(
                f"SELECT count(*), coalesce(max(number), 0) FROM {SCHEMA}.migration".encode()
            ).fetchone()
    except errors.InsufficientPrivilege:
        raise StoreError(
            f"{address.shown}: the login {found['login']} may not read the store; its owner allows that with "
            f"`satchel db init --grant {found['login']}`"
        ) from None
    except (errors.UndefinedColumn, errors.WrongObjectType, errors.UndefinedFunction):
        raise foreign from None
    if row is None or row[0] != row[1]:
        raise foreign
    return int(row[1])


def _tenants(raw: "psycopg.Connection[Any]") -> int:
    row = raw.execute(f"SELECT count(*) FROM {SCHEMA}.tenant".encode()).fetchone()
    assert row is not None
    return int(row[0])


def _distributed(raw: "psycopg.Connection[Any]") -> bool:
    row = raw.execute(
        "SELECT count(*) FROM pg_dist_partition WHERE logicalrelid = %s::regclass AND partmethod = 'h'",
        (f"{SCHEMA}.tenant",),
    ).fetchone()
    return row is not None and row[0] > 0
