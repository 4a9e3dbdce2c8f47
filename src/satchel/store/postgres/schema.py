"""Set up a server: status, schema migrations, distribution over a Citus cluster."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg import errors, sql

from satchel.errors import InputError, StoreError, StoreFormatError, StoreReadOnlyError, StoreVersionError
from satchel.store.postgres.connection import (
    CONNECT_SECONDS,
    Access,
    Address,
    PostgresConnection,
    connect,
    reading_errors,
)

__all__ = [
    "OLDEST_SERVER",
    "ROLE",
    "SCHEMA",
    "SCHEMA_VERSION",
    "Node",
    "Status",
    "distribute",
    "first_connection",
    "look",
    "open_raw",
    "prepare",
    "refuse_newer",
    "refuse_unbound",
    "refuse_without_vector",
    "spread",
    "status",
]


SCHEMA = "satchel"
ROLE = "satchel_app"
OLDEST_SERVER = 150000


class Node(msgspec.Struct, frozen=True):
    """A node of a Citus cluster that has rows of tenants."""

    address: str
    answers: bool
    """Whether it answers the node that was asked. If not, its tenants cannot be read or written."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a database, as one login sees it."""

    place: str
    server: str
    encoding: str
    read_only: bool
    """Whether it is a replica."""
    pooled: bool
    """Whether a connection pooler such as PgBouncer answers, and passes each transaction to any of its servers."""
    vector: str | None
    """The version of pgvector; None if it is not installed in this database."""
    extensions: str
    """The schema of pgvector."""
    version: int
    """The version of Satchel's schema; 0 if there is none."""
    login: str
    role: str | None
    """The role that the store sets; None if it acts as its login."""
    bound: bool
    """Whether row-level security applies on every table. It does not for superusers and the owner of the tables."""
    sees_all: bool
    """Whether the login sees the rows of all tenants."""
    tenants: int | None = None
    """The number of tenants; None if the login does not see all, or a node does not answer."""
    citus: str | None
    distributed: bool
    """Whether the tables are distributed by Citus."""
    nodes: tuple[Node, ...] = ()

    @property
    def access(self) -> Access:
        return Access(SCHEMA, self.role, self.extensions, self.distributed, prepares=not self.pooled)


