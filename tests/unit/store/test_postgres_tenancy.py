"""Raw SQL with the application's role never reaches rows of another tenant, in any table."""

import contextlib
import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict

import satchel
from in_step import Letters
from pg_server import Server
from satchel import StoreError
from satchel.store.postgres.connection import parse_address
from satchel.store.postgres.schema import prepare
from satchel.store.postgres.terms import sign

OURS, THEIRS = "alpha", "beta"
PASSWORD = "only for this test"
Raw = psycopg.Connection[Any]


class Shared(NamedTuple):
    """A database with two tenants, and a login of an application."""

    url: str
    """With every right."""
    login: str
    app_url: str
    tables: list[str]


@pytest.fixture(scope="module")
def shared(pg: Server) -> Iterator[Shared]:
    url, login = pg.new_database(), f"app_{secrets.token_hex(4)}"
    with satchel.open(url, embedder=Letters()) as bag:
        for org in (OURS, THEIRS):
            _fill(bag.scoped(org=org), org)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {login} LOGIN PASSWORD '{PASSWORD}'".encode())
        tables = _tables(owner)
        owner.execute("INSERT INTO satchel.backlog SELECT org, seq FROM satchel.memory")
        for table in tables:
            for org in (OURS, THEIRS):
                row = owner.execute(
                    f"SELECT count(*) FROM satchel.{table} WHERE org = %s".encode(), (org,)
                ).fetchone()
                assert row is not None
                assert row[0] > 0, f"{table} has nothing to try with; fill it"
        owner.execute("ANALYZE")
    assert prepare(parse_address(url), grant=[login]) == [f"granted satchel_app to {login}"]
    base = pg.dsn(str(conninfo_to_dict(url)["dbname"]), tcp=True)
    app_url = f"postgresql://{login}:{quote(PASSWORD)}@{base.partition('@')[2]}"
    yield Shared(url, login, app_url, tables)
    pg.drop(url)
    pg.run(sql.SQL("DROP ROLE {}").format(sql.Identifier(login)))


def _fill(bag: satchel.Satchel, org: str) -> None:
    first = bag.add(f"the treasure of {org} lies deep", tags=[org], session=f"{org} talk", ref=org)
    second = bag.add(f"nobody but {org} digs there", topic_key=org)
    bag.relate(first.id, second.id, "related")
    bag.get(first.id)
    session = bag.session(f"{org} session")
    session.result("dig", f"{org} found gold\n" * 50)
    session.next_turn()


def _tables(raw: Raw) -> list[str]:
    """All that the schema has, except for the list of its migrations."""
    rows = raw.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'satchel'::regnamespace "
        "AND relkind IN ('r', 'p', 'v', 'm', 'f') AND relname <> 'migration' ORDER BY 1"
    )
    return [row[0] for row in rows]


@pytest.fixture(params=["as its login", "as the role"])
def app(shared: Shared, request: pytest.FixtureRequest) -> Iterator[Raw]:
    """The application's connection, bound to one tenant; whatever it does, the other's rows stay as they are."""
    with psycopg.connect(shared.url, autocommit=True) as owner:
        before = _their_rows(owner, shared)
        with psycopg.connect(shared.app_url, autocommit=True) as raw:
            raw.execute(f"SET satchel.org = '{OURS}'".encode())
            raw.execute("SET search_path = satchel, public")
            if request.param == "as the role":
                raw.execute("SET ROLE satchel_app")
            yield raw
        assert _their_rows(owner, shared) == before


def _their_rows(owner: Raw, shared: Shared) -> dict[str, list[Any]]:
    return {
        table: owner.execute(
            f"SELECT t::text FROM satchel.{table} t WHERE org = '{THEIRS}' ORDER BY 1".encode()
        ).fetchall()
        for table in shared.tables
    }


def _count(raw: Raw, statement: str) -> int:
    row = raw.execute(statement.encode()).fetchone()
    assert row is not None
    return int(row[0])


