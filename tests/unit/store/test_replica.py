"""Reads from a streaming replica: it answers them when it is up to date, and they are never stale."""

import logging
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

import satchel
from conftest import Cli
from pg_bouncer import bouncer, needs_pgbouncer
from pg_pair import Node, Pair, pair, until
from pg_server import PASSWORD, Server
from satchel import Draft, InputError, Satchel
from satchel.errors import StoreBusyError, StoreError, StoreUnreachableError
from satchel.store.locations import prepare_server
from satchel.store.postgres.connection import Access, PostgresConnection, parse_address
from satchel.store.postgres.replica import replica_of
from service_client import Served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    with pair() as started:
        yield started


@pytest.fixture
def database(servers: Pair, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a database with an empty store, which the replica has too."""
    name = f"test_{abs(hash(request.node.nodeid)):x}"
    servers.primary.run(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    prepare_server(servers.primary.url(name))
    servers.catch_up()
    yield name
    servers.resume()


@pytest.fixture
def bag(servers: Pair, database: str) -> Iterator[Satchel]:
    with opened(servers, database) as found:
        yield found


def opened(servers: Pair, database: str, **options: object) -> Satchel:
    options = {"embedder": "static"} | options
    return satchel.open(servers.primary.url(database), read_db=servers.standby.url(database), **options)


def is_from_replica(bag: Satchel) -> bool:
    """Return whether the replica answers a read of the org of a view."""
    with bag._store.reading(bag.scope.org) as db:
        return bool(db.execute("SELECT pg_is_in_recovery()").get)


def test_reads_are_answered_by_a_replica_that_is_up_to_date_and_writes_by_the_primary(servers: Pair, bag: Satchel):
    kept = bag.add("We rotate the keys every hour", tags=["keys"])
    servers.catch_up()
    assert is_from_replica(bag)
    assert [hit.memory.id for hit in bag.search("keys")] == [kept.id]
    assert "every hour" in bag.context("How often are keys rotated?", token_budget=200).text
    assert bag.get(kept.id).text == kept.text
    bag.update(kept.id, title="Keys")
    servers.catch_up()
    assert is_from_replica(bag)
    assert bag.get(kept.id).title == "Keys"


def test_reads_inside_a_transaction_that_writes_see_what_it_wrote(bag: Satchel):
    with bag.transaction():
        bag.add("not committed yet")
        assert not is_from_replica(bag)
        assert [memory.text for memory in bag.recent()] == ["not committed yet"]


def test_a_replica_that_is_behind_is_not_asked_and_other_tenants_still_are(
    servers: Pair, database: str, bag: Satchel
):
    acme, other = bag.scoped(org="acme"), bag.scoped(org="other")
    acme.add("an apple")
    other.add("a pear")
    servers.pause()
    assert is_from_replica(acme)
    assert is_from_replica(other)
    acme.add("a plum")
    # Written by another process, which this one knows nothing of.
    with satchel.open(servers.primary.url(database), embedder="static") as second:
        second.scoped(org="acme").add("a grape")
    assert not is_from_replica(acme)
    assert {memory.text for memory in acme.recent()} == {"an apple", "a plum", "a grape"}
    assert is_from_replica(other)
    servers.resume()
    assert is_from_replica(acme)
    assert {memory.text for memory in acme.recent()} == {"an apple", "a plum", "a grape"}


def test_an_erased_tenant_and_its_successor_are_not_confused_with_what_the_replica_still_has(
    servers: Pair, bag: Satchel
):
    acme = bag.scoped(org="acme")
    acme.add("is erased")
    servers.pause()
    acme.erase()
    assert acme.recent() == []
    acme.add("is new")
    assert [memory.text for memory in acme.recent()] == ["is new"]
    servers.resume()
    assert [memory.text for memory in acme.recent()] == ["is new"]
    assert is_from_replica(acme)


def test_a_session_is_read_as_it_was_written_last(servers: Pair, bag: Satchel):
    session = bag.session("work")
    servers.pause()
    session.result("build", "the build is green")
    assert session.state().results == 1
    assert bag.session("work").state() == session.state()
    servers.resume()


def test_the_primary_answers_what_concerns_all_tenants(servers: Pair, bag: Satchel):
    bag.add("an apple")
    servers.pause()
    bag.scoped(org="later").add("a pear")
    # The mark of the default org is the same on both.
    assert is_from_replica(bag)
    assert bag._store.orgs() == ["default", "later"]
    servers.resume()


def test_a_replica_that_is_killed_is_replaced_by_the_primary_and_used_again_when_it_is_back(
    servers: Pair, bag: Satchel, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("satchel.store.postgres.replica.REST_SECONDS", 0.2)
    bag.add("an apple")
    servers.catch_up()
    assert is_from_replica(bag)
    servers.standby.kill()
    with caplog.at_level(logging.WARNING, logger="satchel"):
        for _ in range(3):
            assert not is_from_replica(bag)
            assert [memory.text for memory in bag.recent()] == ["an apple"]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert said[0].startswith("reads go to the primary server: postgresql://postgres@127.0.0.1:")
    assert "does not answer" in said[0]
    assert "\n" not in said[0]
    bag.add("a pear")
    servers.standby.start()
    servers.catch_up()
    until(lambda: is_from_replica(bag))
    assert {memory.text for memory in bag.recent()} == {"an apple", "a pear"}


def test_a_replica_that_is_killed_while_it_answers_fails_that_read_only(servers: Pair, bag: Satchel):
    bag.add("an apple")
    servers.catch_up()

    def read() -> None:
        with bag._store.reading():
            assert is_from_replica(bag)
            servers.standby.kill()
            bag.recent()

    try:
        with pytest.raises(StoreUnreachableError, match="does not answer") as caught:
            read()
        assert str(caught.value).startswith(f"postgresql://postgres@127.0.0.1:{servers.standby.port}/")
        assert [memory.text for memory in bag.recent()] == ["an apple"]
    finally:
        servers.standby.start()


def test_a_store_is_opened_while_its_replica_is_down(servers: Pair, database: str):
    servers.standby.kill()
    try:
        with opened(servers, database) as bag:
            bag.add("an apple")
            assert [memory.text for memory in bag.recent()] == ["an apple"]
    finally:
        servers.standby.start()


def test_a_replica_that_has_not_received_a_migration_is_not_asked(servers: Pair, database: str):
    with psycopg.connect(servers.primary.url(database), autocommit=True) as raw:
        taken = raw.execute(
            "DELETE FROM satchel.migration WHERE number = (SELECT max(number) FROM satchel.migration) "
            "RETURNING number, name"
        ).fetchone()
        servers.pause()
        raw.execute("INSERT INTO satchel.migration (number, name) VALUES (%s, %s)", taken)
    with opened(servers, database) as bag:
        assert not is_from_replica(bag)
        bag.add("an apple")
        assert [memory.text for memory in bag.recent()] == ["an apple"]
    servers.resume()


def test_a_read_that_holds_up_the_replica_is_ended_with_a_line_that_says_to_try_again(
    servers: Pair, database: str, bag: Satchel
):
    bag.add("an apple")
    servers.standby.run("ALTER SYSTEM SET max_standby_streaming_delay = 0")
    servers.standby.run("SELECT pg_reload_conf()")
    servers.catch_up()

    def read() -> None:
        with bag._store.reading() as db:
            assert is_from_replica(bag)
            db.execute("SELECT count(*) FROM memory WHERE org = %(org)s")
            with psycopg.connect(servers.primary.url(database), autocommit=True) as raw:
                raw.execute("ALTER TABLE satchel.memory SET (fillfactor = 90)")
            db.execute("SELECT pg_sleep(60)")

    try:
        with pytest.raises(StoreBusyError, match=r"conflict with recovery; .*try again") as caught:
            read()
        assert "\n" not in str(caught.value)
        assert [memory.text for memory in bag.recent()] == ["an apple"]
    finally:
        servers.standby.run("ALTER SYSTEM RESET max_standby_streaming_delay")
        servers.standby.run("SELECT pg_reload_conf()")


def test_a_read_that_is_complete_does_not_fail_because_its_connection_ends(servers: Pair, bag: Satchel):
    bag.add("an apple")
    servers.catch_up()
    _read_and_end_connection(servers.standby, bag)
    servers.pause()
    bag.add("a pear")
    _read_and_end_connection(servers.primary, bag)


def _read_and_end_connection(node: Node, bag: Satchel) -> None:
    with bag._store.reading() as db:
        where, pid = db.execute("SELECT inet_server_port(), pg_backend_pid()").fetchone()
        assert str(where) == node.port
        assert "an apple" in [memory.text for memory in bag.recent()]
        node.run(f"SELECT pg_terminate_backend({pid}, 10000)")


def test_what_is_no_replica_of_the_store_is_refused(servers: Pair, database: str, pg: Server, pg_url: str):
    own = servers.primary.url(database)
    servers.primary.run("CREATE DATABASE another TEMPLATE template0 ENCODING 'UTF8'")
    servers.catch_up()
    for address in (pg_url, servers.standby.url("another")):
        with pytest.raises(InputError, match=r"is no replica of postgresql://postgres@127\.0\.0\.1") as caught:
            satchel.open(own, read_db=address)
        assert PASSWORD not in str(caught.value)
    with pytest.raises(InputError, match="reads are answered by a replica of a server"):
        satchel.open(own, read_db="notes.db")
    with pytest.raises(InputError, match="reads are answered by a replica of a server"):
        satchel.open(":memory:", read_db=servers.standby.url(database))


def test_a_cluster_has_no_replica(servers: Pair, database: str):
    with psycopg.connect(servers.primary.url(database)) as raw:
        cluster = PostgresConnection(raw, Access("satchel", None, "public", distributed=True), "postgresql://h/d")
        with pytest.raises(InputError, match="is distributed by Citus, which has no replica of the whole store"):
            replica_of(cluster, parse_address(servers.standby.url(database)))


def test_a_wrong_password_for_the_replica_is_refused_and_not_printed(servers: Pair, database: str):
    wrong = servers.standby.url(database).replace(urlsplit(servers.standby.url(database)).password or "", "wr0ng")
    with pytest.raises(StoreError, match="refuses: password authentication failed") as caught:
        satchel.open(servers.primary.url(database), read_db=wrong)
    assert "wr0ng" not in str(caught.value)


def test_the_environment_names_a_replica_for_the_store_that_it_names(
    servers: Pair, database: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
):
    own, reads = servers.primary.url(database), servers.standby.url(database)
    monkeypatch.setenv("SATCHEL_DB", own)
    monkeypatch.setenv("SATCHEL_READ_DB", reads)
    with satchel.open(embedder="none") as bag:
        assert is_from_replica(bag)
    # A store that is named otherwise has another replica, or none.
    with satchel.open(own) as bag:
        assert not is_from_replica(bag)
    assert "replica " in cli("db", "status", SATCHEL_DB=own, SATCHEL_READ_DB=reads).stdout
    assert "replica " not in cli("db", "status", "--db", own, SATCHEL_READ_DB=reads).stdout


@needs_pgbouncer
def test_a_replica_behind_a_pooler_answers_reads(servers: Pair, database: str):
    users = f'"postgres" "{PASSWORD}"\n'
    with bouncer(servers.primary, users=users) as own, bouncer(servers.standby, users=users) as reads:
        place = own.url(servers.primary.url(database)), reads.url(servers.standby.url(database))
        with satchel.open(place[0], read_db=place[1], embedder="none") as bag:
            for number in range(10):
                bag.add(f"an apple {number}")
                assert len(bag.recent(limit=20)) == number + 1
            servers.catch_up()
            assert is_from_replica(bag)
            assert len(bag.recent(limit=20)) == 10


STEPS = 60


def test_two_writers_and_a_replica_that_comes_and_goes_never_show_an_old_state(servers: Pair, database: str):
    chance = random.Random(11)
    from_replica = paused = 0
    with (
        opened(servers, database) as first,
        opened(servers, database) as second,
        satchel.open(servers.primary.url(database), embedder="static", cache_mb=0) as witness,
    ):
        for step in range(STEPS):
            bag, org = chance.choice((first, second)), chance.choice(("acme", "other"))
            view, there = bag.scoped(org=org), witness.scoped(org=org)
            match chance.randrange(6):
                case 0 | 1:
                    view.add(f"boat {step} lies in the harbor", ref=str(chance.randrange(12)))
                case 2 if known := there.recent():
                    view.forget(chance.choice(known).id, purge=True)
                case 3:
                    view.add_many(Draft(f"train {step} of {number}") for number in range(3))
                case 4:
                    servers.resume() if paused else servers.pause()
                    paused = not paused
                case 5:
                    servers.catch_up() if not paused else None
            for reader in (first, second):
                mine = reader.scoped(org=org)
                from_replica += is_from_replica(mine)
                for query in ("boat in the harbor", "train"):
                    found = [hit.memory.id for hit in mine.search(query, min_relevance=0)]
                    assert found == [hit.memory.id for hit in there.search(query, min_relevance=0)], step
                assert [each.id for each in mine.recent()] == [each.id for each in there.recent()]
        if paused:
            servers.resume()
    assert from_replica > STEPS // 4


def test_writers_and_readers_of_many_threads_read_their_own_writes(servers: Pair, bag: Satchel):
    failures: list[str] = []

    def write_and_read(org: str) -> None:
        view = bag.scoped(org=org)
        for number in range(15):
            kept = view.add(f"{org} has {number}")
            if view.get(kept.id).text != kept.text or len(view.recent(limit=50)) != number + 1:
                failures.append(f"{org} {number}")

    crew = [threading.Thread(target=write_and_read, args=(f"org{number}",)) for number in range(6)]
    for each in crew:
        each.start()
    for each in crew:
        each.join()
    assert failures == []


def test_a_service_with_worker_processes_reads_from_the_replica(servers: Pair, database: str, tmp_path: Path):
    options = ("--db", servers.primary.url(database), "--read-db", servers.standby.url(database))
    with Served(tmp_path, *options, "--processes", "2") as served:
        for number in range(10):
            added = served.ask("POST", "/v1/memories", {"text": f"boat {number}", "ref": str(number)})
            assert added.status == 201
            listed = served.ask("GET", "/v1/memories?limit=50")
            assert len(listed.value["memories"]) == number + 1
        servers.catch_up()
        before = _answered(servers, database)
        served.ask("GET", "/v1/memories?limit=50")
        until(lambda: _answered(servers, database) > before)


def _answered(servers: Pair, database: str) -> int:
    rows = "SELECT tup_fetched + tup_returned FROM pg_stat_database WHERE datname = "
    return int(servers.standby.run(f"{rows}'{database}'"))


def test_the_status_shows_how_far_a_replica_is(servers: Pair, database: str, cli: Cli):
    done = cli("db", "status", "--db", servers.primary.url(database), "--read-db", servers.standby.url(database))
    assert done.returncode == 0, done.stderr
    place = f"postgresql://postgres@127.0.0.1:{servers.standby.port}/{database}"
    # The server itself may just have written something.
    assert re.search(rf"replica +{place}, (up to date|[0-9,]+ bytes behind)\n", done.stdout)
    assert PASSWORD not in done.stdout
    same = cli("db", "status", "--db", servers.primary.url(database), "--read-db", servers.primary.url(database))
    assert "which is the primary server itself" in same.stdout
