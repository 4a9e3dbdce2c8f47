"""Writes through a service while its PostgreSQL loses connections and restarts: acknowledged writes survive.

Few writes by default; 8 × 252: `SATCHEL_FUZZ=21 pytest tests/crash/test_server_faults.py`.
"""

import itertools
import os
import random
import re
import subprocess
import threading
import time
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

import satchel
from conftest import clean_environment
from mcp_pipe import LONGEST_WAIT, SATCHEL
from pg_server import Server, server
from satchel.errors import StoreError, StoreUnreachableError
from satchel.store.locations import prepare_server
from service_client import Reply, Served, until

WRITERS = 8
WRITES = 12 * int(os.environ.get("SATCHEL_FUZZ", "1"))
# For a pool to recover: the most that is promised.
RECOVERY_SECONDS = 5.0


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server that may be stopped, which writes to its disk before it acknowledges."""
    return server(tmp_path_factory.mktemp("own"), {"fsync": "on", "full_page_writes": "on"})


@pytest.fixture
def url(own_server: Server) -> str:
    made = own_server.new_database()
    satchel.open(made).close()
    return made


def asked(url: str, sql: str) -> list[tuple]:
    with psycopg.connect(url, autocommit=True) as raw:
        return raw.execute(sql).fetchall()


class Writers:
    """Threads that write through the service, each until all of its own are acknowledged."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.acknowledged: list[str] = []
        self.refused: list[int] = []
        self.last: dict[int, float] = {}
        self.crew = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]

    def _write(self, writer: int) -> None:
        for number in range(WRITES):
            ref = f"{writer}-{number}"
            while True:
                reply = self.served.ask(
                    "POST", "/v1/memories", {"text": f"writer {writer} said {number}", "ref": ref}
                )
                if reply.status == 201:
                    break
                self.refused.append(reply.status)
                assert reply.status == 503, reply.content
                time.sleep(0.05)
            self.acknowledged.append(ref)
            self.last[writer] = time.monotonic()

    def run(self, *faults: threading.Thread) -> None:
        for each in (*self.crew, *faults):
            each.start()
        for each in (*self.crew, *faults):
            each.join()

    @property
    def alive(self) -> bool:
        return any(each.is_alive() for each in self.crew)


def assert_all_there(url: str, writers: Writers) -> None:
    stored = [row[0] for row in asked(url, "SELECT ref FROM satchel.memory WHERE org = 'acme'")]
    assert sorted(stored) == sorted(writers.acknowledged)
    assert len(stored) == WRITERS * WRITES
    with satchel.open(url) as bag:
        assert [check for check in bag.scoped(org="acme").checks() if check.state == "failed"] == []


