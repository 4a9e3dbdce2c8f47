"""A failover in mid-write: the primary server is killed, its standby takes over, and nothing is lost."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import psycopg
import pytest

import satchel
from in_step import Letters
from pg_pair import Pair, pair, until
from satchel import Draft, Satchel
from satchel.errors import StoreError, StoreReadOnlyError
from satchel.store.locations import prepare_server

WRITERS = 6
# From the moment when the standby takes writes.
RECOVERY_SECONDS = 5.0
NAME = "store"
OUTCOMES = ("does not answer", "nothing was stored", "whether it was stored is not known")


@pytest.fixture
def synchronous() -> Iterator[Pair]:
    with pair(synchronous=True) as started:
        yield _with_store(started)


@pytest.fixture
def asynchronous() -> Iterator[Pair]:
    with pair() as started:
        yield _with_store(started)


def _with_store(servers: Pair) -> Pair:
    servers.primary.run(f"CREATE DATABASE {NAME} TEMPLATE template0 ENCODING 'UTF8'")
    prepare_server(servers.primary.url(NAME))
    servers.catch_up()
    return servers


def fail_over(servers: Pair) -> float:
    """Kill the primary and promote the standby; returns when it took writes."""
    servers.primary.kill()
    servers.standby.promote()
    return time.monotonic()


class Writers:
    """Threads that write until they are told to stop, and note what was acknowledged and what failed."""

    def __init__(self, url: str) -> None:
        self.acknowledged: list[tuple[float, str]] = []
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._url = url
        self._crew = [
            threading.Thread(target=self._write, args=(f"org{number % 3}", number)) for number in range(WRITERS)
        ]

    def __enter__(self) -> "Writers":
        for each in self._crew:
            each.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for each in self._crew:
            each.join()

    def _write(self, org: str, writer: int) -> None:
        with satchel.open(self._url, embedder="none") as bag:
            view = bag.scoped(org=org)
            number = 0
            while not self._stop.is_set():
                number += 1
                ref = f"{writer}-{number}"
                try:
                    view.add(f"writer {writer} said {number}", ref=ref)
                except StoreError as error:
                    self.failures.append(str(error))
                else:
                    self.acknowledged.append((time.monotonic(), ref))


def test_writers_go_on_at_the_standby_and_nothing_acknowledged_is_lost(synchronous: Pair):
    url = synchronous.both(NAME)
    with Writers(url) as writers:
        until(lambda: len(writers.acknowledged) > 5 * WRITERS)
        back = fail_over(synchronous)
        until(lambda: len(writers.acknowledged) > 10 and writers.acknowledged[-1][0] > back)
        first = min(moment for moment, _ in writers.acknowledged if moment > back)
        goal = len(writers.acknowledged) + 5 * WRITERS
        until(lambda: len(writers.acknowledged) > goal)
    assert first - back < RECOVERY_SECONDS
    for failure in writers.failures:
        assert any(outcome in failure for outcome in OUTCOMES), failure
        assert "\n" not in failure
        assert failure.startswith("postgresql://postgres@127.0.0.1:")
    with psycopg.connect(synchronous.standby.url(NAME)) as raw:
        stored = {ref for (ref,) in raw.execute("SELECT ref FROM satchel.memory")}
    assert {ref for _, ref in writers.acknowledged} <= stored
    with satchel.open(url) as bag:
        for org in range(3):
            assert [check for check in bag.scoped(org=f"org{org}").checks() if check.state == "failed"] == []


def test_a_connection_to_a_server_that_takes_no_writes_any_more_is_left(asynchronous: Pair):
    # Both servers at one address, as behind a virtual IP: what is open stays with the old primary.
    hosts = asynchronous.both(NAME).replace("target_session_attrs=read-write", "")
    with satchel.open(hosts, embedder="none") as bag:
        bag.add("before")
        asynchronous.primary.run(f"ALTER DATABASE {NAME} SET default_transaction_read_only TO on")
        with psycopg.connect(asynchronous.primary.url()) as raw:
            raw.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'satchel'"
            )
        with pytest.raises(StoreReadOnlyError, match="can only be read; name the server that takes writes"):
            bag.add("is refused")
        assert [memory.text for memory in bag.recent()] == ["before"]
        asynchronous.primary.run(f"ALTER DATABASE {NAME} RESET default_transaction_read_only")
        # The connection that was just used for reading still takes no writes; a new one does.
        bag.add("after")
        assert {memory.text for memory in bag.recent()} == {"before", "after"}
        with bag.transaction():
            bag.add("in a transaction")


class Backwards(Letters):
    """Another embedder with vectors of the same size."""

    name = "backwards"

    def embed(self, texts: Sequence[str]) -> "np.ndarray":
        return super().embed(texts)[:, ::-1]


def lose(servers: Pair, lost: Callable[[], object]) -> None:
    """Let the primary do what its standby never receives, and then fail over."""
    servers.catch_up()
    servers.standby.stop()
    lost()
    servers.primary.kill()
    servers.standby.start()
    servers.standby.promote()


def found(bag: Satchel) -> list[str]:
    return [hit.memory.text for hit in bag.search("boat in the harbor", min_relevance=0)]


def test_what_is_kept_in_memory_is_not_taken_for_the_other_writes_of_a_new_primary(asynchronous: Pair):
    url = asynchronous.both(NAME)
    with satchel.open(url, embedder="static") as bag:
        bag.add_many(Draft(f"boat {number} in the harbor") for number in range(5))
        before = found(bag)

        def write() -> None:
            for number in range(4):
                bag.add(f"a lost boat {number} in the harbor")
                assert len(found(bag)) == 6 + number

        lose(asynchronous, write)
        assert sorted(found(bag)) == sorted(before)
        # As many changes as were lost, and then more.
        for number in range(6):
            kept = bag.add(f"a new boat {number} in the harbor")
            assert kept.text in found(bag)
            assert not any("lost" in text for text in found(bag))
        with satchel.open(url, embedder="static", cache_mb=0) as witness:
            assert found(bag) == found(witness)


def test_what_others_wrote_on_the_new_primary_is_seen_although_as_much_was_lost(asynchronous: Pair):
    url = asynchronous.both(NAME)
    with (
        satchel.open(url, embedder="static") as bag,
        satchel.open(url, embedder="static") as other,
    ):
        bag.add_many(Draft(f"boat {number} in the harbor") for number in range(5))

        def write() -> None:
            for number in range(3):
                bag.add(f"a lost boat {number} in the harbor")
            assert len(found(bag)) == 8

        lose(asynchronous, write)
        for number in range(3):
            other.add(f"a new boat {number} in the harbor")
        with satchel.open(url, embedder="static", cache_mb=0) as witness:
            assert found(bag) == found(witness)


def test_vectors_that_were_lost_are_not_taken_for_those_that_another_embedder_made_later(asynchronous: Pair):
    url = asynchronous.both(NAME)
    with satchel.open(url, embedder=Letters()) as bag:
        bag.add("a boat in the harbor")
        before = bag._store.version("default")
        versions = []

        def embed_again() -> None:
            bag.reembed(Letters())
            versions.append(bag._store.version("default"))

        lose(asynchronous, embed_again)
        assert bag._store.version("default") == before
        with satchel.open(url, embedder=Letters()) as other:
            other.reembed(Backwards())
        versions.append(bag._store.version("default"))
    # The same generation, of other vectors.
    assert [version.generation for version in versions] == [2, 2]
    assert versions[0] != versions[1]


def test_a_server_that_vanishes_without_a_word_is_given_up_after_half_a_minute(asynchronous: Pair):
    with (
        satchel.open(asynchronous.primary.url(NAME)) as bag,
        bag._store.reading() as db,
        socket.socket(fileno=os.dup(db.raw.fileno())) as line,
    ):
        option = partial(line.getsockopt, socket.IPPROTO_TCP)
        waited = option(socket.TCP_KEEPIDLE) + option(socket.TCP_KEEPCNT) * option(socket.TCP_KEEPINTVL)
        assert waited <= 30
        assert 0 < option(socket.TCP_USER_TIMEOUT) <= 30_000
