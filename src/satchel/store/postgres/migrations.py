"""The schema and its versions: forward only, by one process at a time, a newer one left alone."""

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors, sql

from satchel.errors import InputError, StoreError, StoreReadOnlyError, StoreVersionError
from satchel.store.postgres.address import Address
from satchel.store.postgres.connection import Access, PostgresConnection, reading_errors
from satchel.store.postgres.status import ROLE, SCHEMA, Status, look, open_raw

__all__ = ["SCHEMA_VERSION", "first_connection", "prepare", "refuse_newer", "refuse_without_vector"]

OLDEST_VECTOR = (0, 7)
# Any number that others do not use for their locks.
LOCK = 0x5A7C4E1
MIGRATIONS = Path(__file__).with_name("sql")
INSTALLING = (
    "install it on the server (https://github.com/pgvector/pgvector, or the extensions of your provider), then run "
    "`CREATE EXTENSION vector` in this database as somebody who may"
)
# Roles belong to the whole server, where another database may be changing the same one.
TRIES = 5


def _files() -> list[Path]:
    return sorted(MIGRATIONS.glob("[0-9][0-9][0-9][0-9]_*.sql"))


SCHEMA_VERSION = len(_files())


def first_connection(address: Address, *, create: bool) -> PostgresConnection:
    """A connection to a database, which is brought to the newest version if need be and allowed."""
    with contextlib.ExitStack() as unless_all_is_well:
        with reading_errors(address.shown):
            raw = open_raw(address)
            unless_all_is_well.callback(raw.close)
            access = _access_of(raw, address, create=create)
        unless_all_is_well.pop_all()
        return PostgresConnection(raw, access)


def _access_of(raw: "psycopg.Connection[Any]", address: Address, *, create: bool) -> Access:
    found = look(raw, address)
    refuse_newer(found)
    if found.version < SCHEMA_VERSION:
        if not create:
            _refuse_without_store(found)
        prepare(address)
        found = look(raw, address)
    refuse_without_vector(found)
    if not found.bound:
        raise StoreError(
            f"{address.shown}: row-level security does not bind the login {found.login}, so tenants would not be "
            "kept apart; run `satchel db init` with the owner of the tables, or use a login that is a member of "
            f"{ROLE}"
        )
    return found.access


def _refuse_without_store(found: Status) -> None:
    if not found.version:
        raise InputError(f"there is no store at {found.place}; `satchel db init` makes one")
    raise StoreError(
        f"{found.place} has schema version {found.version}, {SCHEMA_VERSION} is needed: run `satchel db upgrade` "
        "with the owner of the tables"
    )


def refuse_newer(found: Status) -> None:
    if found.version > SCHEMA_VERSION:
        raise StoreVersionError(
            f"{found.place} has schema version {found.version}, made by a newer Satchel; this one knows "
            f"{SCHEMA_VERSION}: upgrade it"
        )


def refuse_without_vector(found: Status) -> None:
    if found.vector is None:
        raise StoreError(f"{found.place} has no pgvector; {INSTALLING}")
    version = tuple(int(part) for part in re.findall(r"\d+", found.vector)[:2])
    if version < OLDEST_VECTOR:
        raise StoreError(
            f"{found.place} has pgvector {found.vector}; {'.'.join(map(str, OLDEST_VECTOR))} or newer is needed: "
            "install it, then run `ALTER EXTENSION vector UPDATE`"
        )


def prepare(address: Address, *, grant: Sequence[str] = (), dry_run: bool = False) -> list[str]:
    """Bring a database to the newest version, whole or not at all; what was done. Of many at once one does it.

    The lock is one of the transaction, since a pool of connections may hand each transaction to another one.
    """
    with reading_errors(address.shown), open_raw(address) as raw:
        raw.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        with raw.transaction(force_rollback=dry_run):
            raw.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            found = look(raw, address)
            refuse_newer(found)
            if found.read_only:
                raise StoreReadOnlyError(
                    f"{address.shown} is a replica and can only be read; name its primary server"
                )
            try:
                return _prepared(raw, address, found, grant)
            except errors.InsufficientPrivilege as error:
                raise StoreError(
                    f"{address.shown}: the login {found.login} may not do this ({error.diag.message_primary}); run "
                    "`satchel db init` with the owner of the database"
                ) from None


def _prepared(raw: "psycopg.Connection[Any]", address: Address, found: Status, grant: Sequence[str]) -> list[str]:
    done = []
    if found.vector is None:
        _add_vector(raw, address)
        found = look(raw, address)
        done.append(f"added pgvector {found.vector}")
    refuse_without_vector(found)
    done += _make_role(raw, address, found)
    done += _migrate(raw, found)
    if not done:
        done += _unprotected(raw)
    _settle_access(raw)
    return done + [each for login in grant for each in _granted(raw, address, login)]