@pytest.mark.parametrize("processes", [1, 2])
def test_eight_writers_at_once_lose_nothing_and_never_deadlock(url: str, tmp_path: Path, processes: int):
    with Served(tmp_path, "--db", url, processes=processes) as served:
        writers = Writers(served)
        writers.run()
    assert writers.refused == []
    assert_all_there(url, writers)
    assert asked(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [(0,)]


def test_connections_that_are_ended_lose_no_acknowledged_write(url: str, tmp_path: Path):
    ended = 0

    def terminate() -> None:
        nonlocal ended
        chance = random.Random(7)
        while writers.alive:
            pids = [
                row[0] for row in asked(url, "SELECT pid FROM pg_stat_activity WHERE application_name = 'satchel'")
            ]
            for pid in chance.sample(pids, min(2, len(pids))):
                ended += bool(asked(url, f"SELECT pg_terminate_backend({pid})")[0][0])
            time.sleep(0.05)

    with Served(tmp_path, "--db", url, processes=2) as served:
        writers = Writers(served)
        writers.run(threading.Thread(target=terminate))
    assert ended > 10
    assert_all_there(url, writers)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_in_the_middle_loses_no_acknowledged_write(
    own_server: Server, url: str, tmp_path: Path, mode: str
):
    back = 0.0

    def restart() -> None:
        nonlocal back
        while len(writers.acknowledged) < WRITERS * WRITES // 4:
            time.sleep(0.01)
        own_server.restart(mode=mode)
        back = time.monotonic()

    with Served(tmp_path, "--db", url, processes=2) as served:
        writers = Writers(served)
        moments: list[float] = []
        watcher = threading.Thread(target=lambda: _watch(writers, moments))
        writers.run(threading.Thread(target=restart), watcher)
    assert_all_there(url, writers)
    # Acknowledged again soon after it was back, by a pool that nobody told.
    assert min(moment for moment in moments if moment > back) - back < RECOVERY_SECONDS


def test_a_server_that_is_stopped_under_load_gives_clear_refusals_until_it_is_back(
    own_server: Server, url: str, tmp_path: Path
):
    sick: list[Reply] = []
    writers: Writers

    def stop_and_start() -> None:
        until(lambda: len(writers.acknowledged) >= WRITERS * WRITES // 4)
        own_server.stop()
        try:
            until(lambda: len(writers.refused) >= WRITERS)
            until(lambda: served.ask("GET", "/healthz", token=None).status == 503)
            sick.append(served.ask("GET", "/v1/stats"))
        finally:
            own_server.start()

    with Served(tmp_path, "--db", url, processes=2) as served:
        writers = Writers(served)
        workers = served.workers
        writers.run(threading.Thread(target=stop_and_start))
        until(lambda: served.ask("GET", "/healthz", token=None).status == 200)
        # The same processes go on.
        assert served.workers == workers
        assert served.metric("satchel_worker_restarts_total") == 0
    (reply,) = sick
    assert (reply.status, reply.value["type"]) == (503, "urn:satchel:problem:store-unreachable")
    assert set(writers.refused) == {503}
    assert url not in reply.content.decode()
    assert_all_there(url, writers)


def test_a_server_that_refuses_the_connections_of_workers_ends_the_start_with_one_line(
    own_server: Server, url: str, tmp_path: Path
):
    # Enough for the service, but not for its workers too.
    own_server.run(sql.SQL("CREATE ROLE limited LOGIN CONNECTION LIMIT 1"))
    prepare_server(url, grant=["limited"])
    limited = url.replace("postgres@", "limited@")
    with Served(tmp_path, "--db", limited, processes=1) as served:
        assert served.ask("GET", "/v1/stats").status == 200
    command = [SATCHEL, "serve", "--http", "127.0.0.1:0", "--processes", "2", "--db", limited]
    environment = clean_environment(tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LONGEST_WAIT)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"satchel: .*too many connections for role \"limited\".*\n", done.stderr), done.stderr


def _watch(writers: Writers, moments: list[float]) -> None:
    known = 0
    while writers.alive:
        if len(writers.acknowledged) > known:
            known = len(writers.acknowledged)
            moments.append(time.monotonic())
        time.sleep(0.01)


def test_a_call_on_a_server_that_is_gone_fails_cleanly_and_works_when_it_is_back(
    own_server: Server, url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("satchel.store.postgres.store.PATIENCE", 0.3)
    with satchel.open(url) as bag:
        kept = bag.add("before")
        own_server.stop()
        try:
            with pytest.raises(StoreUnreachableError, match="does not answer"):
                bag.add("meanwhile")
        finally:
            own_server.start()
        assert bag.get(kept.id).text == "before"
        bag.add("after")
        assert sorted(memory.text for memory in bag.recent()) == ["after", "before"]


def _add_while_connections_end(bag: satchel.Satchel, url: str) -> None:
    with bag.transaction():
        bag.add("first")
        for (pid,) in asked(url, "SELECT pid FROM pg_stat_activity WHERE application_name = 'satchel'"):
            asked(url, f"SELECT pg_terminate_backend({pid})")
        for number in itertools.count():
            bag.add(f"later {number}")


def test_a_transaction_whose_connection_is_ended_stores_nothing(url: str):
    with satchel.open(url) as bag:
        with pytest.raises(StoreError):
            _add_while_connections_end(bag, url)
        assert bag.recent() == []
        bag.add("again")
        assert [memory.text for memory in bag.recent()] == ["again"]