# `may_act`: since PostgreSQL 16, membership does not always allow SET ROLE.
_CATALOGUE = """
SELECT current_setting('server_version') AS server,
    pg_backend_pid() AS backend,
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
    """Return the status of a database, with the number of tenants and the health of nodes. Changes nothing."""
    with reading_errors(address.shown), open_raw(address) as raw:
        found = look(raw, address)
        nodes = _nodes(raw) if found.distributed else ()
        counted = found.sees_all and all(node.answers for node in nodes)
        return msgspec.structs.replace(found, nodes=nodes, tenants=_tenants(raw) if counted else None)


def open_raw(address: Address, *, connect_timeout: int = CONNECT_SECONDS) -> "psycopg.Connection[Any]":
    """Open a connection that acts as its login and prepares no statements."""
    return connect(address, Access(SCHEMA, None, "public"), connect_timeout=connect_timeout).raw


def look(raw: "psycopg.Connection[Any]", address: Address) -> Status:
    """Return the status of a database without what needs all of its nodes."""
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
    # Citus connects to its nodes as the current role, and this role cannot log in.
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
        pooled=found["backend"] != raw.info.backend_pid,
        version=version,
        role=ROLE if acting else None,
        bound=bool(bound),
        sees_all=bool(version and found["may_count"] and not found["bound"]),
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
    # A login with NOINHERIT has the rights of a role only after SET ROLE.
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


def _row(raw: "psycopg.Connection[Any]", statement: str, *values: str) -> Any:
    return raw.execute(statement.encode(), values).fetchone()


def _nodes(raw: "psycopg.Connection[Any]") -> tuple[Node, ...]:
    rows = raw.execute(
        "SELECT nodename, nodeport, citus_check_connection_to_node(nodename, nodeport) FROM pg_dist_node "
        "WHERE isactive AND noderole = 'primary' AND shouldhaveshards ORDER BY 1, 2"
    )
    return tuple(Node(f"{name}:{port}", answers) for name, port, answers in rows.fetchall())


def _distributed(raw: "psycopg.Connection[Any]") -> bool:
    by_hash = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = %s::regclass AND partmethod = 'h'"
    return _row(raw, by_hash, f"{SCHEMA}.{FIRST}") is not None


# Schema migrations: forward only, by one process at a time. A newer schema is not changed.


OLDEST_VECTOR = (0, 7)
# The number of the advisory lock. Other programs should not use the same one.
LOCK = 0x5A7C4E1
MIGRATIONS = Path(__file__).with_name("sql")
INSTALLING = (
    "install it on the server (https://github.com/pgvector/pgvector, or the extensions of your provider), then run "
    "`CREATE EXTENSION vector` in this database as somebody who may"
)
# Roles are shared by all databases of a server, so another one may change the same role.
TRIES = 5


def _files() -> list[Path]:
    return sorted(MIGRATIONS.glob("[0-9][0-9][0-9][0-9]_*.sql"))


SCHEMA_VERSION = len(_files())


def first_connection(address: Address, *, create: bool, unbound: bool = False) -> PostgresConnection:
    """Open a connection to a database, after migrating it if that is necessary and allowed.

    A login that row-level security does not bind is refused, unless `unbound` is set.
    """
    with contextlib.ExitStack() as unless_all_is_well:
        with reading_errors(address.shown):
            raw = open_raw(address)
            unless_all_is_well.callback(raw.close)
            access = _access_of(raw, address, create=create, unbound=unbound)
        unless_all_is_well.pop_all()
        return PostgresConnection(raw, access, address.shown)


def _access_of(raw: "psycopg.Connection[Any]", address: Address, *, create: bool, unbound: bool) -> Access:
    found = look(raw, address)
    refuse_newer(found)
    if found.version < SCHEMA_VERSION:
        if not create:
            _refuse_without_store(found)
        prepare(address)
        found = look(raw, address)
    refuse_without_vector(found)
    if not unbound:
        refuse_unbound(found)
    return found.access


def refuse_unbound(found: Status) -> None:
    if not found.bound:
        raise StoreError(
            f"{found.place}: row-level security does not bind the login {found.login}, so tenants would not be "
            "kept apart; run `satchel db init` with the owner of the tables, or use a login that is a member of "
            f"{ROLE}"
        )


def _refuse_without_store(found: Status) -> None:
    if not found.version:
        raise InputError(f"there is no store at {found.place}; `satchel db init` creates one")
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
    """Migrate a database to the newest version in one transaction, and return what was done.

    Of several processes one does it. The lock belongs to the transaction, because a connection pooler may run each
    transaction on another connection.
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
            if found.distributed:
                _change_nodes_in_turn(raw)
            try:
                done = _prepared(raw, address, found, grant, dry_run=dry_run)
            except errors.InsufficientPrivilege as error:
                why = error.diag.message_primary or ""
                who = "the owner of the database"
                if found.citus and "alter role" in why:
                    # For each further database, Citus sets all attributes of the role on its nodes anew.
                    who = f"a superuser, whom Citus needs for the role {ROLE} in a further database of a cluster"
                raise StoreError(
                    f"{address.shown}: the login {found.login} may not do this ({why}); run `satchel db init` with "
                    f"{who}"
                ) from None
        return done + (_share_members(raw) if found.distributed and not dry_run else [])