@contextlib.contextmanager
def _undone(raw: Raw) -> Iterator[None]:
    with raw.transaction(force_rollback=True):
        yield


def test_every_table_has_a_tenant_and_a_policy_that_binds_its_rows(shared: Shared) -> None:
    with psycopg.connect(shared.url) as owner:
        rows = owner.execute(
            "SELECT tablename::text, qual, with_check, permissive, roles::text, cmd FROM pg_policies "
            "WHERE schemaname = 'satchel' ORDER BY 1"
        ).fetchall()
        assert [row[0] for row in rows] == shared.tables
        assert len({row[1:] for row in rows}) == 1
        assert rows[0][1] == rows[0][2]
        unsecured = owner.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'satchel'::regnamespace AND relkind IN ('r', 'p') "
            "AND NOT relrowsecurity AND relname <> 'migration'"
        ).fetchall()
        assert unsecured == []


def test_nothing_of_another_tenant_is_read(shared: Shared, app: Raw) -> None:
    for table in shared.tables:
        assert _count(app, f"SELECT count(*) FROM {table}") > 0
        for asked in (
            f"SELECT count(*) FROM {table} WHERE org <> '{OURS}'",
            f"SELECT count(*) FROM {table} WHERE org = '{THEIRS}' OR true AND org > '{OURS}'",
            f"SELECT count(*) FROM (SELECT * FROM {table} WHERE org = '{THEIRS}' FOR UPDATE) t",
            f"WITH a AS MATERIALIZED (SELECT * FROM {table}) SELECT count(*) FROM a WHERE org <> '{OURS}'",
            f"SELECT count(*) FROM tenant o FULL JOIN {table} t ON true WHERE t.org <> '{OURS}'",
            f"SELECT count(*) FROM ONLY {table} TABLESAMPLE SYSTEM (100) WHERE org <> '{OURS}'",
        ):
            assert _count(app, asked) == 0, asked
        with app.cursor().copy(f"COPY {table} TO STDOUT".encode()) as copy:
            copied = b"".join(copy)
        assert OURS.encode() in copied
        assert THEIRS.encode() not in copied


def test_nothing_of_another_tenant_is_changed(shared: Shared, app: Raw) -> None:
    for table in shared.tables:
        for done in (
            f"UPDATE {table} SET org = org WHERE org = '{THEIRS}'",
            f"DELETE FROM {table} WHERE org = '{THEIRS}'",
            f"DELETE FROM {table} t USING tenant o WHERE t.org <> '{OURS}'",
            f"WITH gone AS (DELETE FROM {table} RETURNING *) SELECT * FROM gone WHERE org <> '{OURS}'",
        ):
            with _undone(app):
                assert app.execute(done.encode()).rowcount == 0, done


def test_nothing_is_written_for_another_tenant(shared: Shared, app: Raw) -> None:
    for table in shared.tables:
        columns = [
            row[0]
            for row in app.execute(
                "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
                "AND NOT attisdropped AND attgenerated = '' AND attidentity = '' AND attname <> 'org'",
                (table,),
            )
        ]
        others = "".join(f", {column}" for column in columns)
        insert = f"INSERT INTO {table} (org{others}) SELECT '{THEIRS}'{others} FROM {table} LIMIT 1"
        for done in (
            insert,
            f"{insert} ON CONFLICT DO NOTHING",
            f"UPDATE {table} SET org = '{THEIRS}'",
            f"TRUNCATE {table} CASCADE",
        ):
            with pytest.raises(errors.InsufficientPrivilege), _undone(app):
                app.execute(done.encode())
        with (
            pytest.raises(errors.FeatureNotSupported, match="row-level security"),
            _undone(app),
            app.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy,
        ):
            copy.write(b"")


def test_an_upsert_does_not_take_over_the_row_of_another_tenant(app: Raw) -> None:
    with pytest.raises(errors.InsufficientPrivilege), _undone(app):
        app.execute(
            f"INSERT INTO tenant (org) VALUES ('{THEIRS}') ON CONFLICT (org) DO UPDATE SET memories = 0".encode()
        )


