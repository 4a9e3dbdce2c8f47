"""The schema and its versions: forward only, by one process at a time, a newer one left alone."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg import errors, sql

from satchel.errors import StoreError, StoreVersionError
from satchel.store.postgres.address import Address
from satchel.store.postgres.connection import Access, reading_errors

__all__ = ["ROLE", "SCHEMA", "SCHEMA_VERSION", "Status", "access_of", "prepare", "status"]

SCHEMA = "satchel"
ROLE = "satchel_app"
OLDEST_SERVER = 150000
OLDEST_VECTOR = (0, 7)
# Any number that others do not use for their locks.
LOCK = 0x5A7C4E1
MIGRATIONS = Path(__file__).with_name("sql")
INSTALLING = (
    "install pgvector (https://github.com/pgvector/pgvector, or your provider's list of extensions), "
    "then run `CREATE EXTENSION vector` as a superuser or `satchel db init`"
)


def _files() -> list[Path]:
    return sorted(MIGRATIONS.glob("[0-9][0-9][0-9][0-9]_*.sql"))


SCHEMA_VERSION = len(_files())


class Status(NamedTuple):
    """What there is at an address."""

    server: int
    vector: str | None
    """The version of pgvector in this database; None where it is not there."""
    version: int
    """Of the schema; 0 where there is none."""
    role: str | None
    """The role that the store acts as; None where it acts as its login."""
    bound: bool
    """Whether the policies bind the store: they do not bind a superuser or the owner of the tables."""
    citus: str | None
    extensions: str

    @property
    def access(self) -> Access:
        return Access(SCHEMA, self.role, self.extensions)


_STATUS = """
SELECT current_setting('server_version_num')::integer,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    (SELECT extversion FROM pg_extension WHERE extname = 'citus'),
    coalesce((SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector'), 'public'),
    to_regclass('{schema}.migration') IS NOT NULL,
    coalesce((SELECT pg_has_role(oid, 'MEMBER') FROM pg_roles WHERE rolname = '{role}'), false),
    (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user)
        OR coalesce((SELECT pg_has_role(relowner, 'MEMBER') FROM pg_class
            WHERE oid = to_regclass('{schema}.memory')), false)
"""


def status(address: Address) -> Status:
    """Look, and change nothing."""
    with reading_errors(address.shown), psycopg.connect(address.conninfo, autocommit=True) as raw:
        return _look(raw, address)


def _look(raw: "psycopg.Connection[Any]", address: Address) -> Status:
    row = raw.execute(_STATUS.format(schema=SCHEMA, role=ROLE).encode()).fetchone()
    assert row is not None
    server, vector, citus, extensions, there, member, above = row
    if server < OLDEST_SERVER:
        raise StoreError(
            f"{address.shown} is PostgreSQL {server // 10000}, which is too old; version {OLDEST_SERVER // 10000} "
            "or newer is needed"
        )
    version = 0
    if there:
        try:
            found = raw.execute(f"SELECT coalesce(max(number), 0) FROM {SCHEMA}.migration".encode()).fetchone()
        except errors.InsufficientPrivilege:
            raise StoreError(
                f"{address.shown}: this login may not read the store; its owner grants that with "
                f"GRANT {ROLE} TO the login"
            ) from None
        version = found[0] if found else 0
    return Status(server, vector, version, ROLE if member else None, bool(member or not above), citus, extensions)


def access_of(address: Address, *, create: bool) -> Access:
    """How to speak to a database, brought to the newest version if need be and allowed."""
    found = status(address)
    if found.version > SCHEMA_VERSION:
        raise StoreVersionError(
            f"{address.shown} has schema version {found.version}, made by a newer Satchel; this one knows "
            f"{SCHEMA_VERSION}: upgrade it"
        )
    if found.version < SCHEMA_VERSION:
        if not create:
            raise StoreError(
                f"{address.shown} has no store of this version; run `satchel db init --db …` with a login that may "
                "create one"
            )
        prepare(address)
        found = status(address)
    refuse_without_vector(address, found)
    if not found.bound:
        raise StoreError(
            f"{address.shown}: row-level security does not bind this login, so tenants would not be kept apart; "
            f"run `satchel db init` with it, or use a login that is a member of {ROLE}"
        )
    return found.access


def prepare(address: Address) -> int:
    """Bring a database to the newest version; how many steps there were. Of many at once one does it."""
    with (
        reading_errors(address.shown),
        psycopg.connect(address.conninfo, autocommit=True) as raw,
        _lock(raw),
    ):
        found = _look(raw, address)
        if found.version > SCHEMA_VERSION:
            raise StoreVersionError(f"{address.shown} was made by a newer Satchel; upgrade this one")
        if found.vector is None:
            try:
                raw.execute("CREATE EXTENSION IF NOT EXISTS vector")
            except (errors.UndefinedFile, errors.FeatureNotSupported):
                raise StoreError(f"{address.shown} has no pgvector; {INSTALLING}") from None
            except errors.InsufficientPrivilege:
                raise StoreError(f"{address.shown}: this login may not add pgvector; {INSTALLING}") from None
            found = _look(raw, address)
        refuse_without_vector(address, found)
        try:
            with raw.transaction():
                steps = _migrate(raw, found)
        except errors.InsufficientPrivilege as error:
            raise StoreError(
                f"{address.shown}: this login may not create the store ({error.diag.message_primary}); run "
                "`satchel db init` with the database's owner"
            ) from None
    return steps


def _lock(raw: "psycopg.Connection[Any]") -> Any:
    from contextlib import contextmanager

    @contextmanager
    def held() -> Any:
        raw.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
        try:
            yield
        finally:
            if not raw.broken:
                raw.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))

    return held()


def refuse_without_vector(address: Address, found: Status) -> None:
    if found.vector is None:
        raise StoreError(f"{address.shown} has no pgvector; {INSTALLING}")
    version = tuple(int(part) for part in re.findall(r"\d+", found.vector)[:2])
    if version < OLDEST_VECTOR:
        raise StoreError(
            f"{address.shown} has pgvector {found.vector}; {'.'.join(map(str, OLDEST_VECTOR))} or newer is needed: "
            "install it, then run `ALTER EXTENSION vector UPDATE`"
        )


def _migrate(raw: "psycopg.Connection[Any]", found: Status) -> int:
    schema = sql.Identifier(SCHEMA)
    if found.version == 0:
        raw.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(schema))
        raw.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {}.migration "
                "(number integer PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now())"
            ).format(schema)
        )
    _make_role(raw)
    raw.execute(sql.SQL("SET LOCAL search_path TO {}, {}").format(schema, sql.Identifier(found.extensions)))
    files = _files()[found.version :]
    for number, file in enumerate(files, start=found.version + 1):
        raw.execute(file.read_text(encoding="utf-8").encode())
        raw.execute("INSERT INTO migration (number, name) VALUES (%s, %s)", (number, file.stem))
    if files:
        access = (MIGRATIONS / "access.sql").read_text(encoding="utf-8")
        raw.execute(access.replace("{schema}", SCHEMA).replace("{role}", ROLE).encode())
    return len(files)


def _make_role(raw: "psycopg.Connection[Any]") -> None:
    """The role that the policies bind. It belongs to the whole server, where another database may have made it."""
    try:
        with raw.transaction():
            raw.execute(f"CREATE ROLE {ROLE} NOLOGIN".encode())
    except (errors.DuplicateObject, errors.UniqueViolation):
        pass
    # Whoever makes a store acts as this role in it.
    row = raw.execute("SELECT pg_has_role(%s, 'MEMBER')", (ROLE,)).fetchone()
    if row is not None and not row[0]:
        raw.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(sql.Identifier(ROLE)))