def _prepared(
    raw: "psycopg.Connection[Any]", address: Address, found: Status, grant: Sequence[str], *, dry_run: bool
) -> list[str]:
    done = []
    if found.vector is None:
        _add_vector(raw, address)
        found = look(raw, address)
        done.append(f"added pgvector {found.vector}")
    refuse_without_vector(found)
    done += _make_role(raw, address, found, dry_run=dry_run)
    done += _migrate(raw, found)
    if not done:
        done += _unprotected(raw)
    _settle_access(raw)
    if found.distributed:
        done += spread(raw)
    return done + [each for login in grant for each in _granted(raw, address, login)]


def _add_vector(raw: "psycopg.Connection[Any]", address: Address) -> None:
    try:
        raw.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (errors.UndefinedFile, errors.FeatureNotSupported):
        raise StoreError(f"{address.shown} has no pgvector; {INSTALLING}") from None
    except errors.InsufficientPrivilege:
        raise StoreError(f"{address.shown} has no pgvector, and this login may not add it; {INSTALLING}") from None


def _make_role(raw: "psycopg.Connection[Any]", address: Address, found: Status, *, dry_run: bool) -> list[str]:
    """Create the role to which row-level security applies, and grant it to this login."""
    done = []
    try:
        if not _is_there(raw, ROLE):
            _of_server(raw, sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(ROLE)))
            done.append(f"made the role {ROLE}")
        elif found.citus and not dry_run:
            done += _share_role(raw, address)
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
    """Run a statement about roles, with retries: another database may be changing the same role."""
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
    """Return which policies are missing and will be restored."""
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


# Distribution over a Citus cluster by org: all rows of a tenant are on one node.


# The table with which the others are colocated.
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
    """Distribute all tables by org in one transaction, and return what was done."""
    with reading_errors(address.shown), open_raw(address) as raw:
        with raw.transaction(force_rollback=dry_run):
            raw.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            found = look(raw, address)
            if found.citus is None:
                raise StoreError(
                    f"{address.shown} has no Citus; install it on every node and run `CREATE EXTENSION citus`, or "
                    "stay with one server, which needs none"
                )
            if tuple(int(part) for part in found.citus.split("-")[0].split(".")[:2]) < OLDEST_CITUS:
                raise StoreError(
                    f"{address.shown} has Citus {found.citus}; {'.'.join(map(str, OLDEST_CITUS))} or newer is "
                    "needed"
                )
            refuse_newer(found)
            if found.version < SCHEMA_VERSION:
                raise StoreError(f"{address.shown} has no store of this version; run `satchel db init` first")
            _change_nodes_in_turn(raw)
            done = spread(raw)
        return done + ([] if dry_run else _share_members(raw))


def _change_nodes_in_turn(raw: "psycopg.Connection[Any]") -> None:
    """Citus requires this of a transaction that changes several distributed tables."""
    raw.execute("SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")


def spread(raw: "psycopg.Connection[Any]") -> list[str]:
    """Distribute what is not distributed yet, and return what was done. An upgrade may add tables.

    Foreign keys are dropped and created again: Citus refuses them between a distributed and a local table.
    """
    schema = sql.Literal(SCHEMA)
    tables = [row[0] for row in raw.execute(sql.SQL(_TABLES).format(schema=schema, first=sql.Literal(FIRST)))]
    references = [_Reference(*row) for row in raw.execute(sql.SQL(_REFERENCES).format(schema=schema))]
    for each in references if tables else ():
        raw.execute(
            sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(_name(each.table), sql.Identifier(each.name))
        )
    for table in tables:
        beside = "none" if table == FIRST else f"{SCHEMA}.{FIRST}"
        raw.execute(
            "SELECT create_distributed_table(%s::regclass, 'org', colocate_with => %s::text)",
            (_name(table).as_string(raw), beside),
        )
    for each in references if tables else ():
        raw.execute(
            sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} {}").format(
                _name(each.table),
                sql.Identifier(each.name),
                sql.SQL(each.definition),
            )
        )
    done = [f"distributed {len(tables)} tables by org, all beside {SCHEMA}.{FIRST}"] if tables else []
    if not _row(raw, "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = %s::regclass", f"{SCHEMA}.migration"):
        # A copy on every node, so that each of them can be entered.
        raw.execute("SELECT create_reference_table(%s::regclass)", (f"{SCHEMA}.migration",))
        done.append("copied the table of migrations to every node")
    matching = f"{SCHEMA}.matching(text, tsquery)"
    delegated = "SELECT 1 FROM pg_dist_object WHERE objid = %s::regprocedure AND distribution_argument_index = 0"
    if not _row(raw, delegated, matching):
        # Citus sends a call to the node of its first argument, where it uses the index of words.
        raw.execute(
            "SELECT create_distributed_function(%s::regprocedure, 'tenant', %s, force_delegation => true)",
            (matching, f"{SCHEMA}.{FIRST}"),
        )
        done.append("words are looked up on the node of their tenant")
    if tables:
        # The policies are checked on the nodes, which need the setting of the tenant.
        raw.execute(
            sql.SQL("ALTER DATABASE {} SET citus.propagate_set_commands TO 'local'").format(
                sql.Identifier(raw.info.dbname)
            )
        )
        done.append(f"from now on use logins that are members of {ROLE}: its nodes know only whoever may log in")
    return done


