"""A Citus cluster for tests: the one whose coordinator `SATCHEL_TEST_CITUS` names. Tests that need one are skipped
without it.

The address is that of a superuser, who must be able to enter every node under the name by which the coordinator
knows it. Citus and pgvector must be installed on every node.
"""

import contextlib
import itertools
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from satchel.store.locations import distribute_server, is_address, open_store, prepare_server

__all__ = ["ADDRESS", "LOGIN", "Cluster", "all_orgs", "cluster", "owner_of", "run"]

ADDRESS = os.environ.get("SATCHEL_TEST_CITUS", "")
LOGIN = "satchel_test_app"
PASSWORD = "only for tests"
PATIENCE = 60.0


class Cluster:
    """A new database on every node of the cluster, with an empty distributed store."""

    def __init__(self) -> None:
        self._name = f"satchel_test_{secrets.token_hex(6)}"
        rows = run(ADDRESS, "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 AND isactive ORDER BY 2")
        self.workers = [(str(host), int(port)) for host, port in rows]
        host, port = _place(ADDRESS)
        self.nodes = [(host, port), *self.workers]
        run(
            ADDRESS,
            f"DO $$ BEGIN CREATE ROLE {LOGIN} LOGIN PASSWORD '{PASSWORD}'; "
            "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
        )
        for node in self.nodes:
            with contextlib.suppress(psycopg.errors.DuplicateDatabase):
                run(_at(ADDRESS, node), f"CREATE DATABASE {self._name} TEMPLATE template0 ENCODING 'UTF8'")
            for extension in ("citus", "vector"):
                run(self.admin(node), f"CREATE EXTENSION IF NOT EXISTS {extension}")
        run(self.admin(), "SELECT citus_set_coordinator_host(%s, %s)", host, port)
        for node in self.workers:
            run(self.admin(), "SELECT citus_add_node(%s, %s)", *node)
        # Few, because the tests remove the rows of all of them again and again.
        run(ADDRESS, f"ALTER DATABASE {self._name} SET citus.shard_count TO 4")
        prepare_server(self.admin(), grant=[LOGIN])
        self.done = distribute_server(self.admin())

    def admin(self, node: tuple[str, int] | None = None) -> str:
        """Return the address of the superuser, on the coordinator or on another node."""
        return _url(_at(ADDRESS, node or self.nodes[0]), dbname=self._name)

    @property
    def url(self) -> str:
        """The address of the application's login on the coordinator."""
        return self.url_at(self.nodes[0])

    def url_at(self, node: tuple[str, int]) -> str:
        return _url(self.admin(node), user=LOGIN, password=PASSWORD)

    def empty(self) -> None:
        """Remove all rows of the store."""
        with psycopg.connect(self.admin()) as raw:
            names = "SELECT table_name::text FROM citus_tables WHERE citus_table_type = 'distributed'"
            for (name,) in raw.execute(names).fetchall():
                raw.execute(f"DELETE FROM {name}".encode())

    def node_of(self, org: str) -> tuple[str, int]:
        """Return the node that has the rows of an org."""
        found = "SELECT get_shard_id_for_distribution_column('satchel.memory', %s::text)"
        placed = f"SELECT nodename, nodeport FROM citus_shards WHERE shardid = ({found})"
        ((host, port),) = run(self.admin(), placed, org)
        return str(host), int(port)

    def org_on(self, node: tuple[str, int]) -> str:
        """Return the name of an org whose rows are on a node."""
        return next(org for number in itertools.count() if self.node_of(org := f"org-{number}") == node)

    def move(self, org: str, to: tuple[str, int]) -> None:
        """Move an org, with those that share its shard, to another node while it is in use."""
        shard = "SELECT get_shard_id_for_distribution_column('satchel.memory', %s::text)"
        moving = f"SELECT citus_move_shard_placement(({shard}), %s::text, %s::integer, %s::text, %s::integer)"
        run(self.admin(), moving, org, *self.node_of(org), *to)

    @contextlib.contextmanager
    def killed(self, node: tuple[str, int]) -> Iterator[None]:
        """Kill all processes of a node that runs on this machine, and start it again at the end."""
        started, folder, programs = (
            str(row[0])
            for row in run(
                self.admin(node),
                "SELECT pg_read_file('postmaster.pid') UNION ALL SELECT current_setting('data_directory') "
                "UNION ALL SELECT setting FROM pg_config WHERE name = 'BINDIR'",
            )
        )
        postmaster = int(started.split("\n")[0])
        if not Path(folder).exists() or not Path(f"/proc/{postmaster}").exists():
            pytest.skip("the nodes of the cluster are not on this machine")
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        victims = [postmaster, *map(int, children)]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            yield
        finally:
            _start(programs, Path(folder))

    def drop(self) -> None:
        run(self.admin(), "DROP SCHEMA satchel CASCADE")
        for node in reversed(self.nodes):
            run(_at(ADDRESS, node), f"DROP DATABASE IF EXISTS {self._name} WITH (FORCE)")


def run(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement in a connection of its own, and return its rows."""
    with psycopg.connect(url, autocommit=True) as raw:
        # CREATE DATABASE is run on each node by itself.
        raw.execute("SET citus.enable_create_database_propagation TO off")
        cursor = raw.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    try:
        yield made
    finally:
        made.drop()


def _start(programs: str, folder: Path) -> None:
    """Start a node that was killed, as soon as no process of it is left."""
    owner = folder.stat()
    give_up = time.monotonic() + PATIENCE
    while True:
        done = subprocess.run(
            [f"{programs}/pg_ctl", "restart", "-D", str(folder), "-w", "-l", f"{folder}/restarted.log"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            user=owner.st_uid,
            group=owner.st_gid,
            extra_groups=[],
        )
        if done.returncode == 0:
            return
        if time.monotonic() > give_up:
            raise RuntimeError(f"a node did not start again: see restarted.log in {folder}")
        time.sleep(0.1)


def owner_of(location: str) -> str:
    """Return a location for a login that sees all orgs: on the cluster the superuser's, elsewhere the same."""
    if not ADDRESS or not is_address(location) or conninfo_to_dict(location).get("user") != LOGIN:
        return location
    told = conninfo_to_dict(ADDRESS)
    return _url(location, user=told.get("user", "postgres"), password=told.get("password"))


def all_orgs(location: str) -> list[str]:
    with contextlib.closing(open_store(owner_of(location), unbound=True)) as store:
        return store.orgs()


def _place(url: str) -> tuple[str, int]:
    told = conninfo_to_dict(url)
    return str(told.get("host", "localhost")), int(str(told.get("port", 5432)))


def _at(url: str, node: tuple[str, int]) -> str:
    return _url(url, host=node[0], port=node[1])


def _url(url: str, **changed: Any) -> str:
    """Return an address as a URL with some parts changed."""
    told = {name: str(value) for name, value in conninfo_to_dict(make_conninfo(url, **changed)).items()}
    secret = f":{quote(told['password'], safe='')}" if "password" in told else ""
    place = f"{told.get('host', 'localhost')}:{told.get('port', '5432')}"
    return f"postgresql://{quote(told.get('user', 'postgres'))}{secret}@{place}/{quote(told.get('dbname', ''))}"
