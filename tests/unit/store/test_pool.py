"""The connection pool: its limit holds, no slot is lost, and it closes when all connections are back."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import apsw
import pytest

from satchel.errors import StoreError
from satchel.store.database import Pool
from satchel.store.memories import Uses

LONG = 15


class Opener:
    """Opens connections in memory, and counts them; fails when told to."""

    def __init__(self) -> None:
        self.opened: list[apsw.Connection] = []
        self.failing = False

    def __call__(self) -> apsw.Connection:
        if self.failing:
            raise StoreError("cannot connect")
        self.opened.append(apsw.Connection(":memory:"))
        return self.opened[-1]


@pytest.fixture
def opener() -> Opener:
    return Opener()


def is_closed(connection: apsw.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except apsw.ConnectionClosedError:
        return True
    return False


def test_an_idle_connection_is_used_again(opener: Opener):
    pool = Pool(opener, limit=3)
    for _ in range(5):
        with pool.connection() as db:
            assert db.execute("SELECT 1").get == 1
    assert len(opener.opened) == 1
    pool.close()


def test_connections_in_use_at_once_are_different(opener: Opener):
    pool = Pool(opener, limit=3)
    with pool.connection() as one, pool.connection() as two, pool.connection() as three:
        assert len({id(one), id(two), id(three)}) == 3
    pool.close()
    assert all(map(is_closed, opener.opened))


def test_the_limit_is_kept_and_everyone_has_a_turn(opener: Opener):
    pool = Pool(opener, limit=3)
    together = threading.Barrier(3)
    lock = threading.Lock()
    now, most = 0, 0

    def work(_: int) -> None:
        nonlocal now, most
        with pool.connection():
            with lock:
                now += 1
                most = max(most, now)
            together.wait(LONG)
            with lock:
                now -= 1

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(work, range(24)))
    assert most == 3
    assert len(opener.opened) == 3
    pool.close()


def test_a_waiting_thread_gets_the_connection_that_comes_back(opener: Opener):
    pool = Pool(opener, limit=1)
    got = threading.Event()

    def work() -> None:
        with pool.connection():
            got.set()

    thread = threading.Thread(target=work)
    with pool.connection():
        thread.start()
        assert not got.wait(0.02)
    assert got.wait(LONG)
    thread.join(LONG)
    pool.close()


def test_a_failed_connect_frees_its_place(opener: Opener):
    pool = Pool(opener, limit=1)
    opener.failing = True
    with pytest.raises(StoreError, match="cannot connect"), pool.connection():
        pass
    opener.failing = False
    got = threading.Event()

    def work() -> None:
        with pool.connection():
            got.set()

    # A daemon: a place that was lost would keep it waiting for ever.
    threading.Thread(target=work, daemon=True).start()
    assert got.wait(LONG)
    pool.close()


def test_a_failed_connect_wakes_a_thread_that_waits_for_the_place():
    trying, go = threading.Event(), threading.Event()
    calls: list[int] = []

    def connect() -> apsw.Connection:
        calls.append(1)
        if len(calls) == 1:
            trying.set()
            assert go.wait(LONG)
            raise StoreError("cannot connect")
        return apsw.Connection(":memory:")

    pool = Pool(connect, limit=1)

    def use() -> str:
        try:
            with pool.connection():
                return "used"
        except StoreError:
            return "failed"

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(use)
        assert trying.wait(LONG)
        second = threads.submit(use)
        go.set()
        assert (first.result(LONG), second.result(LONG)) == ("failed", "used")
    pool.close()


def test_an_error_inside_gives_the_connection_back(opener: Opener):
    pool = Pool(opener, limit=1)
    for _ in range(3):
        with pytest.raises(ValueError, match="inside"), pool.connection():
            raise ValueError("inside")
    assert len(opener.opened) == 1
    pool.close()


def test_closing_waits_for_those_in_use(opener: Opener):
    pool = Pool(opener, limit=2)
    closed = threading.Event()

    def close() -> None:
        pool.close()
        closed.set()

    thread = threading.Thread(target=close)
    with pool.connection() as db:
        thread.start()
        assert not closed.wait(0.02)
        assert db.execute("SELECT 1").get == 1
    assert closed.wait(LONG)
    thread.join(LONG)
    assert all(map(is_closed, opener.opened))


def test_closing_turns_away_those_who_wait(opener: Opener):
    pool = Pool(opener, limit=1)
    refused: list[StoreError] = []

    def work() -> None:
        try:
            with pool.connection():
                pass
        except StoreError as error:
            refused.append(error)

    waiting = threading.Thread(target=work)
    closing = threading.Thread(target=pool.close)
    with pool.connection():
        closing.start()
        # Once the pool is closing, nobody new comes in.
        while not pool._closed:
            closing.join(0.001)
        waiting.start()
        waiting.join(LONG)
        assert not waiting.is_alive()
    closing.join(LONG)
    assert [str(error) for error in refused] == ["this store is closed; open it again"]


def test_a_thread_that_waits_while_the_pool_is_closed_is_turned_away(opener: Opener):
    pool = Pool(opener, limit=1)
    refused = threading.Event()
    waiting = threading.Event()
    original = pool._changed.wait_for

    def wait_for(*arguments: object, **options: object) -> object:
        waiting.set()
        return original(*arguments, **options)  # type: ignore[arg-type]

    def work() -> None:
        try:
            with pool.connection():
                pass
        except StoreError:
            refused.set()

    taken = pool.connection()
    taken.__enter__()
    pool._changed.wait_for = wait_for  # type: ignore[method-assign]
    worker = threading.Thread(target=work)
    worker.start()
    assert waiting.wait(LONG)
    closing = threading.Thread(target=pool.close)
    closing.start()
    while not pool._closed:
        closing.join(0.001)
    taken.__exit__(None, None, None)
    worker.join(LONG)
    closing.join(LONG)
    assert not worker.is_alive()
    assert not closing.is_alive()
    assert refused.is_set()


def test_closing_twice_is_fine(opener: Opener):
    pool = Pool(opener, limit=1)
    with pool.connection():
        pass
    pool.close()
    pool.close()
    with pytest.raises(StoreError, match="closed"), pool.connection():
        pass


def test_a_forked_child_neither_uses_nor_closes_the_connections_of_its_parent(opener: Opener, monkeypatch):
    pool = Pool(opener, limit=3)
    with pool.connection() as parents:
        pass
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pool.writing(), pool.connection() as own:
        assert own is not parents
    pool.close()
    assert is_closed(own)
    assert not is_closed(parents)


def test_a_child_that_only_closes_leaves_the_connections_of_its_parent_open(opener: Opener, monkeypatch):
    pool = Pool(opener, limit=3)
    with pool.connection() as parents:
        pass
    monkeypatch.setattr(os, "getpid", lambda: -1)
    pool.close()
    assert not is_closed(parents)


def test_a_forked_child_does_not_write_the_uses_of_its_parent(monkeypatch):
    uses = Uses()
    uses.count(["a", "b"], datetime.now(UTC))
    assert uses
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not uses
    assert uses.take() == {}


def test_one_thread_writes_at_a_time_and_may_write_within_its_own_writing(opener: Opener):
    pool = Pool(opener, limit=3)
    writing, most = 0, 0

    def write(_: int) -> None:
        nonlocal writing, most
        with pool.writing(), pool.writing():
            writing += 1
            most = max(most, writing)
            writing -= 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(200)))
    assert (writing, most) == (0, 1)
