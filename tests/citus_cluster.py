"""A Citus cluster for tests: the one whose coordinator `SATCHEL_TEST_CITUS` names. Tests that need one are skipped
without it.

The address is that of a superuser, who must be able to enter every node under the name by which the coordinator
knows it. Citus and pgvector must be installed on every node.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from satchel.store.locations import distribute_server, prepare_server

__all__ = ["ADDRESS", "LOGIN", "Cluster", "cluster", "run"]

ADDRESS = os.environ.get("SATCHEL_TEST_CITUS", "")
LOGIN = "satchel_test_app"
PASSWORD = "only for tests"


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
        found = "SELECT get_shard_id_for_distribution_column('satchel.memory', %s)"
        placed = f"SELECT nodename, nodeport FROM citus_shards WHERE shardid = ({found})"
        ((host, port),) = run(self.admin(), placed, org)
        return str(host), int(port)

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
