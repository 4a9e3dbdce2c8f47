"""Creating and migrating a PostgreSQL store: once, concurrently, by allowed logins only, and never partially."""

import multiprocessing
import secrets
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import msgspec
import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict

import satchel
from pg_server import Server
from satchel import Draft, InputError, StoreError, StoreFormatError, StoreReadOnlyError, StoreVersionError
from satchel.store.locations import prepare_server, server_status
from satchel.store.postgres import schema
from satchel.store.postgres.connection import parse_address
from satchel.store.rows import text_key

NEWEST = schema.SCHEMA_VERSION
# Before a test changes the version, of which it keeps a copy.
import_module("satchel.store.postgres.health")
PASSWORD = "only for this test"
TOGETHER = 8


@pytest.fixture
def empty(pg: Server) -> Iterator[str]:
    """A database with nothing in it."""
    url = pg.new_database()
    yield url
    pg.drop(url)


class Logins:
    """Makes logins, and takes them away with all they own."""

    def __init__(self, pg: Server) -> None:
        self._pg = pg
        self.names: list[str] = []

    def make(self, url: str, *, rights: str = "", owner: bool = False) -> tuple[str, str]:
        """A login's name, and its way to a database, which it may own."""
        name = f"login_{secrets.token_hex(4)}"
        self._pg.run(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} " + rights).format(sql.Identifier(name), PASSWORD))
        self.names.append(name)
        database = str(conninfo_to_dict(url)["dbname"])
        if owner:
            words = sql.SQL("ALTER DATABASE {} OWNER TO {}")
            self._pg.run(words.format(sql.Identifier(database), sql.Identifier(name)))
        place = self._pg.dsn(database, tcp=True).partition("@")[2]
        return name, f"postgresql://{name}:{quote(PASSWORD)}@{place}"


