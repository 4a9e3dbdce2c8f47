"""Transactions on a server: a failed write is never reported as stored, and tenants do not block each other."""

import contextlib
import threading

import psycopg
import pytest

import satchel
from satchel import Draft, Satchel
from satchel.errors import StoreBusyError, StoreError, StoreFullError
from satchel.model.filters import Filter
from satchel.store.postgres import store
from satchel.store.postgres.connection import PostgresConnection


@pytest.fixture
def bag(pg_rows_url: str):
    with satchel.open(pg_rows_url, embedder="none") as opened:
        yield opened


def breaking(bag: Satchel) -> None:
    """A statement that fails, as a deadlock or a lost right would."""
    with bag._store._read("default") as db:
        db.execute("SELECT 1 / 0")


def test_a_failure_that_was_passed_over_is_told_at_the_end_and_nothing_is_stored(bag: Satchel):
    def write_on() -> None:
        with bag.transaction():
            bag.add("first")
            with contextlib.suppress(StoreError):
                breaking(bag)

    with pytest.raises(StoreError, match="nothing of it was stored"):
        write_on()
    assert bag.recent() == []


def test_a_part_that_failed_alone_leaves_the_rest(bag: Satchel):
    with bag.transaction():
        bag.add("first")
        with contextlib.suppress(StoreError), bag.transaction():
            bag.add("second")
            breaking(bag)
        bag.add("third")
    assert sorted(memory.text for memory in bag.recent()) == ["first", "third"]
    assert [check for check in bag.checks() if check.state == "failed"] == []


def test_an_interrupted_commit_is_not_ended_by_the_next_reader(bag: Satchel, monkeypatch):
    end = PostgresConnection.end

    def interrupted(db: PostgresConnection, how: str) -> None:
        # Not what is read before it.
        if db._held:
            raise KeyboardInterrupt
        end(db, how)

    monkeypatch.setattr(PostgresConnection, "end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bag.add("half")
    monkeypatch.setattr(PostgresConnection, "end", end)
    assert bag.scoped(org="other").recent() == []
    assert bag.recent() == []


@pytest.mark.parametrize("org", ["a\ufdd0b", "a\0b", "it's", 'a"b', "a\\b", "a\ufdd01", "名前"])
def test_an_org_may_have_any_name(bag: Satchel, org: str):
    view = bag.scoped(org=org)
    view.add("an apple")
    assert [hit.memory.text for hit in view.search("apple")] == ["an apple"]
    assert [memory.scope.org for memory in view.recent()] == [org]
    assert bag.scoped(org=org + "1").recent() == []


def test_words_are_counted_once_however_often_they_change_in_a_transaction(bag: Satchel):
    with bag.transaction():
        for number in range(30):
            bag.add(f"apple number {number}", ref=f"r{number % 10}")
        with contextlib.suppress(ZeroDivisionError), bag.transaction():
            bag.add("an apple that was undone")
            raise ZeroDivisionError
        # Read inside, what is counted so far is there.
        assert bag._store.frequencies(["appl"]) == (10, [10])
        bag.forget([memory.id for memory in bag.recent(limit=4)], purge=True)
    assert bag._store.frequencies(["appl", "undon"]) == (6, [6, 0])
    assert [check for check in bag.checks() if check.state == "failed"] == []


def test_a_purge_takes_the_words_of_all_that_it_removes(bag: Satchel):
    bag.add_many(Draft(f"pear {number}") for number in range(50))
    bag.add("plum")
    bag.forget(kind="observation", purge=True)
    assert bag._store.frequencies(["pear", "plum"]) == (0, [0, 0])
    assert bag._store.words_like("pear", start="p") == []


def test_many_writers_of_one_tenant_hold_up_no_other(bag: Satchel):
    busy, other = bag.scoped(org="busy"), bag.scoped(org="other")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with busy.transaction():
            busy.add("slow")
            held.set()
            done.wait(30)

    def wait(who: int) -> None:
        with busy.transaction():
            busy.add(f"waits {who}")

    crew = [threading.Thread(target=hold), *(threading.Thread(target=wait, args=(who,)) for who in range(20))]
    for each in crew:
        each.start()
        held.wait(30)
    try:
        # On this thread, while twenty wait: it would wait for them without end.
        other.add("at once")
        assert [memory.text for memory in other.recent()] == ["at once"]
        assert busy.recent() == []
    finally:
        done.set()
        for each in crew:
            each.join()
    assert len(busy.recent(limit=50)) == 21


def test_counting_a_use_never_waits_for_a_writer(bag: Satchel, monkeypatch):
    monkeypatch.setattr("satchel.store.store.USES_WAIT_SECONDS", -1.0)
    memory = bag.add("an apple")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with bag.transaction():
            bag.add("slow")
            held.set()
            done.wait(30)

    writer = threading.Thread(target=hold)
    writer.start()
    held.wait(30)
    try:
        assert bag.get(memory.id).access_count == 1
    finally:
        done.set()
        writer.join()


def test_a_writer_that_waits_too_long_says_so(bag: Satchel, monkeypatch):
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.05)
    failures: list[str] = []

    def write() -> None:
        try:
            with bag.transaction():
                bag.add("other")
        except StoreBusyError as error:
            failures.append(str(error))

    with bag.transaction():
        bag.add("mine")
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert ["others have been writing" in failure for failure in failures] == [True]
    assert [memory.text for memory in bag.recent()] == ["mine"]


def test_a_server_whose_disk_is_full_says_so_and_has_stored_nothing(bag: Satchel, pg_rows_url: str):
    kept = bag.add("acknowledged")
    with psycopg.connect(pg_rows_url, autocommit=True) as owner:
        owner.execute(
            "CREATE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
        )
        owner.execute("CREATE TRIGGER full_disk BEFORE INSERT ON satchel.memory EXECUTE FUNCTION full_disk()")
        try:
            with pytest.raises(StoreFullError, match="could not extend file; nothing was written, free some disk"):
                bag.add("one too many")
            assert [memory.id for memory in bag.recent()] == [kept.id]
        finally:
            owner.execute("DROP FUNCTION public.full_disk CASCADE")
    bag.add("there is room again")
    assert len(bag.recent()) == 2


def test_nothing_is_written_while_one_state_is_read(bag: Satchel):
    with pytest.raises(StoreError, match="do it afterwards"), bag._store.reading("default"):
        bag.add("inside")
    assert bag._store.count(Filter(), most=9) == 0


def test_a_child_of_a_process_in_a_transaction_is_in_none(bag: Satchel):
    with bag.transaction():
        bag.add("first")
        connected = bag._store._connections
        connected._pid += 1
        assert connected.current is None