def _add_vector(raw: "psycopg.Connection[Any]", address: Address) -> None:
    try:
        raw.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (errors.UndefinedFile, errors.FeatureNotSupported):
        raise StoreError(f"{address.shown} has no pgvector; {INSTALLING}") from None
    except errors.InsufficientPrivilege:
        raise StoreError(f"{address.shown} has no pgvector, and this login may not add it; {INSTALLING}") from None


def _make_role(raw: "psycopg.Connection[Any]", address: Address, found: Status) -> list[str]:
    """The role that the policies bind; whoever makes a store acts as it."""
    done = []
    try:
        if not _is_there(raw, ROLE):
            _of_server(raw, sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(ROLE)))
            done.append(f"made the role {ROLE}")
        if not _may_act(raw, found.login):
            _grant(raw, found.login)
    except errors.InsufficientPrivilege:
        raise StoreError(
            f"{address.shown}: the login {found.login} may not make the role {ROLE}, or not act as it; somebody "
            f"who may runs `CREATE ROLE {ROLE} NOLOGIN` and `GRANT {ROLE} TO {found.login}`, then try again"
        ) from None
    return done


def _granted(raw: "psycopg.Connection[Any]", address: Address, login: str) -> list[str]:
    if not _is_there(raw, login):
        raise InputError(
            f"{address.shown} has no login {login!r}; make it first, by CREATE ROLE … LOGIN PASSWORD …"
        )
    if _may_act(raw, login):
        return []
    _grant(raw, login)
    return [f"granted {ROLE} to {login}"]


def _is_there(raw: "psycopg.Connection[Any]", role: str) -> bool:
    return raw.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is not None


def _may_act(raw: "psycopg.Connection[Any]", login: str) -> bool:
    how = "SET" if raw.info.server_version >= 160000 else "MEMBER"
    row = raw.execute("SELECT pg_has_role(%s::name, %s::name, %s)", (login, ROLE, how)).fetchone()
    return row is not None and bool(row[0])


def _grant(raw: "psycopg.Connection[Any]", login: str) -> None:
    _of_server(raw, sql.SQL("GRANT {} TO {}").format(sql.Identifier(ROLE), sql.Identifier(login)))


def _of_server(raw: "psycopg.Connection[Any]", statement: sql.Composed) -> None:
    """Change what all databases of the server share, though another one may be doing the same."""
    for left in reversed(range(TRIES)):
        try:
            with raw.transaction():
                raw.execute(statement)
        except (errors.DuplicateObject, errors.UniqueViolation):
            return
        except errors.InternalError_:
            # "tuple concurrently updated"
            if not left:
                raise
        else:
            return


def _migrate(raw: "psycopg.Connection[Any]", found: Status) -> list[str]:
    schema = sql.Identifier(SCHEMA)
    if found.version == 0:
        raw.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
        raw.execute(
            sql.SQL(
                "CREATE TABLE {}.migration "
                "(number integer PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now())"
            ).format(schema)
        )
    raw.execute(sql.SQL("SET LOCAL search_path TO {}, {}").format(schema, sql.Identifier(found.extensions)))
    files = _files()[found.version :]
    for number, file in enumerate(files, start=found.version + 1):
        raw.execute(file.read_text(encoding="utf-8").encode())
        raw.execute("INSERT INTO migration (number, name) VALUES (%s, %s)", (number, file.stem))
    return [f"brought the schema to version {file.stem}" for file in files]


def _unprotected(raw: "psycopg.Connection[Any]") -> list[str]:
    """What is put back of the policies."""
    rows = raw.execute(
        sql.SQL(
            "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org' "
            "WHERE c.relnamespace = {}::regnamespace AND c.relkind IN ('r', 'p') AND NOT a.attisdropped "
            "AND NOT (c.relrowsecurity AND EXISTS ("
            "SELECT 1 FROM pg_policy WHERE polrelid = c.oid AND polname = 'tenant')) ORDER BY 1"
        ).format(sql.Literal(SCHEMA))
    )
    return [f"put back row-level security on {SCHEMA}.{row[0]}" for row in rows.fetchall()]


def _settle_access(raw: "psycopg.Connection[Any]") -> None:
    access = (MIGRATIONS / "access.sql").read_text(encoding="utf-8")
    raw.execute(access.replace("{schema}", SCHEMA).replace("{role}", ROLE).encode())