@pytest.fixture
def logins(pg: Server, empty: str) -> Iterator[Logins]:
    made = Logins(pg)
    yield made
    pg.drop(empty)
    for name in made.names:
        pg.run(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def _add_vector(url: str) -> None:
    with psycopg.connect(url) as raw:
        raw.execute("CREATE EXTENSION vector")


def _recorded(url: str) -> list[Any]:
    with psycopg.connect(url) as raw:
        return raw.execute("SELECT number, name FROM satchel.migration ORDER BY 1").fetchall()


def _open(url: str, start: Any, told: Any) -> None:
    start.wait()
    try:
        satchel.open(url, embedder="none").close()
        told.put("")
    except satchel.SatchelError as error:
        told.put(str(error))


def test_of_many_processes_that_open_an_empty_database_at_once_one_makes_the_store(empty: str) -> None:
    context = multiprocessing.get_context("fork")
    start, told = context.Barrier(TOGETHER), context.SimpleQueue()
    processes = [context.Process(target=_open, args=(empty, start, told)) for _ in range(TOGETHER)]
    for process in processes:
        process.start()
    assert [told.get() for _ in processes] == [""] * TOGETHER
    for process in processes:
        process.join()
    assert _recorded(empty) == [(number, file.stem) for number, file in enumerate(schema._files(), start=1)]


def test_it_says_what_it_did_and_does_it_once(empty: str) -> None:
    before = server_status(empty)
    assert (before.version, before.vector, before.tenants) == (0, None, None)
    would = prepare_server(empty, dry_run=True)
    assert server_status(empty) == before
    done = prepare_server(empty)
    assert done == would
    assert done[0].startswith("added pgvector ")
    assert "brought the schema to version 0001_initial" in done
    assert prepare_server(empty) == []
    after = server_status(empty)
    assert (after.version, after.role, after.bound, after.tenants) == (NEWEST, "satchel_app", True, 0)


def test_an_upgrade_is_whole_or_not_there_and_its_tables_are_bound(
    pg_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = 'CREATE TABLE more (org text COLLATE "C" PRIMARY KEY);\n'
    step = tmp_path / f"{NEWEST + 1:04}_more.sql"
    files = [*schema._files(), step]
    monkeypatch.setattr(schema, "_files", lambda: files)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", NEWEST + 1)
    step.write_text(table + "SELECT 1 / 0;")
    with pytest.raises(StoreError, match="division by zero"):
        satchel.open(pg_url)
    assert [number for number, _ in _recorded(pg_url)] == list(range(1, NEWEST + 1))
    needed = f"has schema version {NEWEST}, {NEWEST + 1} is needed: run `satchel db upgrade`"
    with pytest.raises(StoreError, match=needed):
        satchel.open(pg_url, create=False)
    step.write_text(table)
    satchel.open(pg_url, embedder="none").close()
    assert _recorded(pg_url)[-1] == (NEWEST + 1, step.stem)
    found = server_status(pg_url)
    assert (found.version, found.bound) == (NEWEST + 1, True)
    with psycopg.connect(pg_url) as raw:
        policies = raw.execute("SELECT policyname FROM pg_policies WHERE tablename = 'more'").fetchall()
    assert policies == [("tenant",)]


def test_a_newer_store_is_left_alone(pg_url: str) -> None:
    with psycopg.connect(pg_url) as raw:
        raw.execute("INSERT INTO satchel.migration (number, name) VALUES (%s, 'of the future')", (NEWEST + 1,))
    for attempt in (satchel.open, prepare_server):
        with pytest.raises(
            StoreVersionError, match=f"made by a newer Satchel; this one knows {NEWEST}: upgrade it"
        ):
            attempt(pg_url)
    assert _recorded(pg_url)[-1] == (NEWEST + 1, "of the future")


def test_memories_from_before_confirmations_are_confirmed_by_their_text(pg_url: str) -> None:
    texts = ["apple", "a\0b", "\ufdd0", "Größe " * 1000]
    with satchel.open(pg_url, embedder="none") as bag:
        view = bag.scoped(org="acme", project="p", session="s")
        before = view.add_many(Draft(text) for text in texts)
        turn = view.add("Yes.", tier="conversation")
    with psycopg.connect(pg_url) as raw:
        for column in ("text_key", "confirmations", "confirmed_at", "tail", "metadata"):
            raw.execute(f"ALTER TABLE satchel.memory DROP COLUMN {column}".encode())
        raw.execute("DROP TABLE satchel.change")
        raw.execute("ALTER TABLE satchel.tenant DROP COLUMN changes, DROP COLUMN mark")
        raw.execute("DROP INDEX satchel.memory_revised, satchel.relation_time, satchel.history_unrelated")
        raw.execute("DROP FUNCTION satchel.matching(text, tsquery)")
        raw.execute(
            "CREATE FUNCTION satchel.matching(query tsquery) RETURNS SETOF bigint LANGUAGE sql "
            "AS 'SELECT 1::bigint'"
        )
        raw.execute("DELETE FROM satchel.migration WHERE number >= 2")
    with satchel.open(pg_url, embedder="none") as bag:
        view = bag.scoped(org="acme", project="p", session="s")
        again = view.add_many(Draft(text) for text in texts)
        assert [memory.id for memory in again] == [memory.id for memory in before]
        assert [memory.confirmations for memory in again] == [1] * len(texts)
        assert view.add("Yes.", tier="conversation").id != turn.id
        assert bag.scoped(org="rival", project="p", session="s").add("apple").confirmations == 0
        assert [check for check in bag.checks() if check.state == "failed"] == []


def test_a_text_is_looked_for_by_the_index_of_its_tenant(pg_url: str) -> None:
    with satchel.open(pg_url, embedder="none") as bag:
        view = bag.scoped(org="acme")
        memory = view.add_many(Draft(f"note {number}") for number in range(50))[0]
        with bag._store.within("acme")._read("acme") as db:  # type: ignore[attr-defined]
            values = {"keys": str([text_key(memory)]), "text_key": text_key(memory), "now": 0}
            for name in ("text_keys_held", "memory_by_text"):
                where = "m.org = %(org)s AND m.text_key = %(text_key)s"
                plan = db.execute("EXPLAIN " + db.statement(name, where=where), values)
                assert "memory_text_key" in "\n".join(row[0] for row in plan)


def test_a_short_id_is_looked_for_by_the_index_of_its_tenant(pg_url: str) -> None:
    with satchel.open(pg_url, embedder="none") as bag:
        view = bag.scoped(org="acme")
        memory = view.add_many(Draft(f"note {number}") for number in range(50))[0]
        assert view.get(view.short_ids([memory])[0]).id == memory.id
        with bag._store.within("acme")._read("acme") as db:  # type: ignore[attr-defined]
            values = {"first": "0", "last": "1", "limit": 3, "ids": str([memory.id]).replace("'", '"')}
            for name, scans in (("ids_with_tail", 1), ("tails_beside", 2)):
                plan = db.execute("EXPLAIN " + db.statement(name, where="m.org = %(org)s"), values)
                lines = [row[0] for row in plan]
                assert sum("memory_tail" in line for line in lines) == scans, "\n".join(lines)
                assert not [line for line in lines if "Seq Scan on memory" in line], lines


FOREIGN = [
    "CREATE TABLE satchel.orders (id bigint)",
    "CREATE TABLE satchel.migration (revision text)",
    "CREATE TABLE satchel.migration (number integer, name text); INSERT INTO satchel.migration VALUES (7, 'x')",
]


def test_a_schema_of_somebody_else_is_refused_and_left_alone(empty: str) -> None:
    with psycopg.connect(empty, autocommit=True) as raw:
        for made in FOREIGN:
            raw.execute(f"DROP SCHEMA IF EXISTS satchel CASCADE; CREATE SCHEMA satchel; {made}".encode())
            with pytest.raises(StoreFormatError, match="tables that are not Satchel's; rename it"):
                satchel.open(empty)
            left = raw.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'satchel'").fetchone()
            assert left == (1,)
            assert raw.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone() is None


def test_a_database_that_is_not_in_unicode_is_refused(pg: Server) -> None:
    name = f"ascii_{secrets.token_hex(4)}"
    pg.run(sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'SQL_ASCII'").format(sql.Identifier(name)))
    try:
        with pytest.raises(StoreError, match=r"keeps text as SQL_ASCII; memories need .* ENCODING 'UTF8'"):
            satchel.open(pg.dsn(name))
    finally:
        pg.drop(pg.dsn(name))


def test_a_database_that_can_only_be_read_is_read_and_says_so_when_written(pg: Server, pg_url: str) -> None:
    satchel.open(pg_url, embedder="none").close()
    name = sql.Identifier(str(conninfo_to_dict(pg_url)["dbname"]))
    pg.run(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only TO on").format(name))
    with satchel.open(pg_url, create=False, embedder="none") as bag:
        assert bag.recent() == []
        assert bag.checks()
    with pytest.raises(StoreReadOnlyError, match="can only be read; name the server that takes writes"):
        prepare_server(pg_url)


def test_a_replica_is_not_changed(pg_rows_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = schema._CATALOGUE.replace("pg_is_in_recovery()", "true")
    monkeypatch.setattr(schema, "_CATALOGUE", replica)
    with pytest.raises(StoreReadOnlyError, match="is a replica and can only be read; name its primary server"):
        prepare_server(pg_rows_url)


# Another store on the server has made the role.
@pytest.mark.usefixtures("worker_database")
def test_an_owner_who_may_make_no_role_is_told_what_to_ask_for(pg: Server, empty: str, logins: Logins) -> None:
    _add_vector(empty)
    name, url = logins.make(empty, owner=True)
    with pytest.raises(StoreError, match=f"`GRANT satchel_app TO {name}`, then try again"):
        satchel.open(url)
    assert server_status(empty).version == 0
    pg.run(sql.SQL("GRANT satchel_app TO {}").format(sql.Identifier(name)))
    with satchel.open(url, embedder="none") as bag:
        bag.add("made by an owner who is no superuser")
    assert server_status(url).tenants == 1
    pg.run(sql.SQL("REVOKE satchel_app FROM {}").format(sql.Identifier(name)))
    with pytest.raises(StoreError, match=f"row-level security does not bind the login {name}"):
        satchel.open(url)


def test_an_owner_who_may_make_roles_makes_its_own_and_acts_as_it(
    empty: str, logins: Logins, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since PostgreSQL 16 whoever makes a role is a member of it, and yet may not act as it."""
    role = f"app_{secrets.token_hex(4)}"
    for module in (schema, schema):
        monkeypatch.setattr(module, "ROLE", role)
    _add_vector(empty)
    name, url = logins.make(empty, rights="CREATEROLE", owner=True)
    logins.names.insert(0, role)
    assert f"made the role {role}" in prepare_server(url)
    found = server_status(url)
    assert (found.login, found.role, found.bound) == (name, role, True)
    with satchel.open(url, embedder="none") as bag:
        bag.add("apples")
        assert [hit.memory.text for hit in bag.search("apples")] == ["apples"]


@pytest.mark.usefixtures("worker_database")
def test_a_login_without_rights_is_told_who_can_help(pg: Server, empty: str, logins: Logins) -> None:
    name, url = logins.make(empty)
    with pytest.raises(
        StoreError, match="has no pgvector, and this login may not add it; install it on the server"
    ):
        satchel.open(url)
    _add_vector(empty)
    pg.run(sql.SQL("GRANT satchel_app TO {}").format(sql.Identifier(name)))
    with pytest.raises(StoreError, match=r"may not do this \(permission denied for database .*with the owner"):
        satchel.open(url)
    with pytest.raises(InputError, match=r"there is no store at .*; `satchel db init` creates one"):
        satchel.open(url, create=False)
    pg.run(sql.SQL("REVOKE satchel_app FROM {}").format(sql.Identifier(name)))
    prepare_server(empty)
    with pytest.raises(StoreError, match=f"may not read the store; its owner .*`satchel db init --grant {name}`"):
        satchel.open(url)
    assert prepare_server(empty, grant=[name]) == [f"granted satchel_app to {name}"]
    satchel.open(url, embedder="none").close()
    assert server_status(url).tenants is None
    with pytest.raises(InputError, match="has no login 'nobody_at_all'; make it first"):
        prepare_server(empty, grant=["nobody_at_all"])


@pytest.mark.parametrize(
    ("rights", "how", "role"), [("NOINHERIT", "", "satchel_app"), ("", " WITH SET FALSE", None)]
)
def test_a_member_acts_as_the_role_or_has_its_rights(
    pg: Server, empty: str, logins: Logins, rights: str, how: str, role: str | None
) -> None:
    prepare_server(empty)
    name, url = logins.make(empty, rights=rights)
    with psycopg.connect(empty) as raw:
        if raw.info.server_version < 160000 and how:
            pytest.skip("there a member may always act as its role")
        # Since PostgreSQL 16 a login's attribute is that of the grants made after it.
        raw.execute(f"GRANT satchel_app TO {name}{how}".encode())
    found = server_status(url)
    assert (found.version, found.role, found.bound) == (NEWEST, role, True)
    with satchel.open(url, embedder="none") as bag:
        bag.add("apples")
        assert [hit.memory.text for hit in bag.search("apples")] == ["apples"]


class Deaf:
    """A connection that fails at every statement."""

    def __init__(self, error: type[psycopg.Error] = psycopg.Error, *, server: int = 180000) -> None:
        self._error = error
        self.info = SimpleNamespace(server_version=server)

    def execute(self, *_: object) -> None:
        raise self._error("no")


ADDRESS = parse_address("postgresql://u:geheim@h/d")


@pytest.mark.parametrize("error", [errors.UndefinedFile, errors.FeatureNotSupported])
def test_a_server_without_pgvector_is_told_how_to_get_it(error: type[psycopg.Error]) -> None:
    with pytest.raises(StoreError, match=r"h/d has no pgvector; install it .*https://github.com/pgvector/pgvector"):
        schema._add_vector(Deaf(error), ADDRESS)  # type: ignore[arg-type]


def test_an_extension_that_is_not_installed_fails_as_is_supposed_here(pg: Server) -> None:
    with (
        psycopg.connect(pg.dsn()) as raw,
        pytest.raises((errors.UndefinedFile, errors.FeatureNotSupported), match="not available"),
    ):
        raw.execute("CREATE EXTENSION IF NOT EXISTS no_such_extension")


def test_a_server_that_is_too_old_is_refused_before_it_is_asked_anything() -> None:
    with pytest.raises(StoreError, match="is PostgreSQL 14, which is too old; version 15 or newer is needed"):
        schema.look(Deaf(server=140017), ADDRESS)  # type: ignore[arg-type]


def test_a_pgvector_that_is_too_old_is_refused(pg_rows_url: str) -> None:
    found = server_status(pg_rows_url)
    schema.refuse_without_vector(found)
    with pytest.raises(StoreError, match=r"has pgvector 0.6.2; 0.7 or newer .*`ALTER EXTENSION vector UPDATE`"):
        schema.refuse_without_vector(msgspec.structs.replace(found, vector="0.6.2"))