_MEMBERS = """
SELECT m.rolname FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member
WHERE a.roleid = {role}::regrole AND m.rolcanlogin ORDER BY 1
"""


# Not passed on by Citus, because each node does it.
_ROLE_HERE = f"""DO $$ BEGIN
    IF to_regrole('{ROLE}') IS NULL THEN
        PERFORM set_config('citus.enable_ddl_propagation', 'off', true);
        CREATE ROLE {ROLE} NOLOGIN;
    END IF;
END $$"""
_GRANT_HERE = f"""DO $$ BEGIN
    IF NOT pg_has_role({{login}}, '{ROLE}', 'MEMBER') THEN
        PERFORM set_config('citus.enable_ddl_propagation', 'off', true);
        GRANT {{role}} TO {{member}};
    END IF;
END $$"""


def _share_role(raw: "psycopg.Connection[Any]", address: Address) -> list[str]:
    """Create the role on the nodes that lack it: Citus does so only for roles that it made in this database."""
    lacking = _on_workers(raw, f"SELECT to_regrole('{ROLE}') IS NULL")
    failed = [(node, why) for node, done, why in _on_workers(raw, _ROLE_HERE) if not done]
    if failed:
        (node, why), *_ = failed
        raise StoreError(
            f"{address.shown}: the role {ROLE} cannot be made on the node {node} of the cluster ({why}); somebody "
            f"who may runs `CREATE ROLE {ROLE} NOLOGIN` there, then try again"
        )
    return [f"made the role {ROLE} on the node {node}" for node, _, lacks in lacking if lacks == "t"]


def _on_workers(raw: "psycopg.Connection[Any]", command: str) -> list[tuple[str, bool, str]]:
    """Run a command on every worker, each in a transaction of its own.

    Returns the name of each, whether it succeeded, and its result.
    """
    return raw.execute(
        "SELECT nodename || ':' || nodeport, success, result FROM run_command_on_workers(%s)", (command,)
    ).fetchall()


def _share_members(raw: "psycopg.Connection[Any]") -> list[str]:
    """Grant the role on every node to the logins that have it here, and return what failed.

    Citus passes a grant on only if it also made the login, and not to nodes that were added later. Not part of a
    transaction: each node runs the command by itself.
    """
    members = raw.execute(sql.SQL(_MEMBERS).format(role=sql.Literal(ROLE))).fetchall()
    done = []
    for (login,) in members:
        command = sql.SQL(_GRANT_HERE).format(
            login=sql.Literal(login), member=sql.Identifier(login), role=sql.Identifier(ROLE)
        )
        failed = [(node, why) for node, granted, why in _on_workers(raw, command.as_string(raw)) if not granted]
        done += [f"the node {node} does not let {login} in: {why}; mend that and try again" for node, why in failed]
    return done


def _name(table: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, table)