def test_a_relation_does_not_lead_to_the_memory_of_another_tenant(shared: Shared, app: Raw) -> None:
    with psycopg.connect(shared.url) as owner:
        row = owner.execute(f"SELECT id FROM satchel.memory WHERE org = '{THEIRS}' LIMIT 1".encode()).fetchone()
    assert row is not None
    with pytest.raises(errors.ForeignKeyViolation), _undone(app):
        app.execute(
            b"INSERT INTO relation (org, source, target, kind, strength, created_at) "
            b"SELECT org, id, %s, 'about', 1, 0 FROM memory LIMIT 1",
            row,
        )


def test_the_way_past_the_policies_finds_only_what_is_ours(app: Raw) -> None:
    assert _matching(app, OURS, f"{sign(OURS)}treasur | {sign(OURS)}treasure") == 1
    for query in (f"{sign(THEIRS)}treasur | {sign(THEIRS)}treasure", f"{sign(THEIRS)}:*"):
        assert _matching(app, OURS, query) == 0
        assert _matching(app, THEIRS, query) == 0
    assert _matching(app, OURS, f"!{sign(OURS)}") == 2
    assert _matching(app, THEIRS, f"!{sign(OURS)}") == 0


def _matching(raw: Raw, org: str, query: str) -> int:
    return _count(raw, f"SELECT count(*) FROM unnest(matching('{org}', '{query}'))")


def test_a_function_that_tells_what_it_sees_is_not_shown_the_rows_of_others(app: Raw) -> None:
    seen: list[str] = []
    app.add_notice_handler(lambda notice: seen.append(notice.message_primary or ""))
    app.execute(
        b"CREATE FUNCTION pg_temp.tell(word text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS "
        b"$$ BEGIN RAISE NOTICE '%', word; RETURN true; END $$"
    )
    app.execute(b"SELECT count(*) FROM memory WHERE pg_temp.tell(text)")
    assert any(OURS in text for text in seen)
    assert not any(THEIRS in text for text in seen)


def test_statistics_tell_nothing_of_others(app: Raw) -> None:
    assert (
        _count(app, "SELECT count(*) FROM pg_stats WHERE schemaname = 'satchel' AND tablename <> 'migration'") == 0
    )


UNTYING = [
    "SET SESSION AUTHORIZATION postgres",
    "ALTER TABLE memory DISABLE ROW LEVEL SECURITY",
    "ALTER TABLE memory OWNER TO CURRENT_USER",
    "DROP POLICY tenant ON memory",
    "CREATE POLICY open ON memory USING (true)",
    "ALTER POLICY tenant ON memory USING (true)",
    "CREATE TABLE satchel.more (org text)",
    "CREATE TRIGGER tell BEFORE INSERT ON memory FOR EACH ROW EXECUTE FUNCTION tsvector_update_trigger()",
    "CREATE OR REPLACE FUNCTION matching(tenant text, query tsquery) RETURNS bigint[] LANGUAGE sql AS 'SELECT'",
    "ALTER FUNCTION matching(text, tsquery) RESET ALL",
    "ALTER ROLE satchel_app BYPASSRLS",
    "INSERT INTO migration (number, name) VALUES (99, 'x')",
]


def test_who_is_bound_cannot_untie_itself(app: Raw) -> None:
    for statement in UNTYING:
        with pytest.raises(errors.InsufficientPrivilege), _undone(app):
            app.execute(statement.encode())


def test_who_is_bound_cannot_become_the_owner(shared: Shared, app: Raw) -> None:
    with psycopg.connect(shared.url) as owner:
        row = owner.execute("SELECT tableowner FROM pg_tables WHERE schemaname = 'satchel' LIMIT 1").fetchone()
    assert row is not None
    with pytest.raises(errors.InsufficientPrivilege), _undone(app):
        app.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(row[0])))


