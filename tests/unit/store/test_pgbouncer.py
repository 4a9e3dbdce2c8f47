"""PgBouncer in transaction mode: many clients share a few connections to the server, and know nothing of it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import satchel
from conftest import Cli
from pg_bouncer import Bouncer, bouncer, needs_pgbouncer
from pg_server import Server
from satchel import Draft
from satchel.errors import InputError, StoreError, StoreUnreachableError
from satchel.store.locations import server_status
from satchel.store.postgres import search
from satchel.store.postgres.connection import PREPARE_AFTER, parse_address

pytestmark = [needs_pgbouncer, pytest.mark.slow]

CLIENTS = 8
WRITES = 2 * PREPARE_AFTER


@pytest.fixture
def url(pg_url: str, pg_bouncer: Bouncer) -> str:
    return pg_bouncer.url(pg_url)


def test_a_pooler_is_recognised_and_no_statement_is_prepared_then(url: str, pg_url: str):
    assert server_status(url).pooled
    assert not server_status(pg_url).pooled
    for place, prepares in ((url, False), (pg_url, True)):
        with satchel.open(place, embedder="none") as bag, bag._store.reading() as db:
            assert db.access.prepares == prepares
            for _ in range(WRITES):
                db.execute("SELECT count(*) FROM memory WHERE org = %(org)s")
            assert bool(db.execute("SELECT count(*) FROM pg_prepared_statements").get) == prepares


def test_clients_that_share_connections_write_and_find_only_what_is_theirs(url: str, pg_url: str):
    failures: list[Exception] = []

    def use_store(org: str) -> None:
        try:
            with satchel.open(url, embedder="static") as bag:
                view = bag.scoped(org=org)
                for number in range(WRITES):
                    view.add(f"{org} keeps boat {number} in the harbor", ref=str(number))
                    assert all(hit.memory.text.startswith(f"{org} ") for hit in view.search("boat in the harbor"))
                    assert "the harbor" in view.context("boat", token_budget=200).text
                view.add_many(Draft(f"{org} has plan {number}") for number in range(40))
                assert len(view.recent(limit=100)) == WRITES + 40
        except (AssertionError, satchel.SatchelError) as error:
            failures.append(error)

    crew = [threading.Thread(target=use_store, args=(f"org{number}",)) for number in range(CLIENTS)]
    for each in crew:
        each.start()
    for each in crew:
        each.join()
    assert not failures
    with satchel.open(pg_url) as bag:
        for number in range(CLIENTS):
            assert [each for each in bag.scoped(org=f"org{number}").checks() if each.state == "failed"] == []


def test_nothing_of_a_tenant_stays_on_a_connection_that_others_get_next(url: str, pg_bouncer: Bouncer):
    def fail(view: satchel.Satchel) -> None:
        with view.transaction():
            view.add("is rolled back")
            view.update(kept.id, kind="no kind")

    with satchel.open(url, embedder="none") as bag:
        view = bag.scoped(org="acme")
        kept = view.add("a secret of acme")
        with pytest.raises(InputError):
            fail(view)
        used = [row for row in pg_bouncer.asked("SHOW SERVERS") if str(row["database"]) in url]
        assert used
        seen = set()
        clients = [psycopg.connect(url) for _ in range(3)]
        # In a transaction each, so that each has a connection of its own.
        for client in clients:
            tenant, role, login, pid = client.execute(
                "SELECT current_setting('satchel.org', true), current_user, session_user, pg_backend_pid()"
            ).fetchone()
            assert not tenant
            assert role == login
            seen.add(pid)
        assert len(seen) == len(clients)
        for client in clients:
            client.close()


def test_a_store_is_set_up_indexed_and_moved_through_a_pooler(
    pg: Server, pg_bouncer: Bouncer, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    behind = pg.new_database()
    url = pg_bouncer.url(behind)
    assert "brought the schema to version" in cli("db", "init", "--db", url).stdout
    assert "through a connection pooler" in cli("db", "status", "--db", url).stdout
    with satchel.open(url) as bag:
        bag.add_many(Draft(f"boat {number} in the harbor", ref=str(number)) for number in range(150))
    assert search.index_large_tenants(parse_address(url), least=100) == ["indexed the 150 vectors of 'default'"]
    monkeypatch.setattr(search, "LARGE_TENANT", 100)
    with satchel.open(url) as bag:
        assert len(bag.search("boat", limit=5)) == 5
    copied = cli("migrate", "--from", url, "--to", "copy.db")
    assert copied.returncode == 0, copied.stderr
    back = cli("migrate", "--from", "copy.db", "--to", pg_bouncer.url(pg.new_database()))
    assert back.returncode == 0, back.stderr
    pg.drop(behind)


@pytest.fixture
def own_bouncer(pg: Server) -> Iterator[Bouncer]:
    """A PgBouncer that a test may change."""
    with bouncer(pg, {"query_wait_timeout": "1", "server_login_retry": "1"}) as started:
        yield started


def test_connections_that_the_pooler_ends_are_replaced(own_bouncer: Bouncer, pg_url: str):
    with satchel.open(own_bouncer.url(pg_url), embedder="none") as bag:
        bag.add("before")
        own_bouncer.asked("RECONNECT")
        bag.add("after it has new connections")
        with psycopg.connect(pg_url, autocommit=True) as raw:
            ended = raw.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchone()
        assert ended is not None
        assert ended[0] > 0
        bag.add("after the server has ended them")
        assert len(bag.recent()) == 3


def test_a_pooler_that_has_no_connection_left_is_named_in_one_line(
    own_bouncer: Bouncer, pg_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("satchel.store.postgres.store.PATIENCE", 0.0)
    url = own_bouncer.url(pg_url)
    with satchel.open(url, embedder="none") as bag:
        holders = [psycopg.connect(url) for _ in range(3)]
        for each in holders:
            each.execute("SELECT 1")
        with pytest.raises(StoreUnreachableError, match=r"does not answer: .*query_wait_timeout") as caught:
            bag.add("waits in vain")
        assert "\n" not in str(caught.value)
        for each in holders:
            each.close()
        bag.add("is stored")


def test_a_database_that_the_pooler_does_not_know_is_named_in_one_line(own_bouncer: Bouncer):
    url = own_bouncer.url("postgresql://postgres@/satchel_no_such_database")
    with pytest.raises(StoreError, match=r'refuses: .*"satchel_no_such_database" does not exist; check the login'):
        satchel.open(url)