def test_to_switch_the_policies_off_fails_instead_of_showing_all(shared: Shared, app: Raw) -> None:
    app.execute("SET row_security = off")
    for table in shared.tables:
        with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
            app.execute(f"SELECT count(*) FROM {table}".encode())


@pytest.mark.parametrize("bound", ["RESET satchel.org", "SET satchel.org = ''", "SET satchel.org = 'nobody'"])
def test_who_is_bound_to_no_tenant_sees_none(shared: Shared, app: Raw, bound: str) -> None:
    app.execute(bound.encode())
    for table in shared.tables:
        assert _count(app, f"SELECT count(*) FROM {table}") == 0
    assert _matching(app, OURS, f"!{sign(OURS)}") == 0
    with pytest.raises(errors.InsufficientPrivilege):
        app.execute(b"INSERT INTO tenant (org) VALUES ('')")


def test_a_setting_of_an_ended_transaction_binds_to_nobody(app: Raw) -> None:
    app.execute(b"RESET satchel.org")
    with app.transaction():
        app.execute(f"SET LOCAL satchel.org = '{OURS}'".encode())
        assert _count(app, "SELECT count(*) FROM memory") == 2
    assert _count(app, "SELECT count(*) FROM memory") == 0


def test_the_name_of_the_tenant_is_all_that_binds_a_connection(app: Raw) -> None:
    """The documents say so: whoever can run SQL of their own on it can take another name."""
    app.execute(f"SET satchel.org = '{THEIRS}'".encode())
    assert _count(app, f"SELECT count(*) FROM memory WHERE org = '{THEIRS}'") == 2


def test_the_owner_is_not_bound_so_that_words_are_found_by_their_index(shared: Shared) -> None:
    with psycopg.connect(shared.url) as owner:
        forced = owner.execute("SELECT count(*) FROM pg_class WHERE relforcerowsecurity").fetchone()
        assert forced == (0,)
        definer = owner.execute(
            "SELECT p.proowner = c.relowner, p.proconfig FROM pg_proc p, pg_class c "
            "WHERE p.oid = 'satchel.matching(text, tsquery)'::regprocedure AND c.oid = 'satchel.memory'::regclass"
        ).fetchone()
        assert definer == (True, ["search_path=pg_catalog, satchel, pg_temp"])


def test_a_login_of_the_application_keeps_tenants_apart(shared: Shared) -> None:
    with satchel.open(shared.app_url, create=False, embedder="none") as bag:
        assert [memory.text for memory in bag.scoped(org=THEIRS).recent()] != []
        assert bag.recent() == []
        assert list(bag.search("treasure")) == []
        assert PASSWORD not in repr(bag)
        states = {check.name: check.state for check in bag.checks()}
        assert states["row-level security"] == "ok"


def test_a_role_that_the_policies_do_not_bind_is_refused(shared: Shared, pg: Server) -> None:
    role = sql.Identifier(shared.login)
    try:
        pg.run(sql.SQL("ALTER ROLE {} BYPASSRLS").format(role))
        # It acts as the role, which is bound.
        satchel.open(shared.app_url, create=False, embedder="none").close()
        pg.run(sql.SQL("REVOKE satchel_app FROM {}").format(role))
        with psycopg.connect(shared.url, autocommit=True) as owner:
            owner.execute(sql.SQL("GRANT USAGE ON SCHEMA satchel TO {}").format(role))
            owner.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA satchel TO {}").format(role))
        with pytest.raises(StoreError, match=f"does not bind the login {shared.login}"):
            satchel.open(shared.app_url, create=False, embedder="none")
    finally:
        pg.run(sql.SQL("ALTER ROLE {} NOBYPASSRLS").format(role))
        pg.run(sql.SQL("GRANT satchel_app TO {}").format(role))
        with psycopg.connect(shared.url, autocommit=True) as owner:
            owner.execute(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA satchel FROM {}").format(role))
            owner.execute(sql.SQL("REVOKE ALL ON SCHEMA satchel FROM {}").format(role))
